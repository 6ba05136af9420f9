/*
 * forecast.h - what a prediction rests on: whose rates its compute has, what was guessed, how near such predictions
 * have come to published steps, and whether training would hold in the memory of a GPU.
 */
#ifndef BB_PROXIES_PLAN_FORECAST_H
#define BB_PROXIES_PLAN_FORECAST_H

#include "proxies/plan/plan.h"

/* Whose rates turn work into time. */
enum bb_rates {
    BB_RATES_MACHINE, /* the cluster's, by the shape of each product  */
    BB_RATES_GIVEN,   /* --tflops, --forward-us                       */
    BB_RATES_PROXY,   /* the proxy's own, whatever the cluster        */
    BB_RATES          /* their number                                 */
};

struct bb_forecast {
    enum bb_rates rates;
    double tflops;         /* given or the proxy's; 0: times of layers, or no compute at all */
    const char *attention; /* "fused", "unfused"; NULL: no layer has attention               */
    bool attention_guessed;
    bool float8;
    const char *host;      /* how it issues: "eager", "graph"; NULL: as a proxy's does */
    bool many_experts;     /* on a GPU, or with biases, issued one by one: such steps took longer   */
    const char *recompute; /* guessed, since training would not hold without; NULL: as asked */
    int recompute_layers;  /* with it: so many of each chunk, 0: all                         */
    bool precision_aware;  /* guessed likewise: an optimizer that keeps less                 */
    double without_bytes;  /* what it would hold without that                                */
    double gpu_bytes;      /* memory of a GPU, 0: not known                                  */
};

/* bb_forecast_fits - whether training (without a formula: the proxy's own buffers) holds in a GPU's memory; true where
 * that is not known. */
bool bb_forecast_fits(const struct bb_plan *plan, const struct bb_forecast *f);

/* bb_forecast_print - the verdict on memory and, with a cluster, whose rates were taken and how true that is. */
void bb_forecast_print(const struct bb_plan *plan, const struct bb_forecast *f, const struct bb_cluster *cluster,
                       FILE *out);

/* For busbar.plan/1; NULL without memory. _compute: "compute" of "predicted", _band: its "band". */
json_t *bb_forecast_memory(const struct bb_plan *plan, const struct bb_forecast *f);
json_t *bb_forecast_compute(const struct bb_forecast *f, const struct bb_cluster *cluster);
json_t *bb_forecast_model_error(const struct bb_forecast *f, const struct bb_cluster *cluster);

#endif
