/* scale_counts.h - a step of the same form with smaller messages, so that it fits where the whole does not. */
#ifndef BB_PROXIES_STEP_SCALE_COUNTS_H
#define BB_PROXIES_STEP_SCALE_COUNTS_H

#include "proxies/step/step.h"

/*
 * bb_step_scale_counts - every count times factor (0 to 1), rounded down, at least 1; buffers and offsets likewise, as
 * large as their operations need. Real work likewise (bb_kernel_list_scale); times of timed compute, parameters and
 * samples stay. The summary says it. Returns 0 or -BB_EFAIL.
 */
int bb_step_scale_counts(struct bb_step *step, double factor) BB_MUST_CHECK;

#endif
