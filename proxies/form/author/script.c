/* script.c - converts the calls of a logical thread (start, wait) to stream operations and event waits (see
 * script.h). */
#include "proxies/form/author/script.h"

#include "proxies/form/author/args.h"
#include "proxies/form/author/script_fork.h"

#include "bootstrap/base/alloc.h"
#include "cuda/work/kernel_list.h"

#include <stdlib.h>
#include <string.h>

void bb_script_init(struct bb_script *s, struct bb_program *program, const struct bb_proxy_config *c)
{
    *s = (struct bb_script){.program = program,
                            .dtype = (enum bb_dtype_id)bb_dtype_find(c->dtype),
                            .memory_gbps = c->memory_gbps > 0 ? c->memory_gbps : BB_DEFAULT_MEMORY_GBPS,
                            .timed = strcmp(c->compute, "timed") == 0,
                            .redop = BB_SUM,
                            .peer_kind = BB_PEER_OFFSET,
                            .call = BB_NONE,
                            .micro_batch = BB_NONE,
                            .layer = BB_NONE,
                            .compute = BB_NONE,
                            .newest = BB_NONE,
                            .real = strcmp(c->compute, "gemm") == 0};
}

int bb_script_result(const struct bb_script *s)
{
    return s->program->rc;
}

struct bb_script_lane bb_script_lane(struct bb_script *s, const struct bb_layout *l, int comm)
{
    for (int i = 0; i < s->program->n_streams; i++)
        if (s->program->streams[i].comm == comm)
            return (struct bb_script_lane){i, comm};
    return (struct bb_script_lane){bb_program_add_stream(s->program, l->comms[comm].name, comm), comm};
}

int bb_script_buffer(struct bb_script *s, const char *name, enum bb_buffer_use use, size_t count)
{
    return bb_program_add_buffer(s->program, name, use, count, s->dtype);
}

struct bb_op bb_script_op(const struct bb_script *s, struct bb_script_lane lane, const char *what)
{
    return (struct bb_op){.dtype = s->dtype,
                          .stream = lane.stream,
                          .comm = lane.comm,
                          .call = lane.comm == BB_NONE ? BB_NONE : s->call,
                          .peer = BB_NONE,
                          .src = BB_NONE,
                          .dst = BB_NONE,
                          .phase = s->phase,
                          .micro_batch = s->micro_batch,
                          .layer = s->layer,
                          .what = what};
}

int bb_script_start(struct bb_script *s, const struct bb_op *op)
{
    if (s->program->rc)
        return BB_NONE;
    if (bb_script_is_forked(s))
        s->newest = bb_script_fork_add(s, op);
    else
        s->newest = bb_program_add_dataflow(s->program, op, s->after.ops, s->after.n);
    return s->newest;
}

void bb_script_store(struct bb_script *s, double bytes)
{
    s->stores += bytes;
}

void bb_script_release_stored(struct bb_script *s, double bytes)
{
    const int op = bb_script_fork_resolve(s, s->compute);

    if (op != BB_NONE)
        bb_script_op_at(s, op)->releases += bytes;
}

/* Starts a compute operation, and waits for it if `waits`. */
static void start_compute(struct bb_script *s, struct bb_op *op, bool waits)
{
    int started;

    op->stores = s->stores;
    s->stores = 0;
    started = bb_script_start(s, op);
    s->compute = started == BB_NONE ? s->compute : started;
    if (waits)
        bb_script_wait(s, started);
}

void bb_script_wait(struct bb_script *s, int op)
{
    struct bb_script_waits *after = &s->after;

    op = bb_script_fork_resolve(s, op);
    if (op == BB_NONE)
        return;
    if (op == s->newest) /* op started after all operations in s->after. Waiting for op therefore makes all earlier
                            waits redundant */
        after->n = 0;
    s->newest = BB_NONE;
    for (int w = 0; w < after->n; w++)
        if (bb_script_op_at(s, after->ops[w])->stream == bb_script_op_at(s, op)->stream) {
            after->ops[w] = op > after->ops[w] ? op : after->ops[w];
            return;
        }
    after->ops[after->n++] = op;
}

void bb_script_new_thread(struct bb_script *s, int op)
{
    s->after.n = 0;
    s->newest = BB_NONE;
    bb_script_wait(s, op);
}

