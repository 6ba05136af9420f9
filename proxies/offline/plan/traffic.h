/*
 * traffic.h - traffic of each rank in one step, and the roles that a plan reports.
 *
 * A row of the traffic table sums all operations of one kind, in one group, with one data type and one element count.
 * It contains the number of calls, the total payload and, for sends and receives, the peers as offsets in the
 * communicator. Ranks with equal rows, equal compute and equal memory form one role of the plan, even if the builder of
 * the step gave them different roles.
 */
#ifndef BB_PROXIES_OFFLINE_PLAN_TRAFFIC_H
#define BB_PROXIES_OFFLINE_PLAN_TRAFFIC_H

#include "bootstrap/results/table.h"
#include "proxies/form/step/step.h"

struct bb_traffic_peer {
    /* rank of the peer minus the executing rank, both in the communicator. For a peer that the program gives as an
     * offset (BB_PEER_OFFSET), this offset: for example +1 on all ranks of a ring, including the last rank, which
     * sends to rank 0 */
    int offset;
    size_t calls;
};

struct bb_traffic_row {
    enum bb_op_kind kind;
    enum bb_coll_kind coll; /* kind of collective; unused for sends and receives */
    int group, group_size; /* group: index in layout.groups; group_size: number of ranks of each of its communicators */
    size_t count;          /* number of elements per call: the count argument of the NCCL call */
    enum bb_dtype_id dtype;
    size_t calls, bytes; /* calls: number of calls; bytes: their total payload */
    struct bb_traffic_peer *peers;
    int n_peers;
};

struct bb_traffic_role {
    const char *name;
    int *ranks, n_ranks; /* the ranks with this role, in ascending order */
    struct bb_traffic_row *rows;
    int n_rows;
    double compute_us, flops; /* compute of one rank in one step. compute_us: total duration of the kernels that only
                                 have a duration; flops: FLOPs of all kernels */
    size_t memory_bytes[BB_USES]; /* bytes of the program's buffers on one rank, by use (parameters, gradients, ...) */
    size_t work_bytes;            /* bytes of the operands of the GEMMs that --compute gemm executes, not included in
                                     memory_bytes */
    double training_bytes[BB_USES];   /* bytes that real training needs on one rank, by use (parameters, gradients,
                                         ...); all 0: unknown */
    const struct bb_program *program; /* program of the role's first rank */
};

struct bb_traffic {
    struct bb_traffic_role *roles; /* sorted by their first ranks */
    int n;
};

/* A row of the traffic table as the reports of a plan show it. `of` is a copy of the row. */
struct bb_traffic_shown {
    const char *kind, *group, *dtype;
    json_t *peers;     /* for the JSON; NULL for the text, which prints of.peers */
    size_t call_bytes; /* payload of one call: the size that `busbar bench` gives it */
    struct bb_traffic_row of;
};
extern const struct bb_field bb_traffic_fields[]; /* rows: struct bb_traffic_shown */
struct bb_traffic_shown bb_traffic_show(const struct bb_layout *layout, const struct bb_traffic_row *row);

/*
 * bb_traffic_init - count the traffic of all ranks and form the plan's roles.
 *   t               out: the caller releases it with bb_traffic_release
 *   step            must outlive t
 *   split_programs  true: ranks with different programs get different roles even if their traffic is equal, for callers
 *                   that print the programs
 */
void bb_traffic_init(struct bb_traffic *t, const struct bb_step *step, bool split_programs);
void bb_traffic_release(struct bb_traffic *t);

size_t bb_traffic_memory(const struct bb_traffic_role *role); /* returns memory_bytes + work_bytes, summed over all
                                                                 uses */

#endif
