/*
 * op_names.h - names of operations in messages, traces and profiler ranges, and their traffic.
 */
#ifndef BB_PROXIES_SIMULATION_TIMELINE_OP_NAMES_H
#define BB_PROXIES_SIMULATION_TIMELINE_OP_NAMES_H

#include "proxies/form/step/layout.h"
#include "proxies/form/step/program.h"

/* bb_op_name - writes the name of an operation to text, for example "all_reduce dp 75.1 MiB" or "compute forward
 * layer 3". Returns text. */
#define BB_OP_NAME 96
const char *bb_op_name(const struct bb_layout *l, const struct bb_op *op, char text[BB_OP_NAME]);

/* bb_call_name - writes the name of an NCCL group call with the operations ops[0..n) to text, for example "group pp
 * 6.2 MiB"; n = 1: the name of the operation. Returns text. */
const char *bb_call_name(const struct bb_layout *l, const struct bb_op *ops, int n, char text[BB_OP_NAME]);

/* bb_op_group_size - returns the number of ranks of the operation's communicator; 1 for compute. */
int bb_op_group_size(const struct bb_layout *l, const struct bb_op *op);

/* The traffic of communication operations on one rank. */
struct bb_group_traffic {
    size_t calls;      /* number of operations */
    double collective; /* payload bytes of collectives */
    double bus;        /* payload of collectives x bus factor of nccl-tests */
    double sent, received;
};

/*
 * bb_group_traffic_add - adds one communication operation.
 * bb_group_traffic_bytes - returns the payload: that of collectives, plus the larger of sent and received bytes. A
 *                          message is counted once, as the size of sendrecv in nccl-tests.
 * bb_group_traffic_bus_bytes - returns the bus bytes: those of collectives, plus the larger of sent and received bytes.
 * bb_count_group_traffic - computes the traffic of a program in each group (for example "tp"). traffic: out
 */
void bb_group_traffic_add(struct bb_group_traffic *t, const struct bb_layout *l, const struct bb_op *op);
double bb_group_traffic_bytes(const struct bb_group_traffic *t);
double bb_group_traffic_bus_bytes(const struct bb_group_traffic *t);
void bb_count_group_traffic(const struct bb_layout *l, const struct bb_program *p,
                            struct bb_group_traffic traffic[BB_MAX_GROUPS]);

#endif
