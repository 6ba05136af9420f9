/*
 * coll.h - the table of collectives; the rows are in colls.def. No CUDA and no NCCL, so plans, proxies and tests use
 * it.
 *
 * n is the number of ranks of the communicator. `count` is the count argument of the NCCL call, in elements: per rank
 * for kinds whose buffers consist of n slices (BB_COLL_SLICED), the whole buffer for other kinds. Algorithm bandwidth
 * (algbw) is payload bytes / time. Bus bandwidth (busbw) is algbw * bus_factor(n): the rate of one direction of one
 * GPU's link under a flat, bus-bound algorithm. busbw is a convention, not the traffic of the algorithm that NCCL
 * chose.
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
    BB_COLL_REDUCES = 1,         /* takes a reduction operation */
    BB_COLL_ROOTED = 2,          /* takes a root rank */
    BB_COLL_SLICED = 4,          /* count is the slice of one rank, rounded to a multiple of 16 bytes */
    BB_COLL_VARIABLE_COUNTS = 8, /* each pair of ranks exchanges its own count: see
                                    collectives/ops/alltoallv_counts.h */
    BB_COLL_ROUNDS = 16,    /* consists of rounds that depend on each other, so n must be a power of two, and several
                            operations cannot form one NCCL group */
    BB_COLL_ESTIMATED = 32, /* a single NCCL collective call, for which ncclGroupSimulateEnd gives an estimate */
    BB_COLL_PAIRS = 64, /* made of sends and receives on every rank: the communicator's CTA limits (minCTAs, maxCTAs)
                           do not apply */
};

/* Ranks whose data a rank receives. */
enum bb_coll_from {
    BB_FROM_ALL, /* rooted kinds: only the root receives */
    BB_FROM_ROOT,
    BB_FROM_PREVIOUS, /* rank - 1; rank 0 receives from rank n - 1 */
};

/* Relation of the two pointers if the operation is in place; a slice has `count` elements. */
enum bb_coll_inplace {
    BB_INPLACE_NONE,         /* in place is not possible, because sends and receives would race */
    BB_INPLACE_SAME,         /* send == recv */
    BB_INPLACE_SEND_IN_RECV, /* send = recv + rank * count                                    */
    BB_INPLACE_RECV_IN_SEND, /* recv = send + rank * count                                    */
};

struct bb_coll {
    const char *name, *help;                   /* name on the command line; one line of help in lower case */
    const char *factor_text;                   /* formula of bus_factor, for output */
    size_t (*send_count)(size_t count, int n); /* elements of a rank's send buffer; for rooted kinds the maximum over
                                                  the ranks */
    size_t (*recv_count)(size_t count, int n); /* elements of a rank's receive buffer; likewise */
    double (*bus_factor)(int n);               /* busbw / algbw; 0 if a single rank moves no data */
    double (*alg_factor)(int n);               /* fraction of the payload that algbw counts; NULL: 1 */
    unsigned flags;                            /* enum bb_coll_flag                                           */
    enum bb_coll_from from;
    enum bb_coll_inplace inplace;
};
extern const struct bb_coll bb_colls[BB_COLL_KIND_COUNT];

/* Returns the index of the row with this name, or -1. */
int bb_coll_find(const char *name);

/*
 * bb_coll_count - the count argument of the NCCL call for a row of `bytes` bytes. Sliced kinds: bytes / elem_bytes / n
 * elements, rounded down so that a slice is a multiple of 16 bytes (possibly 0). Other kinds: bytes / elem_bytes.
 */
size_t bb_coll_count(enum bb_coll_kind kind, size_t bytes, int n, size_t elem_bytes);

/* bb_coll_possible - whether n ranks can run this kind. */
bool bb_coll_possible(enum bb_coll_kind kind, int n);

/* bb_coll_payload_count - elements that algorithm bandwidth counts: the larger of the two buffers. */
size_t bb_coll_payload_count(enum bb_coll_kind kind, size_t count, int n);

struct bb_expect; /* cuda/data/pattern.h */

/*
 * bb_coll_expect - content that the receive buffer of `rank` must have after the operation. Not for kinds with
 * BB_COLL_VARIABLE_COUNTS.
 *   e        out: the expected content
 *   Returns  the number of elements; 0 for a rank that receives nothing
 */
size_t bb_coll_expect(enum bb_coll_kind kind, size_t count, int n, int root, int rank, struct bb_expect *e);

#endif
