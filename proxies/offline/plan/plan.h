/*
 * plan.h - offline analysis of a step: traffic, memory, correctness checks, and the prediction for a cluster. The
 * analysis needs neither a GPU nor MPI.
 */
#ifndef BB_PROXIES_OFFLINE_PLAN_PLAN_H
#define BB_PROXIES_OFFLINE_PLAN_PLAN_H

#include "proxies/offline/plan/traffic.h"
#include "proxies/simulation/simulate/predicted_path.h"
#include "proxies/simulation/simulate/step_check.h"

#include <jansson.h>
#include <stdio.h>

struct bb_forecast; /* proxies/offline/plan/forecast.h */

struct bb_plan {
    const struct bb_step *step;
    const struct bb_forecast *forecast; /* source and assumptions of the prediction, printed with the plan; NULL: not
                                           printed */
    struct bb_traffic traffic;
    struct bb_checks checks;
};

/*
 * bb_plan_init - count the traffic of a step, check its correctness, and fail if a check fails.
 *   plan     out: the caller releases it with bb_plan_release, which accepts a zeroed plan
 *   step     must outlive the plan
 *   Returns  0; -BB_EFAIL after printing an error line if operations are unmatched or a deadlock is possible. The plan
 *            is complete and can be printed even then.
 */
int bb_plan_init(struct bb_plan *plan, const struct bb_step *step) BB_MUST_CHECK;
/*
 * bb_plan_count - count the traffic of a step and check its correctness. In contrast to bb_plan_init, returns 0 and
 * prints no error if operations are unmatched or a deadlock is possible; plan->checks contains the result.
 *   split_programs  see bb_traffic_init
 *   Returns         0 or a negative error
 */
int bb_plan_count(struct bb_plan *plan, const struct bb_step *step, bool split_programs) BB_MUST_CHECK;
void bb_plan_release(struct bb_plan *plan);

/* bb_plan_checks - return the object `checks` of the plan's JSON. */
json_t *bb_plan_checks(const struct bb_plan *plan);

static inline double bb_us_of(int64_t ns) /* converts nanoseconds to microseconds */
{
    return (double)ns / 1e3;
}

/* bb_plan_memory - return the bytes of the proxy's buffers on the rank with the largest total. */
size_t bb_plan_memory(const struct bb_plan *plan);

/*
 * bb_plan_body - set the JSON members proxy, ranks, groups, roles and checks of `object`.
 *   ops      true: include the operations of each role (ranks with the same program)
 */
void bb_plan_body(json_t *object, const struct bb_plan *plan, bool ops);

/*
 * bb_ranks_text - format the n ascending ranks in ranks[] as "0-3", "0, 4, 8" or "1-2, 5-6, ..., 97-98". Returns text.
 *   size  size of `text` in bytes, including the terminating null byte; a list that does not fit is abbreviated
 */
const char *bb_ranks_text(const int *ranks, int n, char *text, size_t size);

#endif
