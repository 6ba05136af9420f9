/*
 * forecast.h - provenance of a forecast: the rates used for compute, the assumptions, the model's error on published
 * steps, and whether training fits in GPU memory.
 */
#ifndef BB_PROXIES_PLAN_FORECAST_H
#define BB_PROXIES_PLAN_FORECAST_H

#include "proxies/plan/plan.h"

/* Source of the rates that convert work into time. */
enum bb_rates {
    BB_RATES_MACHINE, /* rates of the cluster profile, which depend on the shape of each GEMM */
    BB_RATES_GIVEN,   /* given on the command line: --tflops, --forward-us */
    BB_RATES_PROXY,   /* times or rate that the proxy defines, independent of the cluster */
    BB_RATES          /* number of sources */
};

struct bb_forecast {
    enum bb_rates rates;
    double tflops; /* 1e12 FLOP/s, given or from the proxy; 0: times of layers are used, or there is no compute */
    const char *attention; /* "fused" or "unfused"; NULL: no layer has attention */
    bool attention_guessed;
    bool float8;
    const char *host;      /* how the host launches kernels: "eager" or "graph"; NULL: like the proxy */
    bool many_experts;     /* many experts per GPU, or experts with biases, launched one by one: published steps of this
                          kind took longer than predicted */
    const char *recompute; /* recomputation added because training does not fit without it; NULL: as requested */
    int recompute_layers;  /* with `recompute`: layers of each chunk that are recomputed; 0: all */
    bool precision_aware;  /* assumed because training does not fit otherwise: an optimizer with less state
                             (--use-precision-aware-optimizer) */
    double without_bytes;  /* memory needed without these assumptions */
    double gpu_bytes;      /* memory of a GPU; 0: unknown */
};

/*
 * bb_forecast_fits - whether training fits in a GPU's memory; for a step without a formula for training memory, whether
 * the proxy's buffers fit. True when the GPU's memory is unknown.
 */
bool bb_forecast_fits(const struct bb_plan *plan, const struct bb_forecast *f);

/*
 * bb_forecast_print - print the memory verdict and, with a cluster, the rates used and the model's error.
 *   cluster  NULL: no prediction was made
 */
void bb_forecast_print(const struct bb_plan *plan, const struct bb_forecast *f, const struct bb_cluster *cluster,
                       FILE *out);

/* Objects of busbar.plan/1: "memory", and "compute" and "model_error" of "predicted". NULL without memory. */
json_t *bb_forecast_memory(const struct bb_plan *plan, const struct bb_forecast *f);
json_t *bb_forecast_compute(const struct bb_forecast *f, const struct bb_cluster *cluster);
json_t *bb_forecast_model_error(const struct bb_forecast *f, const struct bb_cluster *cluster);

#endif
