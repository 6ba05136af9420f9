/*
 * exchange.c - exchanges between ranks. If a supervisor has several ranks, every exchange is an allgather in shared
 * memory: each rank stores its data, the first rank exchanges them with the first ranks of other supervisors through
 * MPI, and all ranks read the result. All steps are non-blocking and polled with the timeout of world.h.
 */
#include "bootstrap/world/exchange.h"

#include "bootstrap/base/alloc.h"
#include "bootstrap/world/siblings.h"

#include <limits.h>
#include <mpi.h>
#include <stdlib.h>
#include <string.h>

/* ---- exchanges through MPI ---- */

int bb_mpi_failed(int code, const char *call)
{
    char text[MPI_MAX_ERROR_STRING] = "MPI cannot be started";
    int length, up = 0;

    if (code == MPI_SUCCESS)
        return 0;
    if (MPI_Initialized(&up) == MPI_SUCCESS && up)
        MPI_Error_string(code, text, &length);
    return bb_err(BB_EFAIL, "%s: %s", call, text);
}

static int request_ready(void *arg)
{
    int done = 0, rc = bb_mpi_failed(MPI_Test(arg, &done, MPI_STATUS_IGNORE), "MPI_Test");

    return rc ? rc : done;
}

static int fits_mpi(size_t bytes)
{
    return bytes <= INT_MAX ? 0 : bb_err(BB_EFAIL, "cannot exchange %zu bytes at once, the limit is 2 GiB", bytes);
}

/* Waits for the request that the MPI function `call` has started. code: result of that function. */
static int finish_request(struct bb_world *w, const char *what, int code, const char *call, MPI_Request *request)
{
    const int rc = bb_mpi_failed(code, call);

    return rc ? rc : bb_world_wait(w, what, request_ready, request);
}

/* The answer of the supervisor: the data of all ranks. */
struct relayed {
    struct bb_supervised *supervised;
    void *data;
    size_t bytes;
};

static int relayed_ready(void *arg)
{
    const struct relayed *r = arg;

    return bb_supervised_answer(r->supervised, r->data, r->bytes);
}

/* Allgather through the supervisors. bytes: of the ranks of this supervisor */
static int gather_by_supervisors(struct bb_world *w, const char *what, const void *send, void *recv, size_t bytes)
{
    const size_t each = bytes / (size_t)(w->siblings ? w->siblings->count : 1);
    struct relayed relayed = {&w->supervised, recv, each * (size_t)w->size};
    int rc;

    TRY(bb_supervised_gather(&w->supervised, send ? send : (char *)recv + (size_t)w->rank * each, bytes));
    rc = bb_world_wait(w, what, relayed_ready, &relayed);
out:
    return rc;
}

/* Allgather between the processes of MPI_COMM_WORLD. send NULL: the data of this process are already in recv, at their
 * final position (MPI_IN_PLACE). */
static int gather_processes(struct bb_world *w, const char *what, const void *send, void *recv, size_t bytes)
{
    const int n = (int)bytes;
    MPI_Request request;
    int rc;

    if (w->relayed)
        return gather_by_supervisors(w, what, send, recv, bytes);
    TRY(fits_mpi(bytes));
    rc = MPI_Iallgather(send ? send : MPI_IN_PLACE, n, MPI_BYTE, recv, n, MPI_BYTE, MPI_COMM_WORLD, &request);
    rc = finish_request(w, what, rc, "MPI_Iallgather", &request);
out:
    return rc;
}

/* ---- exchanges through the shared memory of the ranks of one supervisor ---- */

/* A counter of the shared memory, and the value that ends a wait for it. */
struct count {
    atomic_uint *counter;
    unsigned value;
};

static int count_reached(void *arg)
{
    const struct count *count = arg;

    return atomic_load(count->counter) >= count->value;
}

static int await_count(struct bb_world *w, const char *what, atomic_uint *counter, unsigned value)
{
    return bb_world_wait(w, what, count_reached, &(struct count){counter, value});
}

/* First rank of a supervisor: once all ranks of the supervisor have entered the exchange, gathers the data of the other
 * supervisors' ranks. */
static int gather_for_siblings(struct bb_world *w, const char *what, size_t bytes)
{
    struct bb_siblings *s = w->siblings;
    int rc;

    TRY(await_count(w, what, &s->shared->entered, (s->done + 1) * (unsigned)s->count));
    if (w->size > s->count)
        TRY(gather_processes(w, what, NULL, s->shared->data, (size_t)s->count * bytes));
    atomic_fetch_add(&s->shared->gathered, 1);
out:
    return rc;
}

/* Allgather for a supervisor with several ranks. A rank enters the exchange when all ranks of the supervisor have left
 * the previous one. After n exchanges, the counters `entered` and `left` are n times the number of ranks of the
 * supervisor, and `gathered` is n. */
