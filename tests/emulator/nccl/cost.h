/*
 * cost.h - how long an operation takes in virtual time: the cost model of the cluster profiles (profiles/clusters).
 * Durations are computed in double nanoseconds and rounded once.
 */
#ifndef EMU_NCCL_COST_H
#define EMU_NCCL_COST_H

#include "ops.h"

/* ns of one collective of n ranks, payload by its kind; same_node: all members are on one node. n == 1 is a copy. */
int64_t en_collective_ns(const struct en_task *task, int n, bool same_node);
int64_t en_copy_ns(size_t bytes); /* inside one device: read and written */

/* The sends and receives of one group on one rank, bytes to other ranks per class of link. */
struct en_load {
    double out_intra, in_intra, out_inter, in_inter;
};
double en_load_ns(const struct en_load *load); /* of the busier direction */
/* From the later arrival of the two ends to the end of the message; loads of both ends. */
int64_t en_message_ns(bool same_node, double load_a_ns, double load_b_ns);

#endif
