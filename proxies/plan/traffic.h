/*
 * traffic.h - what each rank moves in one step, and which ranks move the same: the roles of a plan.
 *
 * A row is one kind of operation on one group with one count: how often, how many bytes of payload in all, and for
 * sends and receives with whom, as the distance inside the communicator. Ranks whose rows, compute and memory are equal
 * are one role, whatever the builder called them.
 */
#ifndef BB_PROXIES_PLAN_TRAFFIC_H
#define BB_PROXIES_PLAN_TRAFFIC_H

#include "proxies/step/step.h"

struct bb_traffic_peer {
    int offset; /* peer's rank in the communicator minus the own; of a ring, as the program says it (+1 also at its end)
                 */
    size_t calls;
};

struct bb_traffic_row {
    enum bb_op_kind kind;
    enum bb_coll_kind coll; /* of collectives */
    int group, group_size;
    size_t count; /* elements: the argument of the NCCL call */
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
    size_t memory_bytes[BB_USES];     /* of the program's own buffers               */
    size_t work_bytes;                /* beside them, for real work                   */
    double training_bytes[BB_USES];   /* of real training (see proxy.h); all 0: unknown */
    const struct bb_program *program; /* of its lowest rank */
};

struct bb_traffic {
    struct bb_traffic_role *roles; /* by their lowest rank */
    int n;
};

/* bb_traffic_init - apart: ranks whose programs differ are of different roles even where they move the same, for whoever
 * shows a role's program. The step must outlive it. Returns 0 or -BB_EFAIL (no memory). */
int bb_traffic_init(struct bb_traffic *t, const struct bb_step *step, bool split_programs) BB_MUST_CHECK;
void bb_traffic_release(struct bb_traffic *t);

size_t bb_traffic_memory(const struct bb_traffic_role *role); /* bytes of all of it */

#endif
