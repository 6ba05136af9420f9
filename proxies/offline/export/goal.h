/*
 * goal.h - one rank's operations in the GOAL language: sends, receives and calculations, each of which may depend on
 * the end or the start of other operations. Internal to the GOAL exporter.
 *
 * GOAL (group operation assembly language) is the input of LogGOPSim and ATLAHS. The keywords of the text and the
 * fields of the binary file are those of LogGOPSim's txt2bin and Parser.hpp.
 */
#ifndef BB_PROXIES_OFFLINE_EXPORT_GOAL_H
#define BB_PROXIES_OFFLINE_EXPORT_GOAL_H

#include "collectives/ops/coll.h"
#include "proxies/offline/export/export.h"

enum bb_goal_type { BB_GOAL_SEND = 1, BB_GOAL_RECV, BB_GOAL_CALC };

/* The operations that depend on one operation, in the binary file: n indices from the index `first` of the rank's
 * list. */
struct bb_goal_dependents {
    uint32_t n, first;
} __attribute__((packed));

/* One operation, with the layout of the binary file. n_before: number of operations on which the operation depends;
 * dependents: the operations that wait for its end [0] or for its start [1]. */
struct bb_goal_op {
    uint32_t n_before;
    uint8_t type;  /* enum bb_goal_type */
    uint32_t peer; /* sends, receives: rank of the peer; calculations: 0 */
    uint64_t size; /* sends, receives: bytes; calculations: nanoseconds */
    uint32_t tag;
    uint8_t cpu; /* number of the operation's stream; operations with the same number run one after another */
    uint8_t nic;
    struct bb_goal_dependents dependents[2]; /* n is counted while the dependencies are added; `first` is set by the
                                                writer of the binary file */
} __attribute__((packed));

/* A dependency: operation `after` starts only when operation `before` has ended or, if `started` is set, when
 * `before` has started. */
struct bb_goal_edge {
    uint32_t after, before;
    bool started;
};

struct bb_goal {
    struct bb_goal_op *ops;
    struct bb_goal_edge *edges;
    size_t n_ops, n_edges;
};

/*
 * bb_goal_add - append an operation that starts after the end of operation `before`. Returns the operation's index.
 * bb_goal_message - append a send or receive of the operation `op` in the same way. peer: world rank
 * bb_goal_calc - append a calculation of `ns` nanoseconds in the same way. A calculation of zero duration that waits
 *   for several operations is a join: it ends when all of them have ended.
 * bb_goal_wait - make operation `after` start after the end of operation `before`.
 * bb_goal_wait_start - make operation `after` start after the start of operation `before`.
 * All functions: if `before` is BB_GOAL_NOTHING, no dependency is added.
 */
#define BB_GOAL_NOTHING UINT32_MAX
uint32_t bb_goal_add(struct bb_goal *g, struct bb_goal_op op, uint32_t before);
uint32_t bb_goal_message(struct bb_goal *g, const struct bb_op *op, enum bb_goal_type type, int peer, uint64_t bytes,
                         uint32_t before);
uint32_t bb_goal_calc(struct bb_goal *g, int cpu, int64_t ns, uint32_t before);
void bb_goal_wait(struct bb_goal *g, uint32_t after, uint32_t before);
void bb_goal_wait_start(struct bb_goal *g, uint32_t after, uint32_t before);

/*
 * bb_goal_collective - append the messages of a collective on one rank, and return the index of an operation that ends
 * when all of these messages have ended. The messages wait for the end of operation `before`. The algorithms ignore
 * which ranks share a node: ring for all_reduce, all_gather and reduce_scatter (the array is split into n fragments
 * whose sizes differ by at most one byte), pairwise exchange for alltoall, binomial tree for broadcast and reduce,
 * direct messages between the root and all other ranks for gather and scatter. Call only for collectives for which
 * bb_goal_supports (export.h) returns true.
 */
uint32_t bb_goal_collective(struct bb_goal *g, const struct bb_layout *l, const struct bb_op *op, int rank,
                            uint32_t before);

#endif
