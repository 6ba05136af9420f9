/*
 * coll.h - the table of collectives. colls.def contains the rows, one per collective. The module depends neither on
 * CUDA nor on NCCL, so plans, proxies and tests use it too.
 *
 * n is the number of ranks of the communicator. `count` is the count argument of the NCCL call, in elements: the length
 * of one slice for collectives whose buffers consist of n slices (BB_COLL_SLICED), and the length of the whole buffer
 * for other collectives. Algorithm bandwidth (algbw) is payload bytes / time. Bus bandwidth (busbw) is algbw *
 * bus_factor(n): the rate in one direction of one GPU's link that a flat, bandwidth-bound algorithm would need to reach
 * this algbw. busbw is a convention: the algorithm that NCCL selects may send a different number of bytes.
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
    BB_COLL_REDUCES = 1, /* has a reduction operation */
    BB_COLL_ROOTED = 2,  /* has a root rank */
    BB_COLL_SLICED = 4,  /* the buffers consist of slices, one per rank; `count` is the length of a slice, a multiple
                           of 16 bytes */
    BB_COLL_VARIABLE_COUNTS = 8, /* each pair of ranks has its own count, see collectives/ops/alltoallv_counts.h */
    BB_COLL_ROUNDS = 16,    /* consists of log2(n) exchanges, each of which sends data received in the previous one: n
                            must be a power of two, and the exchanges cannot be in one NCCL group */
    BB_COLL_ESTIMATED = 32, /* one NCCL collective call, for which ncclGroupSimulateEnd returns an estimate */
};

/* The ranks whose data a rank receives. */
enum bb_coll_from {
    BB_FROM_ALL, /* all ranks; in rooted collectives with this value only the root receives */
    BB_FROM_ROOT,
    BB_FROM_PREVIOUS, /* rank - 1; rank 0 receives from rank n - 1 */
};

/* Where one buffer lies in the other if the operation is in place. A slice has `count` elements. */
enum bb_coll_inplace {
    BB_INPLACE_NONE, /* cannot run in place, because received data would overwrite data that are still to be sent */
    BB_INPLACE_SAME, /* send == recv */
    BB_INPLACE_SEND_IN_RECV, /* send = recv + rank * count */
    BB_INPLACE_RECV_IN_SEND, /* recv = send + rank * count */
};

struct bb_coll {
    const char *name, *help;                   /* name: on the command line; help: one line that begins in lower case */
    const char *factor_text;                   /* formula of bus_factor, for the output */
    size_t (*send_count)(size_t count, int n); /* returns the number of elements in a rank's send buffer; for rooted
                                                  collectives the maximum over the ranks */
    size_t (*recv_count)(size_t count, int n); /* returns the number of elements in a rank's receive buffer; for
                                                  rooted collectives the maximum over the ranks */
    double (*bus_factor)(int n); /* returns busbw / algbw for n ranks; 0 for a single rank, which sends nothing */
    double (*alg_factor)(int n); /* returns the fraction of the payload bytes that counts in algbw; NULL: all bytes
                                    count */
    unsigned flags;              /* bits of enum bb_coll_flag */
    enum bb_coll_from from;
    enum bb_coll_inplace inplace;
};
extern const struct bb_coll bb_colls[BB_COLL_KIND_COUNT];

/* bb_coll_find - return the index of the collective with this name, or -1. */
int bb_coll_find(const char *name);

/*
 * bb_coll_count - return the count argument of the NCCL call for a size of `bytes` bytes.
 *   BB_COLL_SLICED     bytes / elem_bytes / n elements, rounded down to a multiple of 16 bytes; may be 0
 *   other collectives  bytes / elem_bytes elements
 */
size_t bb_coll_count(enum bb_coll_kind kind, size_t bytes, int n, size_t elem_bytes);

/* bb_coll_possible - return whether a communicator of n ranks can run this collective. */
bool bb_coll_possible(enum bb_coll_kind kind, int n);

/* bb_coll_payload_count - return the number of elements of the larger of the two buffers, which defines the size of
 * the operation. */
size_t bb_coll_payload_count(enum bb_coll_kind kind, size_t count, int n);

struct bb_expect; /* defined in cuda/data/pattern.h */

/*
 * bb_coll_expect - describe the content that the receive buffer of `rank` must have after the operation. Not for
 * collectives with BB_COLL_VARIABLE_COUNTS.
 *   e        out: the expected content
 *   Returns  the number of expected elements; 0 for a rank that receives nothing
 */
size_t bb_coll_expect(enum bb_coll_kind kind, size_t count, int n, int root, int rank, struct bb_expect *e);

#endif
