/*
 * case.h - one case to measure: the collective, its parameters and the layout of its buffers. The module does not
 * depend on CUDA.
 *
 * The memory of a run is one arena, divided into slots. A slot contains the buffers of one operation between guard
 * zones:
 *     out of place | guard | send | guard | recv | guard |
 *     in place     | guard | the larger buffer, which contains the smaller one | guard |
 * Iterations use all slots but the last one in turn. Only the last timed iteration uses the last slot, so that the data
 * of a timed iteration can be verified: the slot's input is unmodified, even if the operation overwrites its input, and
 * no other operation has written the receive buffer. If memory is short, all out-of-place operations, which do not
 * modify their input, share one slot.
 */
#ifndef BB_COLLECTIVES_MEASURE_CASE_H
#define BB_COLLECTIVES_MEASURE_CASE_H

#include "collectives/ops/alltoallv_counts.h"
#include "collectives/ops/coll.h"
#include "cuda/data/pattern.h"

#define BB_SLOT_GUARD 512 /* size of a guard zone in bytes; the layout aligns buffers to this size */

struct bb_case {
    enum bb_coll_kind kind;
    int dtype; /* enum bb_dtype_id */
    int redop; /* enum bb_redop_id; BB_COPY for collectives without a reduction operation */
    int root;  /* -1 for collectives without a root */
    int ranks;
    size_t count; /* count argument of the NCCL call, in elements (coll.h) */
    bool in_place;
    size_t unalign; /* number of elements by which the send and receive buffers are offset from their alignment */
    const struct bb_alltoallv_counts *alltoallv_counts; /* counts of alltoallv, borrowed; used only by collectives
                                                           with BB_COLL_VARIABLE_COUNTS */
};

/* Layout of a slot, the part of the arena with the buffers of one operation (see the top of this file): sizes and
 * offsets in bytes. Offsets count from the beginning of the slot. */
struct bb_buffer_layout {
    size_t send_offset, send_bytes;
    size_t recv_offset, recv_bytes;
    size_t before_offset, before_bytes; /* offset and size in bytes of the guard zone before the receive buffer (in
                                           place: before the larger buffer) */
    size_t after_offset, after_bytes;   /* offset and size in bytes of the guard zone after the receive buffer (in
                                         place: after the larger buffer) */
    size_t slot_bytes;
};

/* bb_case_bytes - return the size of the operation in bytes: the size of the larger buffer. If counts differ between
 * ranks, return the maximum over the ranks. */
size_t bb_case_bytes(const struct bb_case *c);

/* bb_case_bus_factor - return bus bandwidth / algorithm bandwidth. With a matrix of alltoallv: the most bytes that a rank
 * sends to others or receives from them, as a fraction of the size. */
double bb_case_bus_factor(const struct bb_case *c);

/* bb_case_possible - return false if the case requests in-place operation and the collective does not support it. */
bool bb_case_possible(const struct bb_case *c);

/* bb_case_synchronizes_ranks - return whether each rank needs the data of every other rank, so that no rank
 * completes before the last rank arrives. */
bool bb_case_synchronizes_ranks(const struct bb_case *c);

/* bb_buffer_layout_of - return the layout of a slot (the buffers of one operation) of `rank`. All slots of a rank
 * have the same layout. */
struct bb_buffer_layout bb_buffer_layout_of(const struct bb_case *c, int rank);

/* bb_slot_of - return the index of the slot (buffers of one operation) for operation number `iteration` of a
 * measurement. very_last: the operation is the last one of the measurement; with two or more slots, only this
 * operation uses the last slot. */
size_t bb_slot_of(size_t iteration, size_t slots, bool very_last);

/* bb_case_contributes - return whether the operation reads the send buffer of `rank`. Broadcast and scatter read
 * only the root's send buffer. */
bool bb_case_contributes(const struct bb_case *c, int rank);

/*
 * Expected content of the receive buffer of a rank, as a list of consecutive ranges of elements ("parts"). alltoallv
 * has one part per sending rank, because the counts differ. All other collectives have one part: the whole buffer, or
 * no elements on a rank that receives nothing.
 *
 * bb_case_expected_parts - return the number of parts.
 * bb_case_expected_part  - return part i: `count` elements, from element `offset` of the receive buffer.
 */
struct bb_expected_part {
    size_t offset, count;
    struct bb_expect expect;
};
int bb_case_expected_parts(const struct bb_case *c);
struct bb_expected_part bb_case_expected_part(const struct bb_case *c, int rank, int i);

/* bb_case_bandwidths - compute the algorithm and the bus bandwidth of an operation in 1e9 bytes/s.
 *   time_us     time of the operation in microseconds
 *   algbw_gbps  out: size (bb_case_bytes) / time; hypercube with n ranks: (n-1)/n x size / time; NaN if the time is 0
 *   busbw_gbps  out: algbw_gbps x bus factor of the collective (coll.h); NaN with a single rank */
void bb_case_bandwidths(const struct bb_case *c, double time_us, double *algbw_gbps, double *busbw_gbps);

#endif
