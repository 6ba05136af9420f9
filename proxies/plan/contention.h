/* contention.h - reports about a prediction, as text and as JSON: the cost of contention, the bottleneck of each
 * phase, and steps with jitter. */
#ifndef BB_PROXIES_PLAN_CONTENTION_H
#define BB_PROXIES_PLAN_CONTENTION_H

#include "proxies/simulate/predict.h"

#include <jansson.h>
#include <stdio.h>

/*
 * bb_contention_print, bb_contention_json, bb_phases_json - contention on the slowest rank: slowdown of compute and
 * communication, utilization of links ("sharing" in "predicted"), and the bottleneck of each phase ("phases").
 *   A cluster profile without sharing prints nothing and yields null for bb_contention_json.
 *   Owner    the caller owns the JSON
 */
void bb_contention_print(const struct bb_prediction *p, FILE *out);
json_t *bb_contention_json(const struct bb_prediction *p);
json_t *bb_phases_json(const struct bb_prediction *p);

/* bb_jittered_print - percentiles of the step time over the simulated steps with jitter. */
void bb_jittered_print(const struct bb_jittered *j, FILE *out);
json_t *bb_jittered_json(const struct bb_jittered *j); /* the object "jitter" in "predicted"; NULL without memory */

#endif
