/* bubble.h - pipeline bubbles by the formulas of the schedules' authors. */
#ifndef BB_TESTS_BUBBLE_H
#define BB_TESTS_BUBBLE_H

#include "proxies/workloads/transformer/schedule.h"

/* Bubble as a fraction of the ideal time m (f + b + w) of a stage, where b is backward for data and w for weights.
 * Messages take no time; the three slots of zb-h1 and zb-h2 take equal time. The fraction is (p - 1) / m;
 * interleaved (p - 1) / (m v); zb-h1 a third of (p - 1) / m. zb-h2 has no bubble between the first and the last slot
 * of a stage; in a step that all stages begin together, a third of (p - 1) / m remains because the last stage begins
 * p - 1 slots after the first. */
static inline double bubble_of(const struct bb_schedule *s)
{
    return (s->stages - 1.0) / ((double)s->micro_batches * s->chunks) /
           (s->kind == BB_ZB_H1 || s->kind == BB_ZB_H2 ? 3 : 1);
}

#endif
