/* plan_trace.c - writes the predicted timeline of a plan as Chrome trace events (see proxies/simulation/timeline). */
#include "proxies/offline/plan/plan_export.h"
#include "proxies/simulation/simulate/predicted_path.h"

int bb_plan_write_trace(const struct bb_plan_report *report, FILE *out)
{
    const struct bb_prediction *p = report->prediction;
    struct bb_critical_path critical = {0};
    struct bb_timeline t;
    char source[BB_CLUSTER_NAME + 32];

    bb_timeline_init(&t, report->plan->step, &p->classes[p->slowest].rank, 1);
    snprintf(source, sizeof(source), "predicted for %s", p->cluster.name);
    t.source = source;
    t.clock = "predicted: all ranks start at 0";
    bb_predicted_timeline(report->plan->step, p, &t);
    bb_predict_critical_path(report->plan->step, p, &critical);
    t.critical = &critical;
    bb_timeline_write(&t, out);
    bb_critical_path_release(&critical);
    bb_timeline_release(&t);
    return 0;
}
