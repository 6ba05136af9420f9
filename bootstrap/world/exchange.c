/*
 * exchange.c - exchanges between ranks. If a supervisor has several ranks, every exchange is an allgather in shared
 * memory: each rank stores its data, the first rank exchanges them with the first ranks of other supervisors through
 * MPI, and all ranks read the result. All steps are non-blocking and polled with the timeout of world.h.
 */
#include "bootstrap/world/exchange.h"

#include "bootstrap/world/siblings.h"

#include <limits.h>
#include <mpi.h>
#include <stdlib.h>
#include <string.h>

/* ---- between processes, through MPI ---- */

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

/* Starts a non-blocking allgather. send NULL: the data of this process are already in recv, at their final position
 * (MPI_IN_PLACE). */
static int begin_gather(const void *send, void *recv, size_t bytes, MPI_Request *request)
{
    const int n = (int)bytes;
    int rc = fits_mpi(bytes);

    TRY(rc);
    TRY(bb_mpi_failed(
        MPI_Iallgather(send ? send : MPI_IN_PLACE, n, MPI_BYTE, recv, n, MPI_BYTE, MPI_COMM_WORLD, request),
        "MPI_Iallgather"));
out:
    return rc;
}

/* ---- between the ranks of one supervisor, through shared memory ---- */

/* Counters of the shared memory (siblings.h) after n exchanges: entered and left are n times the number of ranks of the
 * supervisor, gathered is n. */
enum stage { ENTER, GATHER, AWAIT_PROCESSES, LEAVE };

struct exchange {
    const struct bb_world *w;
    const char *send;
    char *recv;
    size_t bytes; /* data per rank */
    enum stage stage;
    MPI_Request request;
};

/* Enters the exchange, once all ranks have left the previous one: stores the data of this rank. */
static int enter(struct exchange *x)
{
    struct bb_siblings *s = x->w->siblings;

    if (atomic_load(&s->shared->left) < s->done * (unsigned)s->count)
        return 0;
    memcpy(s->shared->data + (size_t)x->w->rank * x->bytes, x->send, x->bytes);
    atomic_fetch_add(&s->shared->entered, 1);
    x->stage = s->place == 0 ? GATHER : LEAVE;
    return 1;
}

/* First rank: once all ranks have entered, gathers the data of the other supervisors' ranks. */
static int gather_processes(struct exchange *x)
{
    struct bb_siblings *s = x->w->siblings;
    int rc = 1;

    if (x->stage == GATHER && atomic_load(&s->shared->entered) < (s->done + 1) * (unsigned)s->count)
        return 0;
    if (x->stage == GATHER && x->w->size > s->count)
        rc = begin_gather(NULL, s->shared->data, (size_t)s->count * x->bytes, &x->request);
    if (rc >= 0 && x->w->size > s->count) {
        x->stage = AWAIT_PROCESSES;
        rc = request_ready(&x->request);
    }
    if (rc > 0) {
        atomic_fetch_add(&s->shared->gathered, 1);
        x->stage = LEAVE;
    }
    return rc;
}

static int siblings_ready(void *arg)
{
    struct exchange *x = arg;
    struct bb_siblings *s = x->w->siblings;
    int rc = 1;

    if (x->stage == ENTER)
        rc = enter(x);
    if (rc > 0 && (x->stage == GATHER || x->stage == AWAIT_PROCESSES))
        rc = gather_processes(x);
    if (rc <= 0 || x->stage != LEAVE || atomic_load(&s->shared->gathered) <= s->done)
        return rc < 0 ? rc : 0;
    memcpy(x->recv, s->shared->data, (size_t)x->w->size * x->bytes);
    atomic_fetch_add(&s->shared->left, 1);
    s->done++;
    return 1;
}

