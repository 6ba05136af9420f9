/* contention.h - of a prediction: what sharing cost and what each phase waits for, steps with jitter. For people and as
 * JSON. */
#ifndef BB_PROXIES_PLAN_CONTENTION_H
#define BB_PROXIES_PLAN_CONTENTION_H

#include "proxies/simulate/predict.h"

#include <jansson.h>
#include <stdio.h>

/* Of the slowest rank; nothing, and null, where the cluster shares nothing. _sharing: "sharing" of "predicted", _phases:
 * its "phases". */
void bb_contention_print(const struct bb_prediction *p, FILE *out);
json_t *bb_contention_json(const struct bb_prediction *p);
json_t *bb_phases_json(const struct bb_prediction *p);

void bb_jittered_print(const struct bb_jittered *j, FILE *out);
json_t *bb_jittered_json(const struct bb_jittered *j); /* "jitter" of "predicted" */

#endif
