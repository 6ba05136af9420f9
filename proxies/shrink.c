/* shrink.c - smaller counts after the fact, so that no builder needs to know (see shrink.h). */
#include "proxies/shrink.h"

static size_t shrunk(size_t count, double factor)
{
    size_t smaller = (size_t)((double)count * factor);

    return smaller ? smaller : 1;
}

static void hold(struct bb_program *p, int buffer, size_t count)
{
    if (buffer != BB_NONE && p->buffers[buffer].count < count)
        p->buffers[buffer].count = count;
}

/* Room for what one operation reads and writes. */
static void make_room(struct bb_program *p, const struct bb_op *op, int ranks)
{
    const struct bb_coll *coll = op->kind == BB_OP_COLLECTIVE ? &bb_colls[op->coll] : NULL;

    hold(p, op->src, op->src_offset + (coll ? coll->send_count(op->count, ranks) : op->count));
    hold(p, op->dst, op->dst_offset + (coll ? coll->recv_count(op->count, ranks) : op->count));
}

static void shrink_program(struct bb_program *p, const struct bb_layout *l, double factor)
{
    for (int b = 0; b < p->n_buffers; b++)
        p->buffers[b].count = shrunk(p->buffers[b].count, factor);
    for (size_t i = 0; i < p->n_ops; i++) {
        struct bb_op *op = &p->ops[i];

        if (op->work)
            op->flops = op->work_times * bb_work_flops(op->work);
        if (!bb_op_is_comm(op))
            continue;
        op->count = shrunk(op->count, factor);
        op->src_offset = (size_t)((double)op->src_offset * factor);
        op->dst_offset = (size_t)((double)op->dst_offset * factor);
        make_room(p, op, l->groups[l->comms[op->comm].group].size);
    }
}

int bb_step_shrink(struct bb_step *step, double factor)
{
    for (int w = 0; w < step->n_works; w++)
        bb_work_shrink(step->works[w], factor);
    for (int r = 0; r < step->n_roles; r++)
        shrink_program(&step->roles[r].program, &step->layout, factor);
    step->summary = bb_step_text(step, "%s; counts times %g", step->summary, factor);
    return step->summary ? 0 : -BB_EFAIL;
}
