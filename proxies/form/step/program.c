/* program.c - appends operations to step programs, and determines for which earlier operations each one waits. */
#include "proxies/form/step/program.h"

#include "bootstrap/base/alloc.h"
#include "cuda/work/kernel_list.h"
#include "proxies/form/step/alltoallv.h"

#include <stdlib.h>
#include <string.h>
#include <sys/param.h>

#define MAX_OPS       (1 << 24) /* maximum number of operations in the program of one rank (about 2 GiB of memory) */
#define MAX_LOOK_BACK 64        /* maximum number of operations that one search for redundant waits visits */

const char *const bb_phase_names[BB_PHASES] = {
    [BB_PHASE_FORWARD] = "forward",
    [BB_PHASE_BACKWARD] = "backward",
    [BB_PHASE_GRADIENTS] = "gradients",
    [BB_PHASE_OPTIMIZER] = "optimizer",
};

const char *const bb_use_names[BB_USES] = {
    [BB_USE_PARAMETERS] = "parameters",   [BB_USE_GRADIENTS] = "gradients",         [BB_USE_OPTIMIZER] = "optimizer",
    [BB_USE_ACTIVATIONS] = "activations", [BB_USE_COMMUNICATION] = "communication",
};

void bb_program_init(struct bb_program *p)
{
    *p = (struct bb_program){0};
    for (int s = 0; s < BB_MAX_STREAMS; s++)
        p->last[s] = BB_NONE;
    bb_program_add_stream(p, "compute", BB_NONE);
}

void bb_program_release(struct bb_program *p)
{
    free(p->ops);
    free(p->previous_op);
    free(p->wait_list);
    free(p->streams);
    free(p->buffers);
    free(p->accesses);
    *p = (struct bb_program){0};
}

int bb_program_add_stream(struct bb_program *p, const char *name, int comm)
{
    if (p->n_streams == BB_MAX_STREAMS) {
        p->rc = p->rc ? p->rc : bb_err(BB_EFAIL, "a step program has at most %d streams", BB_MAX_STREAMS);
        return BB_MAX_STREAMS - 1;
    }
    BB_GROW(p->streams, p->n_streams);
    p->streams[p->n_streams] = (struct bb_stream_spec){.name = name, .comm = comm};
    return p->n_streams++;
}

int bb_program_add_buffer(struct bb_program *p, const char *name, enum bb_buffer_use use, size_t count,
                          enum bb_dtype_id dtype)
{
    BB_GROW(p->buffers, p->n_buffers);
    BB_GROW(p->accesses, p->n_buffers);
    p->buffers[p->n_buffers] = (struct bb_buffer){.name = name, .use = use, .count = count, .dtype = dtype};
    p->accesses[p->n_buffers].write = BB_NONE;
    for (int s = 0; s < BB_MAX_STREAMS; s++)
        p->accesses[p->n_buffers].last[s] = BB_NONE;
    return p->n_buffers++;
}

void bb_program_init_like(struct bb_program *out, const struct bb_program *p)
{
    bb_program_init(out);
    for (int s = 1; s < p->n_streams; s++)
        bb_program_add_stream(out, p->streams[s].name, p->streams[s].comm);
    for (int b = 0; b < p->n_buffers; b++)
        bb_program_add_buffer(out, p->buffers[b].name, p->buffers[b].use, p->buffers[b].count, p->buffers[b].dtype);
}

/* Append a wait for operation `wait` to operation op, which is being added to the program. The waits of op are at
 * the end of the wait list. */
static void add_wait(struct bb_program *p, struct bb_op *op, int wait)
{
    if (wait == BB_NONE || p->ops[wait].stream == op->stream)
        return;
    for (int w = 0; w < op->waits; w++)
        if (p->wait_list[op->first_wait + w] == wait)
            return;
    if (op->call != BB_NONE && p->ops[wait].call == op->call)
        return; /* no wait within an NCCL group call, because its operations progress together */
    BB_GROW(p->wait_list, p->n_waits);
    p->wait_list[p->n_waits++] = wait;
    op->waits++;
}

/* Return whether the completion of operation `op` implies that operation `wait` has completed. The search follows
 * the dependencies of `op`. steps: in and out: number of operations that the search may still visit; the result is
 * false if they do not suffice. */
