/*
 * nccl_estimate.h - NCCL's own estimate of how long a collective takes (ncclGroupSimulateEnd, NCCL 2.22), to stand
 * beside what was measured.
 */
#ifndef BB_COLLECTIVES_MEASURE_NCCL_ESTIMATE_H
#define BB_COLLECTIVES_MEASURE_NCCL_ESTIMATE_H

#include "collectives/measure/bench_context.h"

/*
 * bb_nccl_estimate - of one operation of the case, which is not run. All ranks together, since NCCL may connect for
 * it; never while something is timed. *model_us is NaN where NCCL gives none: what is made of sends and receives, one
 * rank, a non-blocking communicator, an older library or header.
 */
int bb_nccl_estimate(struct bb_bench_context *ctx, const struct bb_case *c, double *model_us) BB_MUST_CHECK;

#endif
