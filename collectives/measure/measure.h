/*
 * measure.h - time one case and verify what the timed operations delivered.
 */
#ifndef BB_COLLECTIVES_MEASURE_MEASURE_H
#define BB_COLLECTIVES_MEASURE_MEASURE_H

#include "collectives/measure/bench_context.h"

/* bb_measure - all ranks together; the figures are equal on all ranks. */
int bb_measure(struct bb_bench_context *ctx, const struct bb_case *c, struct bb_figures *f) BB_MUST_CHECK;

/* bb_measure_init - memory for the samples of the modes, and the gate. bb_measure_release: fine when half made. */
int bb_measure_init(struct bb_bench_context *ctx) BB_MUST_CHECK;
void bb_measure_release(struct bb_bench_context *ctx);

/* bb_measure_mode - what bb_measure uses from now on; one of ctx->modes. */
void bb_measure_mode(struct bb_bench_context *ctx, const struct bb_mode *mode);

/* bb_bench_context_mode - what the figures are called: the mode's name, or host. */
const char *bb_bench_context_mode(const struct bb_bench_context *ctx);

/* bb_bench_context_method - how they are measured, as a phrase: "operations back to back on one stream ...". */
const char *bb_bench_context_method(const struct bb_bench_context *ctx);

#endif
