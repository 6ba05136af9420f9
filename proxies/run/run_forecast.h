/* run_forecast.h - a run beside what a cluster profile predicts of it: `proxy --cluster`. */
#ifndef BB_PROXIES_RUN_RUN_FORECAST_H
#define BB_PROXIES_RUN_RUN_FORECAST_H

#include "proxies/machine/cluster.h"
#include "proxies/run/step_measure.h"
#include "proxies/timeline/time_shares.h"

#include <jansson.h>
#include <stdio.h>

/* Zeroed: nothing was asked for. */
struct bb_run_forecast {
    bool known;
    char cluster[64];
    double step_us;    /* predicted, of the slowest rank */
    int rank;          /* of the shares: the slowest traced one; BB_NONE: no step was traced */
    double rank_us[2]; /* its newest traced step: measured, predicted                          */
    struct bb_time_share *measured, *predicted; /* [n] the same rows */
    int n;
};

/* bb_run_forecast_make - gathers the newest traced step, and on rank 0 predicts the same step. Collective over the
 * world. cluster: rank 0's. f is to be released, also after an error. */
int bb_run_forecast_make(struct bb_run_forecast *f, struct bb_runner *r, const struct bb_step *step,
                         const struct bb_measured *m, const struct bb_cluster *cluster) BB_MUST_CHECK;
void bb_run_forecast_release(struct bb_run_forecast *f);

/* The table, and "forecast" of busbar.proxy/1 (null where nothing was asked for). step_us: measured. */
void bb_run_forecast_print(const struct bb_run_forecast *f, double step_us, FILE *out);
json_t *bb_run_forecast_json(const struct bb_run_forecast *f, double step_us);

#endif
