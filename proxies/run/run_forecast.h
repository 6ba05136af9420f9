/* run_forecast.h - compares a run with its prediction for a cluster profile (`busbar proxy --cluster`). */
#ifndef BB_PROXIES_RUN_RUN_FORECAST_H
#define BB_PROXIES_RUN_RUN_FORECAST_H

#include "proxies/machine/cluster.h"
#include "proxies/run/step_measure.h"
#include "proxies/timeline/time_shares.h"

#include <jansson.h>
#include <stdio.h>

/* Result of the comparison. All fields zero: no comparison was requested. */
struct bb_run_forecast {
    bool known;
    char cluster[64];
    double step_us;    /* predicted step time of the slowest rank */
    int rank;          /* rank for which measured and predicted time shares are compared: the slowest rank of the traced
                 steps; BB_NONE: no traced steps */
    double rank_us[2]; /* step time of `rank`: [0] measured in the final traced step, [1] predicted */
    struct bb_time_share *measured, *predicted; /* [n] time shares of `rank`; both arrays have the same names in the
                                                   same order */
    int n;
};

/* bb_run_forecast_make - gathers the times of the final traced step and, on rank 0, predicts the same step. All
 * ranks call this together. cluster: read only on rank 0. The caller releases f with bb_run_forecast_release, also
 * after an error. */
int bb_run_forecast_make(struct bb_run_forecast *f, struct bb_runner *r, const struct bb_step *step,
                         const struct bb_measured *m, const struct bb_cluster *cluster) BB_MUST_CHECK;
void bb_run_forecast_release(struct bb_run_forecast *f);

/*
 * Both functions: f is the comparison, step_us the measured step time.
 * bb_run_forecast_print  - prints the comparison as a table.
 * bb_run_forecast_json   - returns the object `forecast` of the results file; null if no comparison was requested.
 */
void bb_run_forecast_print(const struct bb_run_forecast *f, double step_us, FILE *out);
json_t *bb_run_forecast_json(const struct bb_run_forecast *f, double step_us);

#endif
