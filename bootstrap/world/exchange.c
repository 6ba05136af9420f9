/*
 * exchange.c - exchanges between ranks. If processes have several ranks, every exchange is an allgather in three steps:
 * the first rank of a process collects the data of its forked ranks, exchanges them with the other processes through
 * MPI, and sends the result to its forked ranks. All steps are non-blocking and polled with the timeout of world.h.
 */
#include "bootstrap/world/exchange.h"

#include "bootstrap/base/clock.h"
#include "bootstrap/start/siblings.h"

#include <errno.h>
#include <limits.h>
#include <mpi.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

static const double LOST_S = 2; /* seconds from a closed socket to the error line about it; meanwhile the watchdog
                                   can report the lost rank with more details */

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

/* ---- between the ranks of one process, through sockets ---- */

enum stage { COLLECT, BEGIN_PROCESSES, AWAIT_PROCESSES, HAND_OUT };

struct exchange {
    const struct bb_world *w;
    const char *send;
    char *recv;
    size_t bytes, *moved; /* bytes: data per rank; moved: [number of ranks in this process] bytes transferred so far
                             in this stage, per socket */
    enum stage stage;
    double lost_s; /* time at which a socket was found closed; 0: none */
    MPI_Request request;
};

/* Sends (out true) or receives (out false) as many bytes as possible without blocking, and adds their number to
 * *moved. Returns 1 when all bytes are transferred, 0 if not yet, -1 if the other end is closed. */
static int move_bytes(int fd, char *memory, size_t bytes, size_t *moved, bool out)
{
    ssize_t n = 0;

    while (*moved < bytes) {
        n = out ? send(fd, memory + *moved, bytes - *moved, MSG_NOSIGNAL | MSG_DONTWAIT)
                : recv(fd, memory + *moved, bytes - *moved, MSG_DONTWAIT);
        if (n <= 0)
            break;
        *moved += (size_t)n;
    }
    if (*moved == bytes)
        return 1;
    return n < 0 && (errno == EAGAIN || errno == EINTR) ? 0 : -1;
}

static int take_loss(struct exchange *x)
{
    if (x->lost_s == 0)
        x->lost_s = bb_now_s();
    return bb_now_s() - x->lost_s < LOST_S ? 0 : bb_err(BB_ETIMEOUT, "a rank of the same process is lost");
}

/* Receives (out false) or sends (out true) the data of the current stage on all sockets to the forked ranks. bytes:
 * data per socket. step: distance in bytes between the data of two consecutive sockets in `memory`; 0: all sockets
 * send the same data. Returns 1 when all transfers are complete, 0 before, or a negative error. */
static int move_all(struct exchange *x, char *memory, size_t bytes, size_t step, bool out)
{
    const struct bb_siblings *s = x->w->siblings;
    bool all = true;

    for (int i = 0; i < s->count; i++) {
        int done = s->fds[i] < 0 ? 1 : move_bytes(s->fds[i], memory + (size_t)i * step, bytes, &x->moved[i], out);

        if (done < 0)
            return take_loss(x);
        all = all && done;
    }
    if (all)
        memset(x->moved, 0, (size_t)s->count * sizeof(*x->moved));
    return all;
}

static int first_ready(void *arg)
{
    struct exchange *x = arg;
    const size_t count = (size_t)x->w->siblings->count, size = (size_t)x->w->size;
    char *own = x->recv + (size_t)x->w->rank * x->bytes;
    int rc = 1;

    if (x->stage == COLLECT && (rc = move_all(x, own, x->bytes, x->bytes, false)) > 0) {
        memcpy(own, x->send, x->bytes);
        x->stage = size > count ? BEGIN_PROCESSES : HAND_OUT;
    }
    if (x->stage == BEGIN_PROCESSES) {
        rc = begin_gather(NULL, x->recv, count * x->bytes, &x->request);
        x->stage = AWAIT_PROCESSES;
    }
    if (x->stage == AWAIT_PROCESSES && rc >= 0 && (rc = request_ready(&x->request)) > 0)
        x->stage = HAND_OUT;
    if (x->stage == HAND_OUT)
        rc = move_all(x, x->recv, size * x->bytes, 0, true);
    return rc;
}

static int other_ready(void *arg)
{
    struct exchange *x = arg;
    const int fd = x->w->siblings->fds[0];
    int done = 1;

    if (x->stage == COLLECT) {
        done = move_bytes(fd, (char *)(uintptr_t)x->send, x->bytes, &x->moved[0], true);
        if (done > 0) {
            x->stage = HAND_OUT;
            x->moved[0] = 0;
        }
    }
    if (x->stage == HAND_OUT)
        done = move_bytes(fd, x->recv, (size_t)x->w->size * x->bytes, &x->moved[0], false);
    return done < 0 ? take_loss(x) : done;
}

static int exchange_with_siblings(struct bb_world *w, const char *what, const void *send, void *recv, size_t bytes)
{
    struct exchange x = {.w = w, .send = send, .recv = recv, .bytes = bytes};
    int rc;

    x.moved = calloc((size_t)w->siblings->count, sizeof(*x.moved));
    if (!x.moved)
        return bb_err(BB_EFAIL, "out of memory for %d ranks of a process", w->siblings->count);
    rc = bb_world_wait(w, what, w->siblings->place == 0 ? first_ready : other_ready, &x);
    free(x.moved);
    return rc;
}

struct place_reader {
    int fd, numbers[2];
    size_t moved;
};

static int place_ready(void *arg)
{
    struct place_reader *p = arg;
    int done = move_bytes(p->fd, (char *)p->numbers, sizeof(p->numbers), &p->moved, false);

    return done < 0 ? -BB_EFAIL : done; /* no error line, because the first rank of the process has printed it */
}

int bb_exchange_places(struct bb_world *w)
{
    const struct bb_siblings *s = w->siblings;
    struct place_reader reader = {.fd = s->fds[0]};
    int rc = 0;

    for (int i = 1; s->place == 0 && i < s->count; i++) {
        const int numbers[] = {w->rank + i, w->size};

        if (send(s->fds[i], numbers, sizeof(numbers), MSG_NOSIGNAL) != sizeof(numbers))
            return bb_err(BB_EFAIL, "lost connection to rank %d, which this rank forked: %s", numbers[0],
                          strerror(errno));
    }
    if (s->place == 0)
        return 0;
    TRY(bb_world_wait(w, "the exchange of rank numbers", place_ready, &reader));
    w->rank = reader.numbers[0];
    w->size = reader.numbers[1];
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
