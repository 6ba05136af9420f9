/*
 * goal.h - what one rank does in GOAL: sends, receives and calculations, and which must have ended, or started, before
 * which. Internal to the exporter of GOAL.
 *
 * GOAL (group operation assembly language) is what LogGOPSim and ATLAHS simulate. The words of the text and the fields
 * of the binary file are those of LogGOPSim's txt2bin and Parser.hpp.
 */
#ifndef BB_PROXIES_EXPORT_GOAL_H
#define BB_PROXIES_EXPORT_GOAL_H

#include "collectives/ops/coll.h"
#include "proxies/export/export.h"

enum bb_goal_type { BB_GOAL_SEND = 1, BB_GOAL_RECV, BB_GOAL_CALC };

struct bb_goal_op {
    enum bb_goal_type type;
    int cpu;       /* of a stream: what is on one runs one after another */
    uint32_t peer; /* rank; 0 of a calculation */
    uint32_t tag;
    uint64_t size; /* bytes, or nanoseconds of a calculation */
};

/* `after` must not begin before `before` has ended; or, where started, has begun. */
struct bb_goal_edge {
    uint32_t after, before;
    bool started;
};

struct bb_goal {
    struct bb_goal_op *ops;
    struct bb_goal_edge *edges;
    size_t n_ops, n_edges;
    int failed; /* the first error of an addition, 0: none */
};

/* bb_goal_add - the index of a new operation; of no use once g->failed is set. */
uint32_t bb_goal_add(struct bb_goal *g, struct bb_goal_op op);
/* bb_goal_add_after - one that waits for another; before BB_GOAL_NOTHING: for none. bb_goal_wait - likewise. */
#define BB_GOAL_NOTHING UINT32_MAX
uint32_t bb_goal_add_after(struct bb_goal *g, struct bb_goal_op op, uint32_t before);
void bb_goal_wait(struct bb_goal *g, uint32_t after, uint32_t before);
void bb_goal_wait_start(struct bb_goal *g, uint32_t after, uint32_t before);

/* A collective of this rank: messages to and from the others of its communicator. */
struct bb_goal_collective {
    const struct bb_layout *layout;
    const struct bb_op *op;
    int group, instance, index, n; /* of the communicator; this rank's place in it */
    int cpu;
    uint32_t tag;
    uint32_t before; /* what all of it waits for */
};

/*
 * bb_goal_collective - appends its messages and returns the operation that ends when all of them have; they follow the
 * flat algorithms of textbooks: ring for all_reduce, all_gather and reduce_scatter (S bytes in n parts that differ by a
 * byte at most), pairs for alltoall, a binomial tree for broadcast and reduce, everyone with the root for gather and
 * scatter. Others are -BB_EUSAGE (said), in g->failed.
 */
uint32_t bb_goal_collective(struct bb_goal *g, const struct bb_goal_collective *c);

#endif
