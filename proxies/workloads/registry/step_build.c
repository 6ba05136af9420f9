/* step_build.c - build a training step, and check those properties of its programs without which other code would
 * fail. */
#include "proxies/workloads/registry/registry.h"

/*
 * Return what is wrong with operation i of a program, as the end of the error line "operation I of 'ROLE' ..."; NULL if
 * the operation is valid. An invalid operation would cause out-of-bounds memory accesses in code that uses the program.
 *   last_call  highest NCCL group call number among the operations before i
 */
static const char *find_error(const struct bb_layout *l, const struct bb_program *p, size_t i, int last_call)
{
    const struct bb_op *op = &p->ops[i];

    if (op->stream < 0 || op->stream >= p->n_streams)
        return "has an invalid stream";
    if (bb_op_is_comm(op) != (op->comm != BB_NONE) || op->comm >= l->n_comms)
        return "has an invalid communicator";
    if (op->src >= p->n_buffers || op->dst >= p->n_buffers)
        return "has an invalid buffer";
    if (op->kind == BB_OP_ALLTOALLV && op->table->n != l->groups[l->comms[op->comm].group].size)
        return "has an alltoallv table for a different number of ranks";
    for (int w = 0; w < op->waits; w++)
        if (p->wait_list[op->first_wait + w] < 0 || (size_t)p->wait_list[op->first_wait + w] >= i)
            return "waits for a later operation";
    if (op->call != BB_NONE && op->call <= last_call && p->ops[i - 1].call != op->call)
        return "is not adjacent to its group call, or its group call has a lower number than that of an earlier "
               "operation";
    return NULL;
}

static int check_program(const struct bb_step *step, const struct bb_role *role)
{
    int last_call = BB_NONE; /* highest NCCL group call number (bb_op.call) among the operations checked so far;
                                BB_NONE: no group call yet */

    for (size_t i = 0; i < role->program.n_ops; i++) {
        const char *error = find_error(&step->layout, &role->program, i, last_call);

        if (error)
            return bb_err(BB_EFAIL, "%s: operation %zu of '%s' %s", step->proxy, i, role->name, error);
        if (role->program.ops[i].call > last_call)
            last_call = role->program.ops[i].call;
    }
    return 0;
}

int bb_step_build(struct bb_step *step, const struct bb_proxy *proxy, const struct bb_proxy_config *config)
{
    int rc;

    *step = (struct bb_step){.proxy = proxy->name};
    TRY(proxy->build(config, step));
    for (int r = 0; r < step->n_roles; r++)
        TRY(check_program(step, &step->roles[r]));
    if (config->scale_counts > 0 && config->scale_counts != 1) {
        TRY(bb_step_expand(step));
        bb_step_scale_counts(step, config->scale_counts);
    }
out:
    if (rc)
        bb_step_release(step);
    return rc;
}
