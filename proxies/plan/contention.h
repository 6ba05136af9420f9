/*
 * contention.h - the parts of a plan's report, as text and as JSON, about concurrency and variation: the time lost to
 * contention for shared links, memory and SMs, the bottleneck of each phase, and the step time with jitter.
 */
#ifndef BB_PROXIES_PLAN_CONTENTION_H
#define BB_PROXIES_PLAN_CONTENTION_H

#include "proxies/simulate/predict.h"

#include <jansson.h>
#include <stdio.h>

/*
 * Contention and bottlenecks on the slowest rank.
 *
 * bb_contention_print - print the slowdown of compute and communication by contention, the utilization of the busiest
 * links, and the bottleneck of each phase. Prints nothing for a cluster profile without the key "sharing".
 * bb_contention_json - return the JSON object "predicted.sharing"; JSON null for a profile without the key "sharing".
 * bb_phases_json - return the JSON array "predicted.phases": the bottleneck of each phase.
 *   Owner    the caller owns the JSON
 */
void bb_contention_print(const struct bb_prediction *p, FILE *out);
json_t *bb_contention_json(const struct bb_prediction *p);
json_t *bb_phases_json(const struct bb_prediction *p);

/* bb_jittered_print - print percentiles of the step times that were simulated with jitter. */
void bb_jittered_print(const struct bb_jittered *j, FILE *out);
json_t *bb_jittered_json(const struct bb_jittered *j); /* returns the JSON object "predicted.jitter"; NULL when out
                                                          of memory */

#endif