static bool comes_after(const struct bb_program *p, int op, int wait, int *steps)
{
    const struct bb_op *o;

    if (op <= wait)
        return op == wait;
    if (--*steps < 0)
        return false;
    o = &p->ops[op];
    for (int w = 0; w < o->waits; w++)
        if (comes_after(p, p->wait_list[o->first_wait + w], wait, steps))
            return true;
    return comes_after(p, p->previous_op[op], wait, steps);
}

/* Drop each wait of operation op that follows from its remaining waits or from the previous operation on its stream,
 * because each wait costs one CUDA call on the host. */
static void drop_redundant_waits(struct bb_program *p, struct bb_op *op)
{
    int *list;

    if (op->waits == 0)
        return; /* p->wait_list may be NULL as long as no operation has waits */
    list = p->wait_list + op->first_wait;
    for (int w = op->waits - 1; w >= 0; w--) {
        int steps = MAX_LOOK_BACK;
        bool implied = comes_after(p, p->last[op->stream], list[w], &steps);

        for (int v = 0; v < op->waits && !implied; v++)
            implied = v != w && comes_after(p, list[v], list[w], &steps);
        if (implied) {
            list[w] = list[--op->waits];
            p->n_waits--;
        }
    }
}

static void record_access(struct bb_program *p, int buffer, int stream, bool write)
{
    if (buffer == BB_NONE)
        return;
    p->accesses[buffer].last[stream] = (int)p->n_ops;
    if (write)
        p->accesses[buffer].write = (int)p->n_ops;
}

/* Append a copy of op. dataflow: true: also wait for the operations that its buffers require. */
static int add_op(struct bb_program *p, const struct bb_op *op, const int *waits, int n, bool dataflow)
{
    struct bb_op copy = *op;
    int index = (int)p->n_ops;

    if (p->n_ops >= MAX_OPS && !p->rc)
        p->rc =
            bb_err(BB_EUSAGE, "the step has more than %d operations on one rank; try: fewer --micro-batches", MAX_OPS);
    if (p->rc)
        return BB_NONE;
    copy.first_wait = (int)p->n_waits;
    copy.waits = 0;
    for (int w = 0; w < n; w++)
        add_wait(p, &copy, waits[w]);
    if (dataflow && op->src != BB_NONE)
        add_wait(p, &copy, p->accesses[op->src].write);
    for (int s = 0; dataflow && op->dst != BB_NONE && s < p->n_streams; s++)
        add_wait(p, &copy, p->accesses[op->dst].last[s]);
    drop_redundant_waits(p, &copy);
    BB_GROW(p->ops, p->n_ops);
    BB_GROW(p->previous_op, p->n_ops);
    p->ops[index] = copy;
    p->previous_op[index] = p->last[copy.stream];
    p->last[copy.stream] = index;
    record_access(p, copy.src, copy.stream, false);
    record_access(p, copy.dst, copy.stream, true);
    p->n_ops++;
    return index;
}

int bb_program_add(struct bb_program *p, const struct bb_op *op, const int *waits, int n)
{
    return add_op(p, op, waits, n, false);
}

int bb_program_add_dataflow(struct bb_program *p, const struct bb_op *op, const int *waits, int n)
{
    return add_op(p, op, waits, n, true);
}

const char *bb_op_kind_name(enum bb_op_kind kind, enum bb_coll_kind coll)
{
    static const char *const words[] = {
        [BB_OP_COMPUTE] = "compute", [BB_OP_SEND] = "send", [BB_OP_RECV] = "recv", [BB_OP_ALLTOALLV] = "alltoallv"};

    return kind == BB_OP_COLLECTIVE ? bb_colls[coll].name : words[kind];
}

int bb_op_peer(const struct bb_op *op, int index, int n)
{
    int peer = op->peer_kind == BB_PEER_OFFSET ? (index + op->peer) % n : op->peer;

    return op->peer_kind == BB_PEER_OFFSET && peer < 0 ? peer + n : peer;
}