static int exchange_with_siblings(struct bb_world *w, const char *what, const void *send, void *recv, size_t bytes)
{
    struct exchange x = {.w = w, .send = send, .recv = recv, .bytes = bytes};

    if ((size_t)w->size * bytes > BB_SIBLINGS_BYTES)
        return bb_err(BB_EFAIL, "cannot exchange %zu bytes of each of %d ranks with -g, the limit is %d MiB in total",
                      bytes, w->size, BB_SIBLINGS_BYTES >> 20);
    return bb_world_wait(w, what, siblings_ready, &x);
}

static int places_ready(void *shared)
{
    return atomic_load(&((struct bb_siblings_memory *)shared)->size) > 0;
}

int bb_exchange_places(struct bb_world *w)
{
    struct bb_siblings *s = w->siblings;
    int rc = 0;

    if (s->place == 0) {
        s->shared->first_rank = w->rank;
        atomic_store(&s->shared->size, w->size);
        return 0;
    }
    TRY(bb_world_wait(w, "the exchange of rank numbers", places_ready, s->shared));
    w->rank = s->shared->first_rank + s->place;
    w->size = atomic_load(&s->shared->size);
out:
    return rc;
}

/* ---- exchanges of world.h ---- */

/* Stores rc, the error of a failed exchange, in the world and returns it. The exchanges of different ranks are
 * matched only by their order, so after a failure this rank takes part in no further exchange. */
static int note_failure(struct bb_world *w, int rc)
{
    if (rc)
        w->out_of_step = rc;
    return rc;
}

static int gather_all(struct bb_world *w, const char *what, const void *send, void *recv, size_t bytes)
{
    MPI_Request request;
    int rc;

    if (w->siblings)
        return exchange_with_siblings(w, what, send, recv, bytes);
    TRY(begin_gather(send, recv, bytes, &request));
    TRY(bb_world_wait(w, what, request_ready, &request));
out:
    return rc;
}

/* Exchanges data through separate buffers. If the wait is abandoned, the MPI request stays pending and MPI may still
 * write to these buffers, so they are not freed. The job ends in this case. */
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
    own = malloc(bytes + all_bytes);
    if (!own)
        return note_failure(w, bb_err(BB_EFAIL, "out of memory for %zu bytes from each of %d ranks", bytes, w->size));
    memcpy(own + all_bytes, send, bytes);
    TRY(gather_all(w, what, own + all_bytes, own, bytes));
    memcpy(recv, own, all_bytes);
    free(own);
out:
    return note_failure(w, rc);
}

int bb_world_allgather(struct bb_world *w, const void *send, void *recv, size_t bytes)
{
    return bb_exchange_all(w, "an exchange (allgather)", send, recv, bytes);
}

static int bcast_with_siblings(struct bb_world *w, void *buf, size_t bytes, int root)
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

    if (w->size == 1)
        return 0;
    if (w->siblings)
        return bcast_with_siblings(w, buf, bytes, root);
    if (w->out_of_step)
        return w->out_of_step;
    TRY(fits_mpi(bytes));
    own = malloc(bytes);
    if (!own)
        return note_failure(w, bb_err(BB_EFAIL, "out of memory for a broadcast of %zu bytes", bytes));
    memcpy(own, buf, bytes);
    TRY(bb_mpi_failed(MPI_Ibcast(own, (int)bytes, MPI_BYTE, root, MPI_COMM_WORLD, &request), "MPI_Ibcast"));
    TRY(bb_world_wait(w, "an exchange (bcast)", request_ready, &request)); /* on an error, `own` is not freed,
                                                                              because MPI may still write to it */
    memcpy(buf, own, bytes);
    free(own);
out:
    return note_failure(w, rc);
}

int bb_world_barrier(struct bb_world *w, const char *what)
{
    MPI_Request request;
    char here = 1, all[w->size];
    int rc;

    if (w->size == 1)
        return 0;
    if (w->siblings)
        return bb_exchange_all(w, what, &here, all, sizeof(here));
    if (w->out_of_step)
        return w->out_of_step;
    TRY(bb_mpi_failed(MPI_Ibarrier(MPI_COMM_WORLD, &request), "MPI_Ibarrier"));
    TRY(bb_world_wait(w, what, request_ready, &request));
out:
    return note_failure(w, rc);
}
