/*
 * op_names.h - names of operations in messages, traces and profiler ranges.
 */
#ifndef BB_PROXIES_TIMELINE_OP_NAMES_H
#define BB_PROXIES_TIMELINE_OP_NAMES_H

#include "proxies/step/layout.h"
#include "proxies/step/program.h"

/* bb_op_name - "all_reduce dp 75.1 MiB", "compute forward layer 3". Returns text. */
#define BB_OP_NAME 96
const char *bb_op_name(const struct bb_layout *l, const struct bb_op *op, char text[BB_OP_NAME]);

/* bb_call_name - the name of a group call with operations ops[0..n): "group pp 6.2 MiB"; n = 1: the operation's
 * name. */
const char *bb_call_name(const struct bb_layout *l, const struct bb_op *ops, int n, char text[BB_OP_NAME]);

/* bb_op_word - the kind of operation: "all_reduce", "send", "recv"; compute: its purpose. */
const char *bb_op_word(const struct bb_op *op);

/* bb_op_group_size - ranks of the operation's communicator; 1 for compute. */
int bb_op_group_size(const struct bb_layout *l, const struct bb_op *op);

/* bb_op_launches - whether the operation launches anything: a compute operation of 0 us without kernels does not. */
static inline bool bb_op_launches(const struct bb_op *op)
{
    return bb_op_is_comm(op) || op->compute_us > 0 || op->work;
}

#endif
