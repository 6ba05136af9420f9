/*
 * collectives.c - collectives, in steps through the shared region: every rank writes a chunk of its input into its own
 * staging buffer, all ranks pass a barrier, and every rank reads what it needs from the others' buffers.
 *
 * Buffers of even and odd steps alternate, so one barrier per step is enough: a rank that writes the buffer of step k+2
 * has passed the barrier of step k+1, where all ranks arrived after reading step k. The descriptions of the operation
 * are exchanged in the first step and compared before any data is used.
 */
#include "choice.h"
#include "cost.h"
#include "hazards.h"
#include "reduce.h"
#include "types.h"

#include "../engine.h"

#include <stdio.h>
#include <string.h>

/* If the inputs of all ranks have at most this size, each rank reduces everything itself: one barrier instead of
 * two. */
static const size_t direct_bytes = 256u << 10;

/* One execution of a collective. */
struct run {
    ncclComm_t comm;
    const struct en_task *task;
    const struct en_kind_row *kind;
    size_t bytes;       /* per element */
    size_t chunk;       /* elements per staging buffer */
    bool compared;      /* the descriptions have been compared */
    int64_t arrival_ns; /* this rank's arrival; after the comparison the latest of all ranks */
    int64_t extra_ns;   /* contention loss of this rank; after the comparison the maximum over all ranks */
    int parity;         /* of the latest step */
};

static size_t smaller(size_t a, size_t b)
{
    return a < b ? a : b;
}

static void describe_self(struct run *run)
{
    const struct en_task *t = run->task;
    struct en_member *me = &run->comm->region.members[run->comm->rank];
    uint64_t scalar = t->scalar;

    if (t->op == EN_PREMULSUM && t->device_scalar != NULL && emu_moves_data())
        memcpy(&scalar, t->device_scalar, run->bytes);
    me->desc[run->comm->step & 1] = (struct en_desc){.kind = t->kind,
                                                     .dtype = t->dtype,
                                                     .op = t->op,
                                                     .root = t->root,
                                                     .algorithm = t->algorithm,
                                                     .protocol = t->protocol,
                                                     .count = t->count,
                                                     .scalar = scalar,
                                                     .arrival_ns = run->arrival_ns,
                                                     .extra_ns = run->extra_ns};
}

static bool same_choice(const struct en_desc *a, const struct en_desc *b)
{
    return a->algorithm == b->algorithm && a->protocol == b->protocol;
}

static bool same(const struct en_desc *a, const struct en_desc *b)
{
    return a->kind == b->kind && a->dtype == b->dtype && a->op == b->op && a->root == b->root && a->count == b->count &&
           same_choice(a, b);
}

static void add_choice(char *text, size_t size, const struct en_desc *d)
{
    size_t at = strlen(text);

    snprintf(text + at, size - at, " by %s %s", en_algorithm_name(d->algorithm), en_protocol_name(d->protocol));
}

static void report_mismatch(struct run *run, int rank, const struct en_desc *first, const struct en_desc *other)
{
    char a[128], b[128];

    en_describe(a, sizeof(a), first->kind, first->count, first->dtype, first->op, first->root);
    en_describe(b, sizeof(b), other->kind, other->count, other->dtype, other->op, other->root);
    if (!same_choice(first, other)) {
        add_choice(a, sizeof(a), first);
        add_choice(b, sizeof(b), other);
    }
    en_comm_break(run->comm, "mismatch between ranks of a communicator: rank 0: %s; rank %d: %s", a, rank, b);
}

/* Compares all descriptions with rank 0's, and collects the latest arrival, the largest loss and the factors. */
static enum en_end compare(struct run *run)
{
    ncclComm_t comm = run->comm;
    const struct en_member *members = comm->region.members;
    const struct en_desc *first = &members[0].desc[run->parity];

