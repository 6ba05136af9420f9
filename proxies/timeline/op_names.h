/*
 * op_names.h - names of operations in messages, traces and profiler ranges.
 */
#ifndef BB_PROXIES_TIMELINE_OP_NAMES_H
#define BB_PROXIES_TIMELINE_OP_NAMES_H

#include "proxies/step/layout.h"
#include "proxies/step/program.h"

/* bb_op_name - writes the name of an operation to text, for example "all_reduce dp 75.1 MiB" or "compute forward
 * layer 3". Returns text. */
#define BB_OP_NAME 96
const char *bb_op_name(const struct bb_layout *l, const struct bb_op *op, char text[BB_OP_NAME]);

/* bb_call_name - writes the name of an NCCL group call with the operations ops[0..n) to text, for example "group pp
 * 6.2 MiB"; n = 1: the name of the operation. Returns text. */
const char *bb_call_name(const struct bb_layout *l, const struct bb_op *ops, int n, char text[BB_OP_NAME]);

/* bb_op_word - returns the kind of a communication operation ("all_reduce", "send", "recv") or the purpose of a
 * compute operation, for example "forward". */
const char *bb_op_word(const struct bb_op *op);

/* bb_op_group_size - returns the number of ranks of the operation's communicator; 1 for compute. */
int bb_op_group_size(const struct bb_layout *l, const struct bb_op *op);

/* bb_op_launches - returns whether the host launches a kernel or calls NCCL for the operation. It does not for a
 * compute operation of 0 us without kernels. */
static inline bool bb_op_launches(const struct bb_op *op)
{
    return bb_op_is_comm(op) || op->compute_us > 0 || op->work;
}

#endif
