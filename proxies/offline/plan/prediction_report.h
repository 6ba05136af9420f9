/* prediction_report.h - the prediction of a plan: step time, overlap, groups and rates, as text and as JSON. */
#ifndef BB_PROXIES_OFFLINE_PLAN_PREDICTION_REPORT_H
#define BB_PROXIES_OFFLINE_PLAN_PREDICTION_REPORT_H

#include "proxies/offline/plan/plan.h"

/* Rates of the step; NaN: unknown. Utilization: MFU with attention in full, and with causal attention, NaN without causal
 * attention. */
struct bb_plan_rates {
    double step_us, samples_per_s, tokens_per_s, tflops_per_gpu, model_flop_utilisation, model_flop_utilisation_causal;
    const char *flops_note; /* bb_step_flops_note */
};
struct bb_plan_rates bb_plan_rates(const struct bb_plan *plan, const struct bb_prediction *p);

/* bb_prediction_print - print the tables of the prediction: roles, groups, waiting times, bottlenecks.
 * bb_prediction_json - return the object `predicted` of the plan's JSON. */
void bb_prediction_print(const struct bb_plan *plan, const struct bb_prediction *p, FILE *out);
json_t *bb_prediction_json(const struct bb_plan *plan, const struct bb_prediction *p);

#endif
