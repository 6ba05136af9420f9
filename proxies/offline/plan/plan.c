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

    return rc ? rc : bb_checks_report(&plan->checks);
}

void bb_plan_release(struct bb_plan *plan)
{
    bb_traffic_release(&plan->traffic);
    bb_checks_release(&plan->checks);
    bb_wait_table_release(&plan->waiting);
    *plan = (struct bb_plan){0};
}

static double waiting_us(const void *prediction, int rank, int group)
{
    const struct bb_prediction *p = prediction;

    return bb_us_of(p->classes[p->class_of[rank]].groups[group].waiting_ns);
}

int bb_plan_predict_waiting(struct bb_plan *plan, const struct bb_prediction *p)
{
    int rc;

    for (int i = 0; i < plan->traffic.n; i++) {
        const struct bb_traffic_role *role = &plan->traffic.roles[i];

        bb_wait_table_add(
            &plan->waiting,
            &(struct bb_wait_role){&plan->step->layout, role->program, role->name, role->ranks, role->n_ranks},
            waiting_us, p);
    }
    TRY(bb_predict_waited_for(plan->step, p, &plan->waiting));
    if (plan->waiting.late_rank != BB_NONE && !bb_slow_lists(&p->conditions.slow, &p->cluster, plan->waiting.late_rank))
        plan->waiting.late_rank = BB_NONE; /* waited for because of the pipeline and the sizes of its stages */
    plan->waiting.late_node = plan->waiting.late_rank / p->cluster.gpus_per_node;
out:
    return rc;
}

size_t bb_plan_memory(const struct bb_plan *plan)
{
    size_t most = 0;

    for (int i = 0; i < plan->traffic.n; i++)
        most = MAX(most, bb_traffic_memory(&plan->traffic.roles[i]));
    return most;
}
