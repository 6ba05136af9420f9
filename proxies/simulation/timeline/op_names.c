/* op_names.c - names and traffic of operations (see op_names.h). */
#include "proxies/simulation/timeline/op_names.h"

#include "bootstrap/base/units.h"
#include "proxies/form/step/alltoallv.h"

#include <math.h>
#include <stdio.h>

int bb_op_group_size(const struct bb_layout *l, const struct bb_op *op)
{
    return op->comm == BB_NONE ? 1 : l->groups[l->comms[op->comm].group].size;
}

const char *bb_op_name(const struct bb_layout *l, const struct bb_op *op, char text[BB_OP_NAME])
{
    const char *what = op->what ? op->what : "something";
    char bytes[BB_BYTES_TEXT];

    if (op->kind == BB_OP_COMPUTE) {
        if (op->layer == BB_NONE)
            snprintf(text, BB_OP_NAME, "compute %s", what);
        else
            snprintf(text, BB_OP_NAME, "compute %s layer %d", what, op->layer);
        return text;
    }
    snprintf(text, BB_OP_NAME, "%s %s %s", bb_op_kind_name(op->kind, op->coll), l->comms[op->comm].name,
             bb_format_bytes(bb_op_payload_bytes(op, bb_op_group_size(l, op)), bytes));
    return text;
}

const char *bb_call_name(const struct bb_layout *l, const struct bb_op *ops, int n, char text[BB_OP_NAME])
{
    char bytes[BB_BYTES_TEXT];
    struct bb_group_traffic total = {0};

    if (n == 1)
        return bb_op_name(l, ops, text);
    for (int i = 0; i < n; i++)
        bb_group_traffic_add(&total, l, &ops[i]);
    snprintf(text, BB_OP_NAME, "group %s %s", l->comms[ops->comm].name,
             bb_format_bytes((size_t)bb_group_traffic_bytes(&total), bytes));
    return text;
}

void bb_group_traffic_add(struct bb_group_traffic *t, const struct bb_layout *l, const struct bb_op *op)
{
    const int ranks = bb_op_group_size(l, op);
    const double bytes = (double)bb_op_payload_bytes(op, ranks);

    t->calls++;
    if (op->kind == BB_OP_COLLECTIVE) {
        t->collective += bytes;
        t->bus += bytes * bb_colls[op->coll].bus_factor(ranks);
    } else if (op->kind == BB_OP_ALLTOALLV) {
        t->sent += (double)(bb_alltoallv_sent(op) * bb_dtypes[op->dtype].bytes);
        t->received += (double)(bb_alltoallv_received(op) * bb_dtypes[op->dtype].bytes);
    } else {
        *(op->kind == BB_OP_SEND ? &t->sent : &t->received) += bytes;
    }
}

double bb_group_traffic_bytes(const struct bb_group_traffic *t)
{
    return t->collective + fmax(t->sent, t->received);
}

double bb_group_traffic_bus_bytes(const struct bb_group_traffic *t)
{
    return t->bus + fmax(t->sent, t->received);
}

void bb_count_group_traffic(const struct bb_layout *l, const struct bb_program *p,
                            struct bb_group_traffic traffic[BB_MAX_GROUPS])
{
    for (int g = 0; g < BB_MAX_GROUPS; g++)
        traffic[g] = (struct bb_group_traffic){0};
    for (size_t i = 0; i < p->n_ops; i++)
        if (bb_op_is_comm(&p->ops[i]))
            bb_group_traffic_add(&traffic[l->comms[p->ops[i].comm].group], l, &p->ops[i]);
}