static struct bb_op compute_op(const struct bb_script *s, const char *what, int src, int dst)
{
    struct bb_op op = bb_script_op(s, (struct bb_script_lane){0, BB_NONE}, what);

    op.kind = BB_OP_COMPUTE;
    op.src = src;
    op.dst = dst;
    return op;
}

void bb_script_compute(struct bb_script *s, const char *what, double us, double flops, int src, int dst)
{
    struct bb_op op = compute_op(s, what, src, dst);

    op.compute_us = us;
    op.flops = flops;
    if (s->timed)
        start_compute(s, &op, true);
}

static void start_work(struct bb_script *s, const char *what, const struct bb_kernel_list *work, int times, int src,
                       int dst, bool waits)
{
    struct bb_op op = compute_op(s, what, src, dst);

    op.work = work;
    op.work_times = times;
    op.flops = times * bb_kernel_list_flops(work);
    start_compute(s, &op, waits);
}

void bb_script_work(struct bb_script *s, const char *what, const struct bb_kernel_list *work, int times, int src,
                    int dst)
{
    start_work(s, what, work, times, src, dst, true);
}

void bb_script_real_work(struct bb_script *s, const char *what, const struct bb_kernel_list *work, int times, int src,
                         int dst)
{
    if (s->real)
        bb_script_work(s, what, work, times, src, dst);
}

int bb_script_host_copy(struct bb_script *s, const char *what, const struct bb_kernel_list *work)
{
    struct bb_op op = compute_op(s, what, BB_NONE, BB_NONE);
    int i = 1;

    if (!s->real)
        return BB_NONE;
    while (i < s->program->n_streams && s->program->streams[i].comm != BB_NONE)
        i++;
    op.stream = i < s->program->n_streams ? i : bb_program_add_stream(s->program, "host link", BB_NONE);
    op.work = work;
    op.work_times = 1;
    start_compute(s, &op, false);
    return s->compute;
}

int bb_script_rooted_collective(struct bb_script *s, struct bb_script_lane lane, const char *what,
                                enum bb_coll_kind kind, int root, size_t count, int src, int dst)
{
    struct bb_op op = bb_script_op(s, lane, what);

    op.kind = BB_OP_COLLECTIVE;
    op.coll = kind;
    op.redop = s->redop;
    op.peer = root;
    op.count = count;
    op.src = src;
    op.dst = dst;
    return bb_script_start(s, &op);
}

int bb_script_collective(struct bb_script *s, struct bb_script_lane lane, const char *what, enum bb_coll_kind kind,
                         size_t count, int src, int dst)
{
    return bb_script_rooted_collective(s, lane, what, kind, BB_NONE, count, src, dst);
}

static int start_message(struct bb_script *s, struct bb_script_lane lane, const char *what, enum bb_op_kind kind,
                         int peer, size_t count, int buffer)
{
    struct bb_op op = bb_script_op(s, lane, what);

    op.kind = kind;
    op.peer_kind = s->peer_kind;
    op.peer = peer;
    op.count = count;
    *(kind == BB_OP_SEND ? &op.src : &op.dst) = buffer;
    return bb_script_start(s, &op);
}

int bb_script_send(struct bb_script *s, struct bb_script_lane lane, const char *what, int to, size_t count, int src)
{
    return start_message(s, lane, what, BB_OP_SEND, to, count, src);
}

int bb_script_recv(struct bb_script *s, struct bb_script_lane lane, const char *what, int from, size_t count, int dst)
{
    return start_message(s, lane, what, BB_OP_RECV, from, count, dst);
}

int bb_script_alltoallv(struct bb_script *s, struct bb_script_lane lane, const char *what,
                        const struct bb_script_rows *rows, int src, int dst)
{
    struct bb_op op = bb_script_op(s, lane, what);

    op.kind = BB_OP_ALLTOALLV;
    op.dtype = s->program->buffers[src].dtype;
    op.table = rows->table;
    op.peer = rows->rank;
    op.count = rows->width;
    op.reversed = rows->reversed;
    op.src = src;
    op.dst = dst;
    return bb_script_start(s, &op);
}

void bb_script_group_start(struct bb_script *s)
{
    s->call = bb_script_is_forked(s) ? bb_script_fork_next_index(s) : (int)s->program->n_ops;
}

