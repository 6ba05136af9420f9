/*
 * coll.h - the one table of collectives; its rows are in colls.def. Pure: no CUDA, no NCCL, so that plans, proxies and
 * tests use it too.
 *
 * n is the number of ranks of the communicator. `count` is the argument of the NCCL call, in elements: per rank for the
 * kinds whose buffers are cut in n slices (BB_COLL_SLICED), the whole buffer for the others. Payload is what algorithm
 * bandwidth divides: payload bytes / time. busbw = algbw * bus_factor(n): the rate of one direction of one GPU's link
 * if a flat, bus-bound algorithm were used; it is a convention, not the traffic of the algorithm that NCCL chose.
 */
#ifndef BB_COLLECTIVES_OPS_COLL_H
#define BB_COLLECTIVES_OPS_COLL_H

#include "cuda/work/dtype.h"

#include <stdbool.h>
#include <stddef.h>

#define COLL(kind, ...) kind,
enum bb_coll_kind {
#include "collectives/ops/colls.def"
    BB_COLL_KIND_COUNT
};

enum bb_coll_flag {
    BB_COLL_REDUCES = 1,         /* takes a reduction operation                                          */
    BB_COLL_ROOTED = 2,          /* takes a root                                                         */
    BB_COLL_SLICED = 4,          /* count is one rank's slice, rounded to a multiple of 16 bytes         */
    BB_COLL_VARIABLE_COUNTS = 8, /* pairs of ranks exchange different amounts: collectives/ops/alltoallv_counts.h     */
    BB_COLL_ROUNDS = 16,         /* rounds that wait for each other: n is a power of two, and several
                            operations cannot be one group                                       */
    BB_COLL_ESTIMATED = 32,      /* one call of NCCL's with an algorithm of its own, whose time NCCL estimates */
    BB_COLL_PAIRS = 64,          /* every rank sends and receives: NCCL's limits of CTAs do not hold           */
};

/* Whose data a rank receives. */
enum bb_coll_from {
    BB_FROM_ALL, /* a rooted kind: the root alone receives */
    BB_FROM_ROOT,
    BB_FROM_PREVIOUS, /* rank - 1, the ring's first from its last */
};

/* Where the two pointers lie when the operation is done in place; slices are `count` elements long. */
enum bb_coll_inplace {
    BB_INPLACE_NONE,         /* cannot be done in place: sends and receives would race       */
    BB_INPLACE_SAME,         /* one pointer for both                                          */
    BB_INPLACE_SEND_IN_RECV, /* send = recv + rank * count                                    */
    BB_INPLACE_RECV_IN_SEND, /* recv = send + rank * count                                    */
};

struct bb_coll {
    const char *name, *help;                   /* command-line word; one lower-case line                      */
    const char *factor_text;                   /* the formula of bus_factor, for people                       */
    size_t (*send_count)(size_t count, int n); /* elements of a rank's send buffer (rooted: the largest rank's) */
    size_t (*recv_count)(size_t count, int n); /* elements of a rank's receive buffer (same)                  */
    double (*bus_factor)(int n);               /* busbw / algbw; 0 where one rank moves nothing               */
    double (*alg_factor)(int n);               /* part of the payload that algorithm bandwidth counts, NULL: 1 */
    unsigned flags;                            /* enum bb_coll_flag                                           */
    enum bb_coll_from from;
    enum bb_coll_inplace inplace;
};
extern const struct bb_coll bb_colls[BB_COLL_KIND_COUNT];

/* Index of the row of that name, or -1. */
int bb_coll_find(const char *name);

/*
 * bb_coll_count - the count of the call for a row of `bytes` bytes. Sliced kinds: bytes / elem_bytes / n elements,
 * rounded down so that a slice is a multiple of 16 bytes (it may become 0); others: bytes / elem_bytes.
 */
size_t bb_coll_count(enum bb_coll_kind kind, size_t bytes, int n, size_t elem_bytes);

/* bb_coll_possible - whether n ranks can do it. */
bool bb_coll_possible(enum bb_coll_kind kind, int n);

/* bb_coll_payload_count - elements that algorithm bandwidth counts: the larger of the two buffers. */
size_t bb_coll_payload_count(enum bb_coll_kind kind, size_t count, int n);

struct bb_expect; /* cuda/data/pattern.h */

/*
 * bb_coll_expect - what the receive buffer of `rank` must hold afterwards: as many elements as returned (0 for a rank
 * that receives nothing), as *e says. Not for uneven kinds.
 */
size_t bb_coll_expect(enum bb_coll_kind kind, size_t count, int n, int root, int rank, struct bb_expect *e);

#endif
