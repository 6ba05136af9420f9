/*
 * schedule.h - pipeline schedules as tables: the order in which a pipeline stage processes the micro-batches of a step.
 * Each element of a table is a slot: the forward or the backward of one model chunk for one micro-batch. A table
 * contains no operations, times or messages; pipe.h adds the messages, stage.c adds the layers.
 *
 * Symbols: p stages, m micro-batches. The layers of the model are divided into p v parts (dualpipe: p parts). Stage r
 * holds v parts, its model chunks (virtual pipeline stages); chunk c of stage r is part c p + r of the model.
 * Activations go from stage to stage and, with v > 1, from the last stage back to the first one.
 *
 *   gpipe        GPipe (Huang et al. 2019): all forwards, then all backwards. v = 1
 *   1f1b         1F1B, PipeDream-Flush (as in Megatron-LM): p - 1 - r forwards, then alternately one forward and one
 *                backward. v = 1
 *   interleaved  interleaved 1F1B (Narayanan et al. 2021, Megatron-LM): 1F1B over v chunks; a stage processes a group
 *                of g micro-batches with one chunk before it continues with the next chunk
 *   zb-h1        ZB-H1 (Qi et al. 2023, zero bubble): 1F1B with the backward split into two slots, B and W. B computes
 *                the gradients of the activations, which are sent immediately. W computes the gradients of the weights
 *                and fills idle time. Activation memory is that of 1F1B. v = 1
 *   zb-h2        ZB-H2 (Qi et al. 2023): 2 (p - 1 - r) forwards before the first B and 2 r B slots before the first W.
 *                When forward, B and W take equal time, a stage is never idle between its first and its last slot, with
 *                the activation memory of 2 p - 1 micro-batches. If all stages begin the step at the same time, the
 *                step takes as long as with zb-h1: the gain of zb-h2 is that the next step could begin earlier. v = 1
 *   dualpipe     DualPipe (DeepSeek-V3, 2024; schedule_dualpipe.c), a bidirectional pipeline: half of the micro-batches
 *                enter at each end. Stage r holds the parts r and p - 1 - r of p; chunk 0 is the part with the lower
 *                index. A forward in one direction runs concurrently with a backward in the opposite direction, so that
 *                one of them computes while the other communicates. p and m are even, m >= 2 p
 */
#ifndef BB_PROXIES_WORKLOADS_TRANSFORMER_SCHEDULE_H
#define BB_PROXIES_WORKLOADS_TRANSFORMER_SCHEDULE_H

#include "bootstrap/base/err.h"

#include <stdbool.h>

/* X(kind, value of --schedule, properties). To add a schedule, define its bb_schedule_row in a source file and add a
 * line here. */
#define BB_SCHEDULE_LIST(X)                                                                                            \
    X(BB_GPIPE, "gpipe", bb_schedule_gpipe)                                                                            \
    X(BB_1F1B, "1f1b", bb_schedule_1f1b)                                                                               \
    X(BB_INTERLEAVED, "interleaved", bb_schedule_interleaved)                                                          \
    X(BB_ZB_H1, "zb-h1", bb_schedule_zb_h1)                                                                            \
    X(BB_ZB_H2, "zb-h2", bb_schedule_zb_h2)                                                                            \
    X(BB_DUALPIPE, "dualpipe", bb_schedule_dualpipe)

#define BB_SCHEDULE_KIND(kind, word, row) kind,
enum bb_schedule_kind { BB_SCHEDULE_LIST(BB_SCHEDULE_KIND) BB_SCHEDULES };

extern const char *const bb_schedule_names[BB_SCHEDULES + 1]; /* values of --schedule, NULL-terminated */

struct bb_schedule {
    enum bb_schedule_kind kind;
    int stages, micro_batches, chunks; /* numbers of pipeline stages, of micro-batches per step, and of model chunks
                                          per stage (virtual pipeline stages); each >= 1 */
    int group; /* only interleaved: number of micro-batches that a stage processes with one model chunk before it
                  continues with the next chunk; from `stages` to `micro_batches` */
    /* only 1f1b with one stage and interleaved: in the steady state a forward runs concurrently with the backward of an
     * earlier micro-batch, after one more forward of the warm-up, as Megatron-LM's overlap_moe_expert_parallel_comm
     * (combined_1f1b.py) */
    bool combined;
};

/* Kinds of slots of a pipeline schedule. FORWARD: forward of one model chunk. BACKWARD (B): computes the gradients
 * of the activations and, unless the slot's flag `split` is set, of the weights. WEIGHTS (W): computes only the
 * gradients of the weights. */
enum bb_slot_kind { BB_SLOT_FORWARD, BB_SLOT_BACKWARD, BB_SLOT_WEIGHTS };

struct bb_slot {
    enum bb_slot_kind kind;
    int micro_batch, chunk;
    bool split;     /* BACKWARD: computes only the gradients of the activations; a later WEIGHTS slot computes the
                   gradients of the weights */
    bool with_next; /* FORWARD: runs concurrently with the next slot, which is a BACKWARD */
};

