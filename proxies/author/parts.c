/* parts.c - the pieces of a step (see parts.h). */
#include "proxies/author/parts.h"

#include "cuda/work/kernel_list.h"

struct bb_op bb_part_op(const struct bb_part *part)
{
    return (struct bb_op){.dtype = part->dtype,
                          .stream = part->stream,
                          .comm = part->comm,
                          .call = BB_NONE,
                          .peer = BB_NONE,
                          .src = BB_NONE,
                          .dst = BB_NONE,
                          .phase = part->phase,
                          .micro_batch = part->micro_batch,
                          .layer = part->layer,
                          .what = part->what};
}

static int append(const struct bb_part *part, const struct bb_op *op, const int *after, int n)
{
    int rc = bb_program_flow(part->program, op, after, n);

    return rc < 0 ? rc : 0;
}

int bb_part_compute(const struct bb_part *part, double us, double flops, int src, int dst)
{
    struct bb_op op = bb_part_op(part);

    op.kind = BB_OP_COMPUTE;
    op.compute_us = us;
    op.flops = flops;
    op.src = src;
    op.dst = dst;
    return append(part, &op, NULL, 0);
}

static struct bb_op work_op(const struct bb_part *part, const struct bb_kernel_list *work, int times)
{
    struct bb_op op = bb_part_op(part);

    op.kind = BB_OP_COMPUTE;
    op.work = work;
    op.work_times = times;
    op.flops = times * bb_kernel_list_flops(work);
    return op;
}

int bb_part_work(const struct bb_part *part, const struct bb_kernel_list *work, int times, int src, int dst)
{
    struct bb_op op = work_op(part, work, times);

    op.src = src;
    op.dst = dst;
    return append(part, &op, NULL, 0);
}

int bb_part_work_after(const struct bb_part *part, const struct bb_kernel_list *work, int times, const int *after,
                       int n)
{
    const struct bb_op op = work_op(part, work, times);

    return append(part, &op, after, n);
}

int bb_part_exchange(const struct bb_part *part, const struct bb_exchange *x)
{
    struct bb_op op = bb_part_op(part);
    int rc = 0;

    op.count = x->count;
    op.peer_kind = BB_PEER_OFFSET;
    op.call = x->to && x->from ? (int)part->program->n_ops : BB_NONE;
    if (x->to) {
        op.kind = BB_OP_SEND;
        op.peer = x->to;
        op.src = x->src;
        rc = append(part, &op, NULL, 0);
    }
    if (x->from && !rc) {
        op.kind = BB_OP_RECV;
        op.peer = x->from;
        op.src = BB_NONE;
        op.dst = x->dst;
        rc = append(part, &op, NULL, 0);
    }
    return rc;
}

int bb_part_all_reduce(const struct bb_part *part, size_t count, const int *after, int n)
{
    struct bb_op op = bb_part_op(part);

    op.kind = BB_OP_COLLECTIVE;
    op.coll = BB_ALL_REDUCE;
    op.redop = BB_SUM;
    op.count = count;
    op.src = bb_program_add_buffer(part->program, "gradients", BB_USE_GRADIENTS, count, part->dtype);
    op.dst = bb_program_add_buffer(part->program, "reduced gradients", BB_USE_COMMUNICATION, count, part->dtype);
    if (op.src < 0 || op.dst < 0)
        return -BB_EFAIL;
    return append(part, &op, after, n);
}
