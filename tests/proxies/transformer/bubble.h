/* bubble.h - how long the stages of a pipeline stand idle, by the formulas of the schedules' authors. */
#ifndef BB_TESTS_BUBBLE_H
#define BB_TESTS_BUBBLE_H

#include "proxies/transformer/schedule.h"

/* The idle part of the ideal time m (f + b + w) of every stage, b and w being backward for data and for weights, when
 * messages take no time and the three slots of zb-h1 and zb-h2 take equal time: (p - 1) / m, interleaved
 * (p - 1) / (m v), zb-h1 a third of (p - 1) / m. Of a step that all stages begin together zb-h2 leaves as much: that the
 * last stage begins p - 1 slots after the first; no stage is idle between its first slot and its last. */
static inline double bubble_of(const struct bb_schedule *s)
{
    return (s->stages - 1.0) / ((double)s->micro_batches * s->chunks) /
           (s->kind == BB_ZB_H1 || s->kind == BB_ZB_H2 ? 3 : 1);
}

#endif