/* Properties of one pipeline schedule (1F1B, ...). */
struct bb_schedule_row {
    bool chunked; /* true: >= 2 model chunks per stage, processed in groups of micro-batches; false: 1 chunk per
                     stage */
    /* true: a stage posts each receive one forward or backward earlier than needed, so that the transfer overlaps
     * compute (Megatron-LM's overlap_p2p_comm; see pipe.h). */
    bool overlaps_p2p;
    /* Bidirectional schedules: fills in the slots (forwards and backwards) of stage r of p and returns their number.
     * Chunks 0 and 1 of the stage are the model parts (ranges of layers) r and p - 1 - r, the part with the lower
     * index first. Half of the micro-batches run in each direction. NULL: the schedule has one direction, and chunk
     * c is part c p + r. */
    int (*make_bidirectional)(const struct bb_schedule *s, int stage, struct bb_slot *slots);
    bool all_forwards_first; /* true: all forwards precede the first backward, so the output head stores its
                                activations of all micro-batches at the same time */
    /* Stage r of p runs warm_up * (p - 1 - r) + (v - 1) * g forwards before the steady state, in which forwards and
     * backwards alternate (v: model chunks per stage; g: bb_schedule.group). Unused if all_forwards_first. */
    int warm_up;
    bool split; /* true: the backward is split into B slots (gradients of activations) and W slots (gradients of
                   weights) */
    int deferred_weights; /* split: on stage r, the first W slot follows the B slot with index deferred_weights * r */
};
#define BB_SCHEDULE_ROW(kind, word, row) extern const struct bb_schedule_row row;
BB_SCHEDULE_LIST(BB_SCHEDULE_ROW)

const struct bb_schedule_row *bb_schedule_row(const struct bb_schedule *s);
bool bb_schedule_splits_backward(const struct bb_schedule *s); /* returns whether the schedule has WEIGHTS slots
                                                                  (separate computation of the weight gradients) */
bool bb_schedule_pairs_slots(
    const struct bb_schedule *s); /* returns whether forwards run concurrently with backwards */
bool bb_schedule_is_bidirectional(const struct bb_schedule *s); /* returns whether micro-batches enter the pipeline
                                                                   at both ends (dualpipe) */

/*
 * bb_schedule_validate - check the numbers of stages, chunks and micro-batches.
 *   ranks    for suggestions: numbers of stages that divide it are possible
 *   prefix   beginning of the message (the proxy's name)
 *   Returns  0, or -BB_EUSAGE after printing one error line that suggests the nearest valid numbers
 */
int bb_schedule_validate(const struct bb_schedule *s, int ranks, const char *prefix) BB_MUST_CHECK;

/* bb_schedule_max_slots - returns the maximum number of slots (forwards, backwards and separate weight gradients) of
 * a stage. With p stages, m micro-batches and v chunks per stage: 2 m v; zb-h1 and zb-h2: 3 m; dualpipe: 2 m + p -
 * 1. */
int bb_schedule_max_slots(const struct bb_schedule *s);

/*
 * bb_schedule_make - fill in the slots (forwards and backwards) of one stage, in order of execution.
 *   slots    [bb_schedule_max_slots(s)] out
 *   Returns  the number of slots
 */
int bb_schedule_make(const struct bb_schedule *s, int stage, struct bb_slot *slots);

/*
 * The layers of the model are divided into parts (virtual pipeline stages), numbered in the order of the layers. A
 * stage holds one part per chunk.
 * bb_schedule_part - returns the index of the part that is chunk `chunk` of `stage`.
 * bb_schedule_parts - returns the number of parts: stages x chunks; dualpipe: the number of stages.
 */
int bb_schedule_part(const struct bb_schedule *s, int stage, int chunk);
int bb_schedule_parts(const struct bb_schedule *s);

/* bb_schedule_parts_per_stage - returns the number of virtual pipeline stages divided by the number of stages, which
 * is the number of chunks; dualpipe: 1, because two stages hold each virtual stage. */
int bb_schedule_parts_per_stage(const struct bb_schedule *s);

/* bb_schedule_direction - returns in which direction a stage sends the chunk's activations: 1 to the next stage, or
 * -1 to the previous stage (second direction of dualpipe). */
int bb_schedule_direction(const struct bb_schedule *s, int stage, int chunk);

/* bb_schedule_is_last - returns whether the slot (forward or backward of a chunk) processes the last micro-batch of
 * its chunk in this training step. */
bool bb_schedule_is_last(const struct bb_schedule *s, int stage, const struct bb_slot *slot);

/* bb_schedule_warm_up - returns the number of forwards that the stage runs before its steady state, in which
 * forwards and backwards alternate. */
int bb_schedule_warm_up(const struct bb_schedule *s, int stage);

/*
 * bb_schedule_live - returns the maximum number of (chunk, micro-batch) pairs whose activations a stage stores at the
 * same time. The activations of a pair are in use from its forward to its backward (with a split backward: to the slot
 * W, which computes the gradients of the weights). For stage r of p, with m micro-batches, v chunks per stage, and
 * groups of g micro-batches:
 *   gpipe        m
 *   1f1b         min(m, p - r)
 *   interleaved  min(m v, 2 (p - r - 1) + (v - 1) g + 1); combined: one more
 *   zb-h1        min(m, p)
 *   zb-h2        min(m, 2 p - 1)
 *   dualpipe     p + 1
 */
int bb_schedule_live(const struct bb_schedule *s, int stage);

#endif