    run->compared = true;
    for (int r = 0; r < comm->size; r++) {
        const struct en_desc *d = &members[r].desc[run->parity];
        if (!same(first, d)) {
            report_mismatch(run, r, first, d);
            return EN_BROKEN;
        }
        run->arrival_ns = d->arrival_ns > run->arrival_ns ? d->arrival_ns : run->arrival_ns;
        run->extra_ns = d->extra_ns > run->extra_ns ? d->extra_ns : run->extra_ns;
        comm->scalars[r] = d->scalar;
    }
    return EN_GO;
}

/* Ends a step: afterwards all ranks can read what was written before. */
static enum en_end end_step(struct run *run)
{
    ncclComm_t comm = run->comm;
    struct en_barrier *barrier = &comm->region.head->data;

    run->parity = (int)(comm->step & 1);
    comm->step++;
    enum en_end end = en_barrier_wait(&comm->watch, barrier, en_barrier_arrive(barrier, comm->size));
    if (end == EN_GO && !run->compared)
        end = compare(run);
    return end;
}

static char *own_buffer(const struct run *run)
{
    return en_staging(&run->comm->region, run->comm->rank, (int)(run->comm->step & 1));
}

static const char *buffer_of(const struct run *run, int rank)
{
    return en_staging(&run->comm->region, rank, run->parity);
}

/* Buffers of results follow the buffers of inputs. */
static char *result_of(const struct run *run, int rank, int parity)
{
    return en_staging(&run->comm->region, rank, 2 + parity);
}

/* Writes elements [at, at+n) of each block of this rank, one block after the other. */
static void put(struct run *run, size_t at, size_t n)
{
    const struct en_task *t = run->task;
    size_t blocks = run->kind->send_many ? (size_t)run->comm->size : 1;

    if (run->kind->only_root_sends && t->root != run->comm->rank)
        return;
    for (size_t b = 0; b < blocks; b++)
        memcpy(own_buffer(run) + b * n * run->bytes, (const char *)t->send + (b * t->count + at) * run->bytes,
               n * run->bytes);
}

/* Reads elements [at, at+n) of each block for this rank. */
static void take(struct run *run, size_t at, size_t n)
{
    const struct en_task *t = run->task;
    int me = run->comm->rank;
    size_t mine = run->kind->send_many ? (size_t)me : 0; /* index of this rank's block in a sender's buffer */

    if (!en_receives(t, me))
        return;
    for (int src = 0; src < run->comm->size; src++) {
        if (run->kind->only_root_sends && src != t->root)
            continue;
        size_t block = run->kind->recv_many ? (size_t)src : 0;
        char *to = (char *)t->recv + (block * t->count + at) * run->bytes;
        memcpy(to, buffer_of(run, src) + mine * n * run->bytes, n * run->bytes);
    }
}

/* Operations without a reduction. */
static enum en_end move_blocks(struct run *run)
{
    size_t count = run->task->count;
    size_t step = run->kind->send_many ? run->chunk / (size_t)run->comm->size : run->chunk;
    enum en_end end = EN_GO;

    for (size_t at = 0; end == EN_GO && at < count; at += step) {
        size_t n = smaller(step, count - at);
        put(run, at, n);
        end = end_step(run);
        if (end == EN_GO)
            take(run, at, n);
    }
    return end;
}

/* Reduces elements [lo, hi) of all ranks' buffers into dst. */
static void reduce_buffers(struct run *run, void *dst, size_t lo, size_t hi)
{
    ncclComm_t comm = run->comm;

    for (int r = 0; r < comm->size; r++)
        comm->sources[r] = buffer_of(run, r) + lo * run->bytes;
    en_reduce(dst, comm->sources, comm->size, hi - lo, run->task->dtype, run->task->op, comm->scalars);
}

static enum en_end reduce_scatter(struct run *run)
{
    size_t count = run->task->count, step = run->chunk / (size_t)run->comm->size, me = (size_t)run->comm->rank;
    enum en_end end = EN_GO;

    for (size_t at = 0; end == EN_GO && at < count; at += step) {
        size_t n = smaller(step, count - at);
        put(run, at, n);
        end = end_step(run);
        if (end == EN_GO)
            reduce_buffers(run, (char *)run->task->recv + at * run->bytes, me * n, (me + 1) * n);
    }
    return end;
}

