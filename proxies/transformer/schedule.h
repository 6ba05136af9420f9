/*
 * schedule.h - pipeline schedules as tables: in which order one stage works on the micro-batches of a step. Pure: no
 * operations, no times, no communication (pipe.h adds the messages, the builder the layers).
 *
 * Stage r of p holds v chunks of layers; chunk c of stage r is the (c p + r)-th part of the model, so that activations
 * go from stage to stage and, with more chunks than one, from the last stage on to the first. m micro-batches.
 *
 *   gpipe        all forwards, then all backwards (Huang et al. 2019). v = 1
 *   1f1b         p - 1 - r forwards, then one forward and one backward in turn (PipeDream-flush, Megatron-LM). v = 1
 *   interleaved  the same over v chunks, in groups of g micro-batches (Narayanan et al. 2021, Megatron-LM)
 *   zb-h1        1f1b whose backward is two slots: gradients of data, sent on at once, and gradients of weights, which
 *                fill the bubble at the memory of 1f1b (Qi et al. 2023). v = 1
 *   zb-h2        the same with 2 (p - 1 - r) forwards before the first backward and 2 r backwards before the first
 *                gradients of weights: where the three slots take equal time, no stage is idle between its first slot
 *                and its last, at the memory of 2 p - 1 micro-batches (same paper). A step that all stages begin
 *                together is as long as with zb-h1: what is won is that the next one could begin earlier. v = 1
 *   dualpipe     half of the micro-batches enter at each end: stage r holds the parts r and p - 1 - r of p, chunk 0 the
 *                lower one. A forward of one direction and a backward of the other are done side by side, so that one
 *                computes while the other communicates (DeepSeek-V3, 2024; schedule_dualpipe.c). p and m even, m >= 2 p
 */
#ifndef BB_PROXIES_TRANSFORMER_SCHEDULE_H
#define BB_PROXIES_TRANSFORMER_SCHEDULE_H

#include "bootstrap/base/err.h"

#include <stdbool.h>

/* X(kind, its word, its row below). A new schedule is a file with its row, and its name here. */
#define BB_SCHEDULE_LIST(X)                                                                                            \
    X(BB_GPIPE, "gpipe", bb_schedule_gpipe)                                                                            \
    X(BB_1F1B, "1f1b", bb_schedule_1f1b)                                                                               \
    X(BB_INTERLEAVED, "interleaved", bb_schedule_interleaved)                                                          \
    X(BB_ZB_H1, "zb-h1", bb_schedule_zb_h1)                                                                            \
    X(BB_ZB_H2, "zb-h2", bb_schedule_zb_h2)                                                                            \
    X(BB_DUALPIPE, "dualpipe", bb_schedule_dualpipe)

#define BB_SCHEDULE_KIND(kind, word, row) kind,
enum bb_schedule_kind { BB_SCHEDULE_LIST(BB_SCHEDULE_KIND) BB_SCHEDULES };

extern const char *const bb_schedule_names[BB_SCHEDULES + 1]; /* the words, NULL at the end */

struct bb_schedule {
    enum bb_schedule_kind kind;
    int stages, micro_batches, chunks; /* p, m, v >= 1                                                          */
    int group;                         /* g of interleaved, p <= g <= m; else anything                          */
};

/* A slot of a stage. BACKWARD: with the gradients of weights, unless it is split. */
enum bb_slot_kind { BB_SLOT_FORWARD, BB_SLOT_BACKWARD, BB_SLOT_WEIGHTS };

struct bb_slot {
    enum bb_slot_kind kind;
    int micro_batch, chunk;
    bool split;     /* BACKWARD: gradients of data alone, WEIGHTS follows later */
    bool with_next; /* FORWARD: side by side with the next slot, a BACKWARD     */
};

/* What a schedule is. */
struct bb_schedule_row {
    bool chunked; /* takes v >= 2 chunks in groups of micro-batches; else v = 1 */
    /* Stages are not in step with each other: a direction's messages go in rounds of their own (pipe.h). */
    bool overlaps_p2p;
    /* Two chunks, the parts r and p - 1 - r, half of the micro-batches in each direction; makes its slots itself and
     * returns their number. NULL: chunk c is part c p + r. */
    int (*make_bidirectional)(const struct bb_schedule *s, int stage, struct bb_slot *slots);
    bool keeps_head; /* all forwards come before the first backward of the head: its activations pile up */
    int (*warm_up)(const struct bb_schedule *s, int stage); /* bb_schedule_warm_up, where there are so many forwards */
    /* How many backwards come before the one that the first WEIGHTS follows; NULL: BACKWARD is whole. */
    int (*deferred_weights)(const struct bb_schedule *s, int stage);
};
#define BB_SCHEDULE_ROW(kind, word, row) extern const struct bb_schedule_row row;
BB_SCHEDULE_LIST(BB_SCHEDULE_ROW)

const struct bb_schedule_row *bb_schedule_row(const struct bb_schedule *s);
bool bb_schedule_splits_backward(const struct bb_schedule *s); /* has WEIGHTS */
bool bb_schedule_is_bidirectional(const struct bb_schedule *s);     /* stages hold the parts r and p - 1 - r: dualpipe */

/* bb_schedule_validate - 0, or -BB_EUSAGE after a line that begins with `who` and names the nearest valid numbers. */
int bb_schedule_validate(const struct bb_schedule *s, const char *prefix) BB_MUST_CHECK;

/* bb_schedule_max_slots - how many slots a stage has at most: 2 m v, of zb-h1 and zb-h2 3 m, of dualpipe 2 m + p - 1. */
int bb_schedule_max_slots(const struct bb_schedule *s);

/* bb_schedule_make - the slots of one stage, in order; slots[bb_schedule_max_slots(s)]. Returns their number. */
int bb_schedule_make(const struct bb_schedule *s, int stage, struct bb_slot *slots);

/* Which part of the model a chunk of a stage is; in how many parts the model is cut: p v, of dualpipe p. */
int bb_schedule_part(const struct bb_schedule *s, int stage, int chunk);
int bb_schedule_parts(const struct bb_schedule *s);

/* bb_schedule_parts_per_stage - into how many parts the model is cut for each stage: v, of dualpipe 1. */
int bb_schedule_parts_per_stage(const struct bb_schedule *s);

/* The stage behind the one that a chunk's activations come to: 1 or, of dualpipe's second direction, -1. */
int bb_schedule_direction(const struct bb_schedule *s, int stage, int chunk);

/* bb_schedule_is_last - whether that slot's micro-batch is the last one of its chunk. */
bool bb_schedule_is_last(const struct bb_schedule *s, int stage, const struct bb_slot *slot);

/* bb_schedule_warm_up - forwards before the first backward could run, less the one that is paired with it. */
int bb_schedule_warm_up(const struct bb_schedule *s, int stage);

/* bb_schedule_live - the most chunk activations that the stage holds at once (each 1/v of a stage's, of one
 * micro-batch; from its forward to its backward, of gradients of weights apart to these): gpipe m, 1f1b min(m, p - r),
 * interleaved min(m v, 2 (p - r - 1) + (v - 1) g + 1), zb-h1 min(m, p), zb-h2 min(m, 2 p - 1), dualpipe
 * p + 1. */
int bb_schedule_live(const struct bb_schedule *s, int stage);

#endif
