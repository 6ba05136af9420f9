/* contention.h - parts of the plan's report, as text and as JSON: the cost of contention, the bottleneck of each
 * phase, and the step time with jitter. */
#ifndef BB_PROXIES_PLAN_CONTENTION_H
#define BB_PROXIES_PLAN_CONTENTION_H

#include "proxies/simulate/predict.h"

#include <jansson.h>
#include <stdio.h>

/*
 * Contention on the slowest rank.
 *
 * bb_contention_print - print the slowdown of compute and communication, the utilization of the busiest links, and the
 * bottleneck of each phase. Prints nothing for a cluster profile without the key "sharing".
 * bb_contention_json - return the object "sharing" of "predicted"; JSON null for a profile without the key "sharing".
 * bb_phases_json - return the array "phases" of "predicted": the bottleneck of each phase.
 *   Owner    the caller owns the JSON
 */
void bb_contention_print(const struct bb_prediction *p, FILE *out);
json_t *bb_contention_json(const struct bb_prediction *p);
json_t *bb_phases_json(const struct bb_prediction *p);

/* bb_jittered_print - print percentiles of the step time over the simulated steps with jitter. */
void bb_jittered_print(const struct bb_jittered *j, FILE *out);
json_t *bb_jittered_json(const struct bb_jittered *j); /* returns the object "jitter" of "predicted"; NULL when out
                                                          of memory */

#endif