static int gather_with_siblings(struct bb_world *w, const char *what, const void *send, void *recv, size_t bytes)
{
    struct bb_siblings *s = w->siblings;
    int rc;

    if ((size_t)w->size * bytes > BB_SIBLINGS_BYTES)
        return bb_err(BB_EFAIL, "cannot exchange %zu bytes of each of %d ranks with -g, the limit is %d MiB in total",
                      bytes, w->size, BB_SIBLINGS_BYTES >> 20);
    TRY(await_count(w, what, &s->shared->left, s->done * (unsigned)s->count));
    memcpy(s->shared->data + (size_t)w->rank * bytes, send, bytes);
    atomic_fetch_add(&s->shared->entered, 1);
    if (s->place == 0)
        TRY(gather_for_siblings(w, what, bytes));
    TRY(await_count(w, what, &s->shared->gathered, ++s->done));
    memcpy(recv, s->shared->data, (size_t)w->size * bytes);
    atomic_fetch_add(&s->shared->left, 1);
out:
    return rc;
}

int bb_exchange_places(struct bb_world *w)
{
    struct bb_siblings *s = w->siblings;
    int rc = 0;

    if (s->place == 0) {
        s->shared->first_rank = w->rank;
        atomic_store(&s->shared->size, (unsigned)w->size);
        return 0;
    }
    TRY(await_count(w, "the exchange of rank numbers", &s->shared->size, 1));
    w->rank = s->shared->first_rank + s->place;
    w->size = (int)atomic_load(&s->shared->size);
out:
    return rc;
}

/* ---- the functions of world.h ---- */

/* Stores rc, 0 or the error of an exchange, in the world, and returns rc. The exchanges of different ranks are matched
 * only by their order, so after a failure this rank takes part in no further exchange. */
static int note_failure(struct bb_world *w, int rc)
{
    if (rc)
        w->out_of_step = rc;
    return rc;
}

/* Returns whether each rank is an MPI process, so that one MPI operation executes an exchange of all ranks. */
static bool uses_mpi_alone(const struct bb_world *w)
{
    return w->size > 1 && !w->siblings && !w->relayed && !w->out_of_step;
}

/* Ends an exchange with the result rc. Returns rc. */
static int end_exchange(struct bb_world *w, int rc)
{
    if (rc == 0)
        bb_supervised_exchanges(&w->supervised);
    return note_failure(w, rc);
}

/* Exchanges data through a separate buffer. If the wait is abandoned, the MPI request stays pending and MPI may still
 * write to that buffer, so the buffer is not freed. The job ends in this case. */
int bb_exchange_all(struct bb_world *w, const char *what, const void *send, void *recv, size_t bytes)
{
    const size_t all_bytes = (size_t)w->size * bytes;
    char *own;
    int rc;

    if (w->size == 1) {
        memcpy(recv, send, bytes);
        return 0;
    }
    if (w->out_of_step)
        return w->out_of_step;
    bb_supervised_exchanges(&w->supervised);
    BB_NEW(own, bytes + all_bytes);
    memcpy(own + all_bytes, send, bytes);
    TRY(w->siblings ? gather_with_siblings(w, what, own + all_bytes, own, bytes)
                    : gather_processes(w, what, own + all_bytes, own, bytes));
    memcpy(recv, own, all_bytes);
    free(own);
out:
    return end_exchange(w, rc);
}

int bb_world_allgather(struct bb_world *w, const void *send, void *recv, size_t bytes)
{
    return bb_exchange_all(w, "an exchange (allgather)", send, recv, bytes);
}

static int bcast_by_gather(struct bb_world *w, void *buf, size_t bytes, int root)
{
    int rc;
    char *all = bb_world_gather(w, buf, bytes, &rc);

    if (all)
        memcpy(buf, all + (size_t)root * bytes, bytes);
    free(all);
    return rc;
}

int bb_world_bcast(struct bb_world *w, void *buf, size_t bytes, int root)
{
    MPI_Request request;
    char *own;
    int rc;

    if (!uses_mpi_alone(w))
        return bcast_by_gather(w, buf, bytes, root);
    bb_supervised_exchanges(&w->supervised);
    TRY(fits_mpi(bytes));
    BB_NEW(own, bytes);
    memcpy(own, buf, bytes);
    rc = MPI_Ibcast(own, (int)bytes, MPI_BYTE, root, MPI_COMM_WORLD, &request);
    TRY(finish_request(w, "an exchange (bcast)", rc, "MPI_Ibcast", &request)); /* on an error, `own` is not freed,
                                                                                  because MPI may still write to it */
    memcpy(buf, own, bytes);
    free(own);
out:
    return end_exchange(w, rc);
}

int bb_world_barrier(struct bb_world *w, const char *what)
{
    MPI_Request request;
    char here = 1, all[w->size];

    if (!uses_mpi_alone(w))
        return bb_exchange_all(w, what, &here, all, sizeof(here));
    bb_supervised_exchanges(&w->supervised);
    return end_exchange(w, finish_request(w, what, MPI_Ibarrier(MPI_COMM_WORLD, &request), "MPI_Ibarrier", &request));
}
