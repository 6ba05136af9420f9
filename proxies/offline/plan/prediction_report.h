/* prediction_report.h - the prediction of a plan: step time, overlap, groups and rates, as text and as JSON. */
#ifndef BB_PROXIES_OFFLINE_PLAN_PREDICTION_REPORT_H
#define BB_PROXIES_OFFLINE_PLAN_PREDICTION_REPORT_H

#include "proxies/offline/plan/plan.h"

/* bb_prediction_print - print the prediction. bb_prediction_json - return the object `predicted` of the plan's JSON. */
void bb_prediction_print(const struct bb_plan *plan, const struct bb_prediction *p, FILE *out);
json_t *bb_prediction_json(const struct bb_plan *plan, const struct bb_prediction *p);

#endif
