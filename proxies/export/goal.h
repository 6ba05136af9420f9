/*
 * goal.h - the GOAL operations of one rank: sends, receives and calculations, with dependencies on the end or the start
 * of other operations. Internal to the GOAL exporter.
 *
 * GOAL (group operation assembly language) is the input of LogGOPSim and ATLAHS. The keywords of the text and the
 * fields of the binary file are those of LogGOPSim's txt2bin and Parser.hpp.
 */
#ifndef BB_PROXIES_EXPORT_GOAL_H
#define BB_PROXIES_EXPORT_GOAL_H

#include "collectives/ops/coll.h"
#include "proxies/export/export.h"

enum bb_goal_type { BB_GOAL_SEND = 1, BB_GOAL_RECV, BB_GOAL_CALC };

struct bb_goal_op {
    enum bb_goal_type type;
    int cpu;       /* of the stream; operations on one cpu run one after another */
    uint32_t peer; /* rank; 0 for a calculation */
    uint32_t tag;
    uint64_t size; /* bytes; nanoseconds for a calculation */
};

/* `after` starts only after `before` has ended or, with started, has started. */
struct bb_goal_edge {
    uint32_t after, before;
    bool started;
};

struct bb_goal {
    struct bb_goal_op *ops;
    struct bb_goal_edge *edges;
    size_t n_ops, n_edges;
    int failed; /* first error of an addition; 0: none */
};

/* bb_goal_add - append an operation and return its index; the index is invalid when g->failed is set. */
uint32_t bb_goal_add(struct bb_goal *g, struct bb_goal_op op);
/* bb_goal_add_after - append an operation that waits for `before`. bb_goal_wait, bb_goal_wait_start - add a
 * dependency. BB_GOAL_NOTHING as `before`: no dependency. */
#define BB_GOAL_NOTHING UINT32_MAX
uint32_t bb_goal_add_after(struct bb_goal *g, struct bb_goal_op op, uint32_t before);
void bb_goal_wait(struct bb_goal *g, uint32_t after, uint32_t before);
void bb_goal_wait_start(struct bb_goal *g, uint32_t after, uint32_t before);

/* One rank's part of a collective, which becomes messages to and from the other members of the communicator. */
struct bb_goal_collective {
    const struct bb_layout *layout;
    const struct bb_op *op;
    int group, instance, index, n; /* of the communicator; index: this rank's position in it */
    int cpu;
    uint32_t tag;
    uint32_t before; /* operation that all messages wait for */
};

/*
 * bb_goal_collective - append the messages of a collective and return the operation that ends when all of them have
 * ended. The messages follow flat textbook algorithms: ring for all_reduce, all_gather and reduce_scatter (S bytes in n
 * parts, which differ by at most one byte), pairwise exchange for alltoall, binomial tree for broadcast and reduce, and
 * direct messages with the root for gather and scatter. For other collectives g->failed is -BB_EUSAGE after printing
 * one line.
 */
uint32_t bb_goal_collective(struct bb_goal *g, const struct bb_goal_collective *c);

#endif
