/*
 * op_names.h - what operations are called wherever people see them: ranges of a profiler, traces, messages. Pure.
 */
#ifndef BB_PROXIES_TIMELINE_OP_NAMES_H
#define BB_PROXIES_TIMELINE_OP_NAMES_H

#include "proxies/step/layout.h"
#include "proxies/step/program.h"

/* bb_op_name - "all_reduce dp 75.1 MiB", "compute forward layer 3". Returns text. */
#define BB_OP_NAME 96
const char *bb_op_name(const struct bb_layout *l, const struct bb_op *op, char text[BB_OP_NAME]);

/* bb_call_name - of ops[0..n), the operations of one group call: "group pp 6.2 MiB"; of one alone its own. */
const char *bb_call_name(const struct bb_layout *l, const struct bb_op *ops, int n, char text[BB_OP_NAME]);

/* bb_op_word - "all_reduce", "send", "recv"; for compute what it stands for. */
const char *bb_op_word(const struct bb_op *op);

/* bb_op_group_size - ranks of the operation's communicator, 1 for compute. */
int bb_op_group_size(const struct bb_layout *l, const struct bb_op *op);

/* bb_op_launches - whether anything is launched for it: a compute of 0 us without real work is not. */
static inline bool bb_op_launches(const struct bb_op *op)
{
    return bb_op_is_comm(op) || op->compute_us > 0 || op->work;
}

#endif
