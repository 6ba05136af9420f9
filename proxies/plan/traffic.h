/*
 * traffic.h - traffic of each rank in one step, and the roles of a plan: sets of ranks with equal traffic.
 *
 * A row is one kind of operation on one group with one element count: number of calls, total payload, and for sends and
 * receives the peers, as offsets in the communicator. Ranks with equal rows, compute and memory have one role, whatever
 * their roles in the builder are.
 */
#ifndef BB_PROXIES_PLAN_TRAFFIC_H
#define BB_PROXIES_PLAN_TRAFFIC_H

#include "proxies/step/step.h"

struct bb_traffic_peer {
    int offset; /* rank of the peer in the communicator minus own rank; for a ring the offset of the program (+1 also
                   at its end) */
    size_t calls;
};

struct bb_traffic_row {
    enum bb_op_kind kind;
    enum bb_coll_kind coll; /* only for collectives */
    int group, group_size;
    size_t count; /* elements; the count argument of the NCCL call */
    enum bb_dtype_id dtype;
    size_t calls, bytes; /* bytes: calls x payload */
    struct bb_traffic_peer *peers;
    int n_peers;
};

struct bb_traffic_role {
    const char *name;
    int *ranks, n_ranks; /* ascending */
    struct bb_traffic_row *rows;
    int n_rows;
    double compute_us, flops;         /* of one step */
    size_t memory_bytes[BB_USES];     /* the program's buffers */
    size_t work_bytes;                /* additional operands of real kernels */
    double training_bytes[BB_USES];   /* memory of real training (see proxy.h); all 0: unknown */
    const struct bb_program *program; /* program of the role's lowest rank */
};

struct bb_traffic {
    struct bb_traffic_role *roles; /* ordered by their lowest rank */
    int n;
};

/*
 * bb_traffic_init - count the traffic of all ranks and form roles.
 *   step            must outlive t
 *   split_programs  ranks with different programs have different roles even with equal traffic, for callers that print
 *                   a role's program
 *   Returns         0, or -BB_EFAIL without memory
 *   Owner           the caller calls bb_traffic_release
 */
int bb_traffic_init(struct bb_traffic *t, const struct bb_step *step, bool split_programs) BB_MUST_CHECK;
void bb_traffic_release(struct bb_traffic *t);

size_t bb_traffic_memory(const struct bb_traffic_role *role); /* bytes of all buffers and operands */

#endif