/* Small all_reduce and reduce: each receiving rank reduces everything. */
static enum en_end reduce_direct(struct run *run)
{
    put(run, 0, run->task->count);
    enum en_end end = end_step(run);
    if (end == EN_GO && en_receives(run->task, run->comm->rank))
        reduce_buffers(run, run->task->recv, 0, run->task->count);
    return end;
}

/* First element of a rank's slice in a chunk of n elements. */
static size_t slice_start(size_t n, int rank, int size)
{
    return n * (size_t)rank / (size_t)size;
}

static void take_results(struct run *run, size_t at, size_t n, int parity)
{
    int size = run->comm->size;

    if (!en_receives(run->task, run->comm->rank))
        return;
    for (int r = 0; r < size; r++) {
        size_t lo = slice_start(n, r, size), hi = slice_start(n, r + 1, size);
        memcpy((char *)run->task->recv + (at + lo) * run->bytes, result_of(run, r, parity), (hi - lo) * run->bytes);
    }
}

/*
 * Large all_reduce and reduce: each rank reduces its slice of a chunk. It reads the other ranks' slices one step later,
 * when the next chunk's inputs are written: one barrier per chunk, and one more at the end.
 */
static enum en_end reduce_in_slices(struct run *run)
{
    size_t count = run->task->count, before = 0; /* elements of the previous chunk */
    int me = run->comm->rank, size = run->comm->size;
    enum en_end end = EN_GO;

    for (size_t at = 0; end == EN_GO && (at < count || before > 0);) {
        size_t n = smaller(run->chunk, count - at);
        put(run, at, n);
        end = end_step(run);
        if (end != EN_GO)
            break;
        if (before > 0)
            take_results(run, at - before, before, !run->parity);
        if (n > 0)
            reduce_buffers(run, result_of(run, me, run->parity), slice_start(n, me, size),
                           slice_start(n, me + 1, size));
        at += n;
        before = n;
    }
    return end;
}

static enum en_end reduce_all(struct run *run)
{
    size_t total = run->task->count * run->bytes * (size_t)run->comm->size;

    if (total <= direct_bytes && run->task->count <= run->chunk)
        return reduce_direct(run);
    return reduce_in_slices(run);
}

/* A communicator of one rank copies. */
static void copy_alone(struct run *run)
{
    const struct en_task *t = run->task;

    run->comm->sources[0] = t->send;
    run->comm->scalars[0] = t->scalar;
    if (t->op == EN_PREMULSUM && t->device_scalar != NULL)
        memcpy(&run->comm->scalars[0], t->device_scalar, run->bytes);
    if (run->kind->reduces)
        en_reduce(t->recv, run->comm->sources, 1, t->count, t->dtype, t->op, run->comm->scalars);
    else if (t->send != t->recv)
        memmove(t->recv, t->send, t->count * run->bytes);
}

static enum en_end move_data(struct run *run)
{
    if (!emu_moves_data())
        return run->comm->size == 1 ? EN_GO : end_step(run);
    if (run->comm->size == 1) {
        copy_alone(run);
        return EN_GO;
    }
    if (!run->kind->reduces)
        return move_blocks(run);
    return run->task->kind == EN_REDUCE_SCATTER ? reduce_scatter(run) : reduce_all(run);
}

int en_run_collective(ncclComm_t comm, const struct en_task *task, int64_t *now_ns)
{
    struct run run = {
        .comm = comm, .task = task, .kind = en_kind(task->kind), .arrival_ns = *now_ns, .extra_ns = comm->extra_ns};

    comm->extra_ns = 0;
    run.bytes = en_type(task->dtype)->bytes;
    run.chunk = comm->region.head->chunk_bytes / run.bytes;
    if (comm->size > 1)
        describe_self(&run);
    enum en_end end = move_data(&run);
    if (end != EN_GO)
        return end;
    if (emu_moves_data())
        en_corrupt(comm, task);
    *now_ns = en_begin_ns(comm, task, *now_ns, run.arrival_ns) + en_collective_ns(comm, task) + run.extra_ns;
    return EN_GO;
}
