/*
 * verify.h - known data into the last slot, and the look at what arrived there (cuda/data/pattern.h says what).
 */
#ifndef BB_COLLECTIVES_MEASURE_VERIFY_H
#define BB_COLLECTIVES_MEASURE_VERIFY_H

#include "collectives/measure/enqueue.h"

/* bb_verify_prepare - new data for the last slot: canaries everywhere, then this rank's contribution. Asynchronous. */
int bb_verify_prepare(struct bb_bench_context *ctx, const struct bb_case *c) BB_MUST_CHECK;

/* bb_verify - compare the last slot with the expectation on all ranks, adding to f->wrong; f->checked says whether
 * anything was compared. The data are those of the latest bb_verify_prepare. */
int bb_verify(struct bb_bench_context *ctx, const struct bb_case *c, struct bb_figures *f) BB_MUST_CHECK;

#endif