size_t bb_op_payload_bytes(const struct bb_op *op, int n)
{
    size_t count = op->count;

    if (op->kind == BB_OP_COMPUTE)
        return 0;
    if (op->kind == BB_OP_ALLTOALLV)
        count = MAX(bb_alltoallv_sent(op), bb_alltoallv_received(op));
    if (op->kind == BB_OP_COLLECTIVE)
        count = bb_coll_payload_count(op->coll, op->count, n);
    return count * bb_dtypes[op->dtype].bytes;
}

size_t bb_program_bytes(const struct bb_program *p, enum bb_buffer_use use)
{
    size_t bytes = 0;

    for (int b = 0; b < p->n_buffers; b++)
        if (p->buffers[b].use == use)
            bytes += p->buffers[b].count * bb_dtypes[p->buffers[b].dtype].bytes;
    return bytes;
}

/*
 * State of bb_program_filter, which copies some operations of a program and omits the others. For operation i of the
 * full program, front[i][s] is the latest copied operation on stream s that has completed when operation i completes.
 * The front of a copied operation contains only the operation itself. The front of an omitted operation contains, for
 * each stream, the latest operation in the fronts of its dependencies: the previous operation on its stream and the
 * operations that it waits for.
 */
struct program_filter {
    const struct bb_program *full;
    bool comm;
    int *front;                    /* [n_ops][n_streams] indices of operations in the filtered program; BB_NONE: none */
    int last_seen[BB_MAX_STREAMS]; /* for each stream, index in the full program of the latest operation visited so
                                      far; BB_NONE: none */
};

static void join_front(const struct program_filter *h, int *front, int op)
{
    const int *other;

    if (op == BB_NONE)
        return;
    other = h->front + (size_t)op * (size_t)h->full->n_streams;
    for (int s = 0; s < h->full->n_streams; s++)
        if (other[s] > front[s])
            front[s] = other[s];
}

static void filter_op(struct program_filter *h, int i, struct bb_program *out)
{
    const struct bb_op *op = &h->full->ops[i];
    int streams = h->full->n_streams, *front = h->front + (size_t)i * (size_t)streams, index;

    for (int s = 0; s < streams; s++)
        front[s] = BB_NONE;
    join_front(h, front, h->last_seen[op->stream]);
    for (int w = 0; w < op->waits; w++)
        join_front(h, front, h->full->wait_list[op->first_wait + w]);
    h->last_seen[op->stream] = i;
    if (bb_op_is_comm(op) != h->comm)
        return;
    index = bb_program_add(out, op, front, streams);
    for (int s = 0; s < streams; s++)
        front[s] = s == op->stream ? index : BB_NONE;
}

void bb_program_filter(const struct bb_program *p, bool comm, struct bb_program *out)
{
    struct program_filter h = {.full = p, .comm = comm};

    bb_program_init_like(out, p);
    for (int s = 0; s < p->n_streams; s++)
        h.last_seen[s] = BB_NONE;
    BB_NEW(h.front, p->n_ops * (size_t)p->n_streams);
    for (size_t i = 0; i < p->n_ops; i++)
        filter_op(&h, (int)i, out);
    free(h.front);
}

/* Returns the bytes of memory that the kernel lists of the program need. Many operations share a kernel list; to
 * save time, the function skips the lists that it counted most recently. */
size_t bb_program_work_bytes(const struct bb_program *p)
{
    enum { RECENT = 8 };
    const struct bb_kernel_list *seen[RECENT] = {0};
    struct bb_kernel_list_memory memory = {0};
    int n = 0;

    for (size_t i = 0; i < p->n_ops; i++) {
        const struct bb_kernel_list *work = p->ops[i].work;
        bool known = !work;

        for (int s = 0; s < RECENT; s++)
            known |= seen[s] == work;
        if (known)
            continue;
        bb_kernel_list_memory(work, &memory);
        seen[n++ % RECENT] = work;
    }
    return n ? bb_kernel_list_memory_bytes(&memory) : 0;
}

size_t bb_program_memory(const struct bb_program *p)
{
    size_t bytes = bb_program_work_bytes(p);

    for (int use = 0; use < BB_USES; use++)
        bytes += bb_program_bytes(p, (enum bb_buffer_use)use);
    return bytes;
}
