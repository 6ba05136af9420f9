/*
 * contention.h - the sections of the plan's report (text and JSON) about the time lost to contention for shared links,
 * memory and SMs, about the bottleneck of each training phase (forward, backward, ...), and about the step time with
 * jitter (random variation of kernel times).
 */
#ifndef BB_PROXIES_OFFLINE_PLAN_CONTENTION_H
#define BB_PROXIES_OFFLINE_PLAN_CONTENTION_H

#include "proxies/simulation/simulate/predict.h"

#include <jansson.h>
#include <stdio.h>

/*
 * Contention and bottlenecks on the slowest rank. The caller owns the returned JSON.
 *
 * bb_contention_print - print the additional time of compute and of communication caused by contention, the utilization
 * of the busiest links, and the bottleneck of each training phase. Prints nothing if the cluster profile has no key
 * "sharing".
 * bb_contention_json - return the object `predicted.sharing` of the plan's JSON; JSON null without the key "sharing".
 * bb_phases_json - return the array `predicted.phases` of the plan's JSON: the bottleneck of each training phase.
 */
void bb_contention_print(const struct bb_prediction *p, FILE *out);
json_t *bb_contention_json(const struct bb_prediction *p);
json_t *bb_phases_json(const struct bb_prediction *p);

/* bb_jittered_text - write percentiles of the step times predicted with random variation of kernel times. */
void bb_jittered_text(const struct bb_jittered *j, char *text, size_t size);
json_t *bb_jittered_json(const struct bb_jittered *j); /* returns the object `predicted.jitter` of the plan's JSON */

#endif
