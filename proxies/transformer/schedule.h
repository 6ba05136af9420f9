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
 *   zb-h1        1f1b whose backward is two turns: gradients of data, sent on at once, and gradients of weights, which
 *                fill the bubble at the memory of 1f1b (Qi et al. 2023). v = 1
 */
#ifndef BB_PROXIES_TRANSFORMER_SCHEDULE_H
#define BB_PROXIES_TRANSFORMER_SCHEDULE_H

#include "bootstrap/base/err.h"

enum bb_schedule_kind { BB_GPIPE, BB_1F1B, BB_INTERLEAVED, BB_ZB_H1, BB_SCHEDULES };

extern const char *const bb_schedule_names[BB_SCHEDULES + 1]; /* "gpipe", "1f1b", "interleaved", "zb-h1", NULL */

struct bb_schedule {
    enum bb_schedule_kind kind;
    int stages, micro_batches, chunks; /* p, m, v >= 1                                                          */
    int group;                         /* g of interleaved, p <= g <= m; else anything                          */
};

/* A turn of a stage. BACKWARD: with the gradients of weights, unless the schedule has WEIGHTS. */
enum bb_slot_kind { BB_SLOT_FORWARD, BB_SLOT_BACKWARD, BB_SLOT_WEIGHTS };

struct bb_slot {
    enum bb_slot_kind kind;
    int micro_batch, chunk;
};

/* bb_schedule_refuse - 0, or -BB_EUSAGE after a line that begins with `who` and names the nearest valid numbers. */
int bb_schedule_refuse(const struct bb_schedule *s, const char *who) BB_MUST_CHECK;

/* bb_schedule_slots - how many turns each stage has: 2 m v, of zb-h1 3 m. */
int bb_schedule_slots(const struct bb_schedule *s);

/* bb_schedule_make - the turns of one stage, in order; turns[bb_schedule_slots(s)]. */
void bb_schedule_make(const struct bb_schedule *s, int stage, struct bb_slot *turns);

/* bb_schedule_warm_up - forwards before the first backward could run, less the one that is paired with it. */
int bb_schedule_warm_up(const struct bb_schedule *s, int stage);

/* bb_schedule_live - the most chunk activations that the stage holds at once (each 1/v of a stage's, of one
 * micro-batch; from its forward to its backward): gpipe m, 1f1b and zb-h1 min(m, p - r), interleaved
 * min(m v, 2 (p - r - 1) + (v - 1) g + 1). */
int bb_schedule_live(const struct bb_schedule *s, int stage);

/* bb_schedule_bubble - idle part of the ideal time m (f + b + w) of every stage, b and w being backward for data and
 * for weights, when messages take no time and zb-h1's three turns take equal time: (p - 1) / m, interleaved (p - 1) /
 * (m v), zb-h1 a third of (p - 1) / m. */
double bb_schedule_bubble(const struct bb_schedule *s);

#endif
