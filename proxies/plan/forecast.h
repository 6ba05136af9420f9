/*
 * forecast.h - the basis of a forecast (a prediction of real training), as reported with it: the compute rates used,
 * the assumptions, the model's error on published steps, and whether training fits in GPU memory.
 */
#ifndef BB_PROXIES_PLAN_FORECAST_H
#define BB_PROXIES_PLAN_FORECAST_H

#include "proxies/plan/plan.h"

/* Source of the compute rates, which convert FLOPs and bytes to time. */
enum bb_rates {
    BB_RATES_MACHINE, /* rates of the cluster profile, which depend on the shape of each GEMM */
    BB_RATES_GIVEN,   /* given on the command line: --tflops, --forward-us or --backward-us */
    BB_RATES_PROXY,   /* durations or a rate defined by the proxy, independent of the cluster */
    BB_RATES          /* number of sources */
};

struct bb_forecast {
    enum bb_rates rates;
    double tflops; /* compute rate in 1e12 FLOP/s, given or from the proxy; 0: durations are given instead, or there
                      is no compute */
    const char *attention; /* "fused" or "unfused"; NULL: no layer has attention */
    bool attention_guessed;
    bool float8;
    const char *host;      /* how the host launches kernels: "eager" (one by one) or "graph" (CUDA graphs); NULL: as the
                         proxy's own run does */
    bool many_experts;     /* eager launches, and either eight or more experts per GPU or experts with biases: published
                          steps of this kind took longer than predicted */
    const char *recompute; /* recomputation that was assumed because training would not fit without it; NULL: nothing
                              was assumed */
    int recompute_layers;  /* with `recompute`: number of recomputed layers in each model chunk; 0: all */
    bool precision_aware;  /* true: an optimizer with less state (--use-precision-aware-optimizer) was assumed because
                             training would not fit without it */
    double without_bytes;  /* training memory in bytes before `recompute` and `precision_aware` are assumed */
    double gpu_bytes;      /* memory of a GPU in bytes; 0: unknown */
};

/*
 * bb_forecast_fits - return whether training fits in GPU memory; for a step without a formula for the training memory,
 * whether the proxy's buffers fit. Returns true when the size of the GPU memory is unknown.
 */
bool bb_forecast_fits(const struct bb_plan *plan, const struct bb_forecast *f);

/*
 * bb_forecast_print - print whether training fits in GPU memory and, with a cluster, the compute rates and the model's
 * error.
 *   cluster  cluster of the prediction; NULL: there is no prediction
 */
void bb_forecast_print(const struct bb_plan *plan, const struct bb_forecast *f, const struct bb_cluster *cluster,
                       FILE *out);

/* Return objects of busbar.plan/1: "memory", "predicted.compute" and "predicted.model_error"; NULL when out of
 * memory. */
json_t *bb_forecast_memory(const struct bb_plan *plan, const struct bb_forecast *f);
json_t *bb_forecast_compute(const struct bb_forecast *f, const struct bb_cluster *cluster);
json_t *bb_forecast_model_error(const struct bb_forecast *f, const struct bb_cluster *cluster);

#endif
