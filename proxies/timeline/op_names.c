/* op_names.c - names of operations (see op_names.h). */
#include "proxies/timeline/op_names.h"

#include "bootstrap/base/units.h"

#include <stdio.h>

int bb_op_group_size(const struct bb_layout *l, const struct bb_op *op)
{
    return op->comm == BB_NONE ? 1 : l->groups[l->comms[op->comm].group].size;
}

const char *bb_op_word(const struct bb_op *op)
{
    if (op->kind == BB_OP_COMPUTE)
        return op->what ? op->what : "something";
    return bb_op_kind_name(op->kind, op->coll);
}

const char *bb_op_name(const struct bb_layout *l, const struct bb_op *op, char text[BB_OP_NAME])
{
    char bytes[BB_BYTES_TEXT];

    if (op->kind == BB_OP_COMPUTE) {
        if (op->layer == BB_NONE)
            snprintf(text, BB_OP_NAME, "compute %s", bb_op_word(op));
        else
            snprintf(text, BB_OP_NAME, "compute %s layer %d", bb_op_word(op), op->layer);
        return text;
    }
    snprintf(text, BB_OP_NAME, "%s %s %s", bb_op_word(op), l->comms[op->comm].name,
             bb_format_bytes(bb_op_payload_bytes(op, bb_op_group_size(l, op)), bytes));
    return text;
}

const char *bb_call_name(const struct bb_layout *l, const struct bb_op *ops, int n, char text[BB_OP_NAME])
{
    char bytes[BB_BYTES_TEXT];
    size_t total = 0;

    if (n == 1)
        return bb_op_name(l, ops, text);
    for (int i = 0; i < n; i++)
        total += bb_op_payload_bytes(&ops[i], bb_op_group_size(l, &ops[i]));
    snprintf(text, BB_OP_NAME, "group %s %s", l->comms[ops->comm].name, bb_format_bytes(total, bytes));
    return text;
}
