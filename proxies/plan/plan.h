/*
 * plan.h - offline analysis of a step: traffic, memory, correctness checks, and the prediction for a cluster. Needs
 * neither GPU nor MPI.
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
    const struct bb_forecast *forecast; /* provenance of the prediction; NULL: not printed */
    struct bb_traffic traffic;
    struct bb_checks checks;
};

/*
 * bb_plan_init - count the traffic of a step and check the step.
 *   step     must outlive the plan
 *   Returns  0; -BB_EFAIL after printing an error for a step with unmatched operations or a possible deadlock. The plan
 *            is complete even then and can be printed.
 *   Owner    the caller calls bb_plan_release, which accepts a zeroed plan
 */
int bb_plan_init(struct bb_plan *plan, const struct bb_step *step) BB_MUST_CHECK;
/*
 * bb_plan_count - the same without an error for an unsound step.
 *   split_programs  as for bb_traffic_init
 */
int bb_plan_count(struct bb_plan *plan, const struct bb_step *step, bool split_programs) BB_MUST_CHECK;
void bb_plan_release(struct bb_plan *plan);

/* bb_plan_checks - the object "checks" of busbar.plan/1; NULL without memory. */
json_t *bb_plan_checks(const struct bb_plan *plan);

double bb_plan_flops(const struct bb_plan *plan); /* FLOPs of one step, sum over all ranks */

/* bb_plan_utilisation - model FLOP utilization: FLOPs of the step / (peak of all GPUs x predicted time). NaN for a
 * step without kernel lists. */
double bb_plan_utilisation(const struct bb_plan *plan, const struct bb_prediction *p);

/* bb_plan_memory - bytes of buffers on the rank that needs most. */
size_t bb_plan_memory(const struct bb_plan *plan);

/*
 * bb_plan_body - set proxy, ranks, groups, roles and checks in object.
 *   ops      include each role's program
 *   Returns  0, or -BB_EFAIL without memory
 */
int bb_plan_body(json_t *object, const struct bb_plan *plan, bool ops) BB_MUST_CHECK;

/* bb_plan_print - print the same as text of at most 100 columns. prediction: NULL for none. */
void bb_plan_print(const struct bb_plan *plan, const struct bb_prediction *prediction, bool ops, FILE *out);

/* bb_ranks_text - format ascending ranks as "0-3", "0, 4, 8", "1-2, 5-6, ..., 97-98" in at most size - 1 characters.
 * Returns text. */
const char *bb_ranks_text(const int *ranks, int n, char *text, size_t size);

/* bb_thousands_text - format 1234567 as "1,234,567". Returns text. */
const char *bb_thousands_text(double number, char text[40]);

#endif
