/*
 * case.h - one measurement as data: which collective, on what, and where its buffers lie. Pure.
 *
 * The memory of a run is one arena, cut into slots. A slot holds the buffers of one operation between guard zones:
 *     out of place   | guard | send | guard | recv | guard |
 *     in place       | guard | the larger buffer, the other inside | guard |
 * Iterations take the slots in turn. The last slot is kept for the very last timed iteration: its input is fresh also
 * for operations that overwrite their input, and nothing else has written to its receive area, so the data of a timed
 * iteration can be verified. Where memory is short, operations out of place, whose input stays, share one slot.
 */
#ifndef BB_COLLECTIVES_MEASURE_CASE_H
#define BB_COLLECTIVES_MEASURE_CASE_H

#include "collectives/ops/alltoallv_counts.h"
#include "collectives/ops/coll.h"
#include "cuda/data/pattern.h"

#define BB_SLOT_GUARD 512 /* bytes on each side of a buffer; buffers are aligned to it */

struct bb_case {
    enum bb_coll_kind kind;
    int dtype; /* enum bb_dtype_id                       */
    int redop; /* enum bb_redop_id, BB_COPY where none   */
    int root;  /* -1 where none                          */
    int ranks;
    size_t count; /* argument of the NCCL call, in elements */
    bool in_place;
    size_t unalign; /* elements by which both buffers are moved off their alignment */
    const struct bb_alltoallv_counts
        *alltoallv_counts; /* BB_COLL_VARIABLE_COUNTS                                              */
};

/* Offsets and sizes in bytes; offsets from the slot's start. */
struct bb_buffer_layout {
    size_t send_offset, send_bytes;
    size_t recv_offset, recv_bytes;
    size_t before_offset, before_bytes; /* guard zone in front of the receive area's buffer */
    size_t after_offset, after_bytes;   /* guard zone behind it                             */
    size_t slot_bytes;
};

/* bb_case_bytes - the size of the row: bytes of the larger buffer, of the rank that has most. */
size_t bb_case_bytes(const struct bb_case *c);

/* bb_case_possible - false for an operation that cannot be done in place. */
bool bb_case_possible(const struct bb_case *c);

/* bb_case_synchronizes_ranks - each rank needs the data of every other, so none can end before the last has come. */
bool bb_case_synchronizes_ranks(const struct bb_case *c);

/* bb_buffer_layout_of - where the buffers of `rank` lie. */
struct bb_buffer_layout bb_buffer_layout_of(const struct bb_case *c, int rank);

/* bb_slot_of - slot of an iteration; of two and more the last one is for the very last iteration only. */
size_t bb_slot_of(size_t iteration, size_t slots, bool very_last);

/* bb_case_contributes - whether the rank's send buffer takes part (only the root's does in a broadcast or scatter). */
bool bb_case_contributes(const struct bb_case *c, int rank);

/*
 * What the receive area of a rank must hold afterwards. An uneven exchange delivers slices of different lengths, hence
 * several expectations: part i of bb_case_expected_parts covers `count` elements from element `offset` of the receive
 * area on. Every other kind has one part, all of the area, or nothing on a rank that receives nothing.
 */
struct bb_expected_part {
    size_t offset, count;
    struct bb_expect expect;
};
int bb_case_expected_parts(const struct bb_case *c);
struct bb_expected_part bb_case_expected_part(const struct bb_case *c, int rank, int i);

#endif
