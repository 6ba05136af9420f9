/* op_time.h - what operations of a step program ask of the machine. */
#ifndef BB_PROXIES_SIMULATE_OP_TIME_H
#define BB_PROXIES_SIMULATE_OP_TIME_H

#include "proxies/machine/cluster.h"
#include "proxies/step/program.h"

/* bb_op_issue_ns - that the host takes to issue a compute operation; *first_ns: its first kernel. */
int64_t bb_op_issue_ns(const struct bb_cluster *c, const struct bb_op *op, int64_t *first_ns);

/* bb_op_kernels_ns - that its kernels take alone, launches not waited for; 0 of communication. */
int64_t bb_op_kernels_ns(const struct bb_cluster *c, const struct bb_op *op);

/* bb_op_compute_end_ns - when a compute operation ends that may start at `start_ns` and whose first launch the host
 * begins at host_ns: of real work each product and pass is launched by itself, and none starts before it is. */
int64_t bb_op_compute_end_ns(const struct bb_cluster *c, const struct bb_op *op, int64_t start_ns, int64_t host_ns);

/* bb_op_collective - the collective that the operation is, on a communicator of so many ranks on so many nodes,
 * which lie so in the machine's fabric. */
struct bb_collective bb_op_collective(const struct bb_op *op, int ranks, int nodes, const struct bb_spread *spread);

#endif
