/* plan.c - builds a plan and computes its totals; see plan.h. */
#include "proxies/plan/plan.h"

#include <math.h>

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
    *plan = (struct bb_plan){0};
}

size_t bb_plan_memory(const struct bb_plan *plan)
{
    size_t most = 0;

    for (int i = 0; i < plan->traffic.n; i++) {
        size_t bytes = bb_traffic_memory(&plan->traffic.roles[i]);

        most = bytes > most ? bytes : most;
    }
    return most;
}

/*
 * Returns the first operation with a kernel list (GEMMs and memory-bound kernels), whose data type determines the peak
 * rate for the model FLOPs utilization (MFU). Returns NULL if no operation has a kernel list: kernels that only have a
 * duration have no data type, so the MFU is unknown.
 */
static const struct bb_op *first_op_with_kernels(const struct bb_program *p)
{
    for (size_t i = 0; i < p->n_ops; i++)
        if (p->ops[i].work)
            return &p->ops[i];
    return NULL;
}

double bb_plan_utilisation(const struct bb_plan *plan, const struct bb_prediction *p)
{
    double ns = (double)p->classes[p->slowest].all.step_ns;
    const struct bb_op *op = NULL;

    for (int i = 0; i < plan->traffic.n && !op; i++)
        op = first_op_with_kernels(plan->traffic.roles[i].program);
    if (!op || ns <= 0)
        return NAN;
    return bb_step_flops(plan->step) /
           (bb_cluster_tflops(&p->cluster, op->dtype) * 1e3 * ns * plan->step->layout.ranks);
}
