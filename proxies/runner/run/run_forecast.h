/* run_forecast.h - compares a run with its prediction for a cluster profile (`busbar proxy --cluster`). */
#ifndef BB_PROXIES_RUNNER_RUN_RUN_FORECAST_H
#define BB_PROXIES_RUNNER_RUN_RUN_FORECAST_H

#include "proxies/runner/run/step_measure.h"
#include "proxies/simulation/machine/cluster.h"
#include "proxies/simulation/timeline/time_shares.h"

#include <jansson.h>
#include <stdio.h>

/* Comparison of a run with its prediction. A zeroed struct means that no comparison was requested. */
struct bb_run_forecast {
    bool known;
    bool other_nodes; /* the nodes of the job are other than those of the prediction; set before bb_run_forecast_make */
    char cluster[BB_CLUSTER_NAME];
    double step_us;    /* predicted step time of the slowest rank, in us */
    int rank;          /* rank whose measured and predicted times are compared in detail: the slowest rank of the traced
                          steps; BB_NONE: no traced steps */
    double rank_us[2]; /* step time of `rank`: [0] measured in the final traced step, [1] predicted */
    struct bb_time_share *measured, *predicted; /* [n] times of `rank` by category (time_shares.h: exposed, backward,
                                                   ...); both arrays have the same categories in the same order */
    int n;
};

/* bb_run_forecast_make - gathers the times of the final traced step and, on rank 0, predicts the same step. All
 * ranks call this together. cluster: read only on rank 0. slow: injected slow and late ranks. The caller releases f
 * with bb_run_forecast_release, also after an error. */
int bb_run_forecast_make(struct bb_run_forecast *f, struct bb_runner *r, const struct bb_step *step,
                         const struct bb_measured *m, const struct bb_cluster *cluster,
                         const struct bb_slow *slow) BB_MUST_CHECK;
void bb_run_forecast_release(struct bb_run_forecast *f);

/*
 * f: the comparison; step_us: measured step time in us; full: also the phases, groups and kinds of operation.
 * bb_run_forecast_print  - prints the comparison as a table.
 * bb_run_forecast_print_longer - prints that compute, or else communication, takes longer than predicted, if it does by more
 *                          than 20 % and 1 % of the step. judged: no rank is slow or late
 * bb_run_forecast_json   - returns the object `forecast` of the results file; JSON null if no comparison was requested.
 */
void bb_run_forecast_print(const struct bb_run_forecast *f, double step_us, bool full, FILE *out);
void bb_run_forecast_print_longer(const struct bb_run_forecast *f, bool judged, FILE *out);
json_t *bb_run_forecast_json(const struct bb_run_forecast *f, double step_us);

#endif
