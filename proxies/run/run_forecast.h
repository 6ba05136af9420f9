/* run_forecast.h - compares a run with the prediction of a cluster profile: `proxy --cluster`. */
#ifndef BB_PROXIES_RUN_RUN_FORECAST_H
#define BB_PROXIES_RUN_RUN_FORECAST_H

#include "proxies/machine/cluster.h"
#include "proxies/run/step_measure.h"
#include "proxies/timeline/time_shares.h"

#include <jansson.h>
#include <stdio.h>

/* All zero: no comparison was requested. */
struct bb_run_forecast {
    bool known;
    char cluster[64];
    double step_us;    /* predicted, slowest rank */
    int rank;          /* rank of the shares: the slowest in traced steps; BB_NONE: no traced steps */
    double rank_us[2]; /* newest traced step of this rank: measured, predicted */
    struct bb_time_share *measured, *predicted; /* [n] the same rows in both */
    int n;
};

/* bb_run_forecast_make - gathers the newest traced step and predicts the same step on rank 0. Collective over the
 * world. cluster: used on rank 0 only. The caller releases f, also after an error. */
int bb_run_forecast_make(struct bb_run_forecast *f, struct bb_runner *r, const struct bb_step *step,
                         const struct bb_measured *m, const struct bb_cluster *cluster) BB_MUST_CHECK;
void bb_run_forecast_release(struct bb_run_forecast *f);

/* Print the table, and return "forecast" of busbar.proxy/1 (null if not requested). step_us: measured. */
void bb_run_forecast_print(const struct bb_run_forecast *f, double step_us, FILE *out);
json_t *bb_run_forecast_json(const struct bb_run_forecast *f, double step_us);

#endif