void bb_script_group_end(struct bb_script *s)
{
    s->call = BB_NONE;
}

int bb_script_all_reduce(struct bb_script *s, struct bb_script_lane lane, const char *what, size_t count)
{
    int src = bb_script_buffer(s, "gradients", BB_USE_GRADIENTS, count);
    int dst = bb_script_buffer(s, "reduced gradients", BB_USE_COMMUNICATION, count);

    return bb_script_collective(s, lane, what, BB_ALL_REDUCE, count, src, dst);
}

int bb_script_exchange(struct bb_script *s, struct bb_script_lane lane, const char *what, const int *to,
                       const int *from, int n, size_t count)
{
    int last = BB_NONE;

    bb_script_group_start(s);
    for (int i = 0; i < n; i++)
        last = bb_script_send(s, lane, what, to[i], count, bb_script_buffer(s, "send", BB_USE_COMMUNICATION, count));
    for (int i = 0; i < n; i++)
        last =
            bb_script_recv(s, lane, what, from[i], count, bb_script_buffer(s, "receive", BB_USE_COMMUNICATION, count));
    bb_script_group_end(s);
    return last;
}

void bb_script_accumulate(struct bb_script *s, const struct bb_kernel_list *work)
{
    if (s->real)
        start_work(s, "accumulate gradients", work, 1, BB_NONE, BB_NONE, false);
}

void bb_script_norm_open(struct bb_script_norm *norm, struct bb_script *s, const struct bb_layout *layout, int comm,
                         int ranks, int channels)
{
    const size_t count = 2 * (size_t)channels + 1;
    enum bb_dtype_id dtype = s->dtype;

    *norm = (struct bb_script_norm){.lane = {.comm = BB_NONE}};
    if (comm == BB_NONE || !channels)
        return;
    norm->lane = bb_script_lane(s, layout, comm);
    s->dtype = BB_FLOAT;
    norm->own = bb_script_buffer(s, "batch norm", BB_USE_COMMUNICATION, count);
    norm->all = bb_script_buffer(s, "batch norm", BB_USE_COMMUNICATION, count * (size_t)ranks);
    s->dtype = dtype;
}

void bb_script_norm_exchange(const struct bb_script_norm *norm, struct bb_script *s, int channels, bool backward)
{
    enum bb_dtype_id dtype = s->dtype;
    size_t count = 2 * (size_t)channels;

    if (norm->lane.comm == BB_NONE || !channels)
        return;
    s->dtype = BB_FLOAT;
    s->phase = backward ? BB_PHASE_BACKWARD : BB_PHASE_FORWARD;
    bb_script_wait(
        s, backward
               ? bb_script_collective(s, norm->lane, "batch norm", BB_ALL_REDUCE, count, norm->own, norm->own)
               : bb_script_collective(s, norm->lane, "batch norm", BB_ALL_GATHER, count + 1, norm->own, norm->all));
    s->dtype = dtype;
}

void bb_script_memory_kernel(struct bb_script *s, struct bb_step *step, const char *what,
                             enum bb_memory_kernel_kind kind, size_t count, int times, int src, int dst)
{
    const struct bb_memory_kernel p = {.kind = kind, .dtype = s->dtype, .rows = 1, .cols = count};
    struct bb_kernel_list *made = bb_resize(NULL, 1, sizeof(*made)); /* too large for a small stack */

    bb_kernel_list_clear(made);
    if (kind == BB_MEMORY_KERNEL_SGD || kind == BB_MEMORY_KERNEL_ADAM)
        bb_kernel_list_optimizer(made, kind, count, s->dtype);
    else
        bb_kernel_list_add_memory_kernel(made, what, &p);
    bb_script_work(s, what, bb_step_copy_kernel_list(step, made), times, src, dst);
    free(made);
}

void bb_script_optimizer(struct bb_script *s, struct bb_step *step, enum bb_memory_kernel_kind optimizer,
                         const char *what, size_t count)
{
    const char *name = optimizer == BB_MEMORY_KERNEL_ADAM ? "Adam" : "SGD";

    s->phase = BB_PHASE_OPTIMIZER;
    if (s->real)
        bb_script_memory_kernel(s, step, bb_step_text(step, "%s, %s", name, what), optimizer, count, 1, BB_NONE,
                                BB_NONE);
}
