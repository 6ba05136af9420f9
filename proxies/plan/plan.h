/*
 * plan.h - a step on paper: who moves what, how much memory, whether it is sound, and what a cluster would need for it.
 * No GPU, no MPI.
 */
#ifndef BB_PROXIES_PLAN_PLAN_H
#define BB_PROXIES_PLAN_PLAN_H

#include "proxies/plan/traffic.h"
#include "proxies/simulate/predict.h"
#include "proxies/simulate/step_check.h"

#include <jansson.h>
#include <stdio.h>

struct bb_forecast; /* proxies/plan/forecast.h */

struct bb_plan {
    const struct bb_step *step;
    const struct bb_forecast *forecast; /* what its prediction rests on, NULL: nothing is said */
    struct bb_traffic traffic;
    struct bb_checks checks;
};

/*
 * bb_plan_init - counts and checks the step, which must outlive the plan. A step that does not match or can deadlock is
 * refused: said, -BB_EFAIL (the plan is made nonetheless, so it can be printed). Release is fine on a zeroed one.
 */
int bb_plan_init(struct bb_plan *plan, const struct bb_step *step) BB_MUST_CHECK;
/* The same for a plan to look at: refuses nothing; apart: as of bb_traffic_init. */
int bb_plan_count(struct bb_plan *plan, const struct bb_step *step, bool split_programs) BB_MUST_CHECK;
void bb_plan_release(struct bb_plan *plan);

/* bb_plan_checks - the "checks" of busbar.plan/1; NULL without memory. */
json_t *bb_plan_checks(const struct bb_plan *plan);

double bb_plan_flops(const struct bb_plan *plan); /* of one step, all ranks together */

/* bb_plan_utilisation - the part of all GPUs' peak that the FLOPs of real work make of the predicted time; NaN without
 * any. */
double bb_plan_utilisation(const struct bb_plan *plan, const struct bb_prediction *p);

/* bb_plan_memory - bytes of the rank that needs most. */
size_t bb_plan_memory(const struct bb_plan *plan);

/* bb_plan_body - sets proxy, ranks, groups, roles, checks in object. Returns 0 or -BB_EFAIL. */
int bb_plan_body(json_t *object, const struct bb_plan *plan, bool ops) BB_MUST_CHECK;

/* bb_plan_print - the same for people, under 100 columns. prediction may be NULL. */
void bb_plan_print(const struct bb_plan *plan, const struct bb_prediction *prediction, bool ops, FILE *out);

/* bb_ranks_text - "0-3", "0, 4, 8", "1-2, 5-6, ..., 97-98": ascending ranks in at most room - 1 characters. Returns
 * text. */
const char *bb_ranks_text(const int *ranks, int n, char *text, size_t size);

#endif
