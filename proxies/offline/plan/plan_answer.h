/* plan_answer.h - the answer of a plan in a few lines: whether training fits, step time, throughput, utilization, memory,
 * exposed communication, bottleneck, and the assumptions of the prediction. */
#ifndef BB_PROXIES_OFFLINE_PLAN_PLAN_ANSWER_H
#define BB_PROXIES_OFFLINE_PLAN_PLAN_ANSWER_H

#include "proxies/offline/plan/plan_export.h"

/* bb_plan_answer_print - print the answer, one labelled line per question, the most important first. All times have the
 * unit of the step time. */
void bb_plan_answer_print(const struct bb_plan_report *report, FILE *out);

#endif
