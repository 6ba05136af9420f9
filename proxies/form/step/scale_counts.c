/* scale_counts.c - multiply the element counts of a complete step by a factor (--scale-counts), so that the code
 * that builds steps need not support scaling (see step.h). */
#include "proxies/form/step/step.h"

#include "bootstrap/base/alloc.h"

#include <stdlib.h>

static size_t shrink_count(size_t count, double factor)
{
    size_t smaller = (size_t)((double)count * factor);

    return smaller ? smaller : 1;
}

static void grow_buffer(struct bb_program *p, int buffer, size_t count)
{
    if (buffer != BB_NONE && p->buffers[buffer].count < count)
        p->buffers[buffer].count = count;
}

/* Return the number of operations in the NCCL group call of operation i that use the same buffer as operation i at
 * smaller offsets. source: true: compare the source buffers; false: the destination buffers. After scaling, each of
 * these operations has at least one element. Adding the returned number to the scaled offset of operation i
 * therefore keeps the ranges of the operations disjoint. */
static size_t fragments_before(const struct bb_program *p, size_t i, bool source)
{
    const struct bb_op *op = &p->ops[i], *first = op, *end = p->ops + p->n_ops;
    size_t n = 0;

    if (op->call == BB_NONE)
        return 0;
    while (first > p->ops && first[-1].call == op->call)
        first--;
    for (const struct bb_op *o = first; o < end && o->call == op->call; o++)
        n += source ? o->src == op->src && o->src_offset < op->src_offset
                    : o->dst == op->dst && o->dst_offset < op->dst_offset;
    return n;
}

/* Return the scaled buffer offsets of all operations: [2 i] is the source offset of operation i, [2 i + 1] its
 * destination offset. */
static size_t *shrunk_offsets(const struct bb_program *p, double factor)
{
    size_t *offsets;

    BB_NEW(offsets, 2 * p->n_ops);
    for (size_t i = 0; i < p->n_ops; i++) {
        const struct bb_op *op = &p->ops[i];

        if (op->src_offset)
            offsets[2 * i] = (size_t)((double)op->src_offset * factor) + fragments_before(p, i, true);
        if (op->dst_offset)
            offsets[2 * i + 1] = (size_t)((double)op->dst_offset * factor) + fragments_before(p, i, false);
    }
    return offsets;
}

/* Multiply the counts of a program by `factor`. Enlarge the source and destination buffers of an operation if they are
 * then too small for its data. */
static void shrink_program(struct bb_program *p, const struct bb_layout *l, double factor)
{
    size_t *offsets = shrunk_offsets(p, factor);

    for (int b = 0; b < p->n_buffers; b++)
        p->buffers[b].count = shrink_count(p->buffers[b].count, factor);
    for (size_t i = 0; i < p->n_ops; i++) {
        struct bb_op *op = &p->ops[i];
        const struct bb_coll *coll;
        int ranks;

        if (op->work)
            op->flops = op->work_times * bb_kernel_list_flops(op->work);
        if (!bb_op_is_comm(op))
            continue;
        op->count = shrink_count(op->count, factor);
        op->src_offset = offsets[2 * i];
        op->dst_offset = offsets[2 * i + 1];
        coll = op->kind == BB_OP_COLLECTIVE ? &bb_colls[op->coll] : NULL;
        ranks = l->groups[l->comms[op->comm].group].size;
        grow_buffer(p, op->src, op->src_offset + (coll ? coll->send_count(op->count, ranks) : op->count));
        grow_buffer(p, op->dst, op->dst_offset + (coll ? coll->recv_count(op->count, ranks) : op->count));
    }
    free(offsets);
}

void bb_step_scale_counts(struct bb_step *step, double factor)
{
    const double flops = bb_step_flops(step);

    for (int w = 0; w < step->n_kernel_lists; w++)
        bb_kernel_list_scale(step->kernel_lists[w], factor);
    for (int r = 0; r < step->n_roles; r++)
        shrink_program(&step->roles[r].program, &step->layout, factor);
    step->masked_flops *= flops > 0 ? bb_step_flops(step) / flops : 0;
    step->summary = bb_step_text(step, "%s; counts scaled by %g", step->summary, factor);
}
