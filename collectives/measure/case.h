/*
 * case.h - one case to measure: the collective, its parameters and the layout of its buffers. No CUDA.
 *
 * The memory of a run is one arena, divided into slots. A slot holds the buffers of one operation between guard zones:
 *     out of place | guard | send | guard | recv | guard | in place | guard | the larger buffer, which contains the
 *     other one | guard |
 * Iterations use the slots in turn, except the last slot, which only the very last timed iteration uses. Its input is
 * unmodified, even for operations that overwrite their input, and no other operation has written its receive buffer. So
 * the data of a timed iteration can be verified. If memory is short, out-of-place operations, which keep their input,
 * share one slot.
 */
#ifndef BB_COLLECTIVES_MEASURE_CASE_H
#define BB_COLLECTIVES_MEASURE_CASE_H

#include "collectives/ops/alltoallv_counts.h"
#include "collectives/ops/coll.h"
#include "cuda/data/pattern.h"

#define BB_SLOT_GUARD 512 /* bytes before and after each buffer; buffers are aligned to it */

struct bb_case {
    enum bb_coll_kind kind;
    int dtype; /* enum bb_dtype_id                       */
    int redop; /* enum bb_redop_id; BB_COPY for kinds without reduction */
    int root;  /* -1 for kinds without root */
    int ranks;
    size_t count; /* count argument of the NCCL call, in elements */
    bool in_place;
    size_t unalign; /* elements by which both buffers are shifted off their alignment */
    const struct bb_alltoallv_counts *alltoallv_counts; /* BB_COLL_VARIABLE_COUNTS only; borrowed */
};

/* Offsets and sizes in bytes; offsets from the beginning of the slot. */
struct bb_buffer_layout {
    size_t send_offset, send_bytes;
    size_t recv_offset, recv_bytes;
    size_t before_offset, before_bytes; /* guard zone before the buffer that contains the receive buffer */
    size_t after_offset, after_bytes;   /* guard zone after this buffer */
    size_t slot_bytes;
};

/* bb_case_bytes - size of the row: bytes of the larger buffer, of the rank that has the most. */
size_t bb_case_bytes(const struct bb_case *c);

/* bb_case_possible - false if the case is in place and the collective does not support in place. */
bool bb_case_possible(const struct bb_case *c);

/* bb_case_synchronizes_ranks - whether each rank needs the data of every other rank, so that no rank completes
 * before the last one arrives. */
bool bb_case_synchronizes_ranks(const struct bb_case *c);

/* bb_buffer_layout_of - layout of the buffers of `rank`. */
struct bb_buffer_layout bb_buffer_layout_of(const struct bb_case *c, int rank);

/* bb_slot_of - slot of an iteration. If there are at least two slots, only the very last iteration uses the last
 * one. */
size_t bb_slot_of(size_t iteration, size_t slots, bool very_last);

/* bb_case_contributes - whether the operation reads the send buffer of `rank` (in broadcast and scatter only the
 * root's). */
bool bb_case_contributes(const struct bb_case *c, int rank);

/*
 * Expected content of the receive buffer of a rank. alltoallv delivers slices of different lengths, which need one
 * expectation each: part i, 0 <= i < bb_case_expected_parts, covers `count` elements from element `offset` on. Every
 * other kind has one part: the whole buffer, or no elements on a rank that receives nothing.
 */
struct bb_expected_part {
    size_t offset, count;
    struct bb_expect expect;
};
int bb_case_expected_parts(const struct bb_case *c);
struct bb_expected_part bb_case_expected_part(const struct bb_case *c, int rank, int i);

#endif
