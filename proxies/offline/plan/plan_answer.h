/* plan_answer.h - the answer of a plan in a few lines: whether training fits, step time, throughput, utilization, memory,
 * exposed communication, bottleneck, and the assumptions of the prediction. */
#ifndef BB_PROXIES_OFFLINE_PLAN_PLAN_ANSWER_H
#define BB_PROXIES_OFFLINE_PLAN_PLAN_ANSWER_H

#include "proxies/offline/plan/plan_export.h"
#include "proxies/simulation/simulate/predict.h"

/* bb_plan_answer_print - print the answer, one labelled line per question, the most important first. All times have the
 * unit of the step time. */
void bb_plan_answer_print(const struct bb_plan_report *report, FILE *out);

/* bb_plan_most_exposed_group - return the index of the group with the longest exposed transfer of the slowest rank;
 * BB_NONE: there is no exposed transfer. */
int bb_plan_most_exposed_group(const struct bb_prediction *p, const struct bb_layout *l);

#define BB_LAUNCH_TEXT 320
/* bb_plan_host_text - write what makes the step noticeably longer than with CUDA graphs, and the step with them.
 *   p        prediction with graph_ns (bb_predict_graph)
 *   f        forecast: whether --graph can be added
 *   larger   a larger batch is possible, too
 *   host     out: launches by the host, for which kernels wait; empty: not noticeable
 *   experts  out: slower kernels of experts; empty: not noticeable */
void bb_plan_host_text(const struct bb_prediction *p, const struct bb_forecast *f, bool larger,
                       char host[BB_LAUNCH_TEXT], char experts[BB_LAUNCH_TEXT]);

#endif
