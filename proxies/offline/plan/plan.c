/* plan.c - builds a plan and computes its totals; see plan.h. */
#include "proxies/offline/plan/plan.h"

#include <sys/param.h>

int bb_plan_count(struct bb_plan *plan, const struct bb_step *step, bool split_programs)
{
    int rc;

    *plan = (struct bb_plan){.step = step};
    bb_traffic_init(&plan->traffic, step, split_programs);
    rc = bb_step_check(step, &plan->checks);
    if (rc)
        bb_plan_release(plan);
    return rc;
}

int bb_plan_init(struct bb_plan *plan, const struct bb_step *step)
{
    int rc = bb_plan_count(plan, step, false);

    return rc ? rc : bb_checks_report(step->proxy, &plan->checks);
}

void bb_plan_release(struct bb_plan *plan)
{
    bb_traffic_release(&plan->traffic);
    bb_checks_release(&plan->checks);
    *plan = (struct bb_plan){0};
}

size_t bb_plan_memory(const struct bb_plan *plan)
{
    size_t most = 0;

    for (int i = 0; i < plan->traffic.n; i++)
        most = MAX(most, bb_traffic_memory(&plan->traffic.roles[i]));
    return most;
}
