/*
 * forecast.h - the basis of a prediction of real training, as the plan reports it: the source of the compute rates, the
 * assumptions, the error of the cost model on published step times, and whether training fits in GPU memory.
 */
#ifndef BB_PROXIES_OFFLINE_PLAN_FORECAST_H
#define BB_PROXIES_OFFLINE_PLAN_FORECAST_H

#include "proxies/form/step/config.h"
#include "proxies/offline/plan/plan.h"
#include "proxies/simulation/machine/software.h"

/* Source of the compute rates, which convert FLOPs and bytes of memory traffic to time. */
enum bb_rates {
    BB_RATES_MACHINE, /* the cluster profile; the rate of each GEMM depends on its shape */
    BB_RATES_GIVEN,   /* the command line: --tflops, --forward-us or --backward-us */
    BB_RATES_PROXY, /* the proxy, which defines durations or a FLOP rate for its compute, independent of the cluster */
    BB_RATES        /* number of values */
};

/* Experts of a layer. Many: a layer has 32 or more, or a GPU has eight or more, or they have biases (recognized by their
 * memory-bound kernel "clamp"): published steps of such models took longer than predicted. Few: others. */
enum bb_experts { BB_EXPERTS_NONE, BB_EXPERTS_FEW, BB_EXPERTS_MANY };

#define BB_LONG_CONTEXT 32768 /* tokens of a sample from which published steps are of another kind */

#define BB_KEPT_TEXT 300
/* The next number of GPUs on which a layout fits (layouts.h, bb_layouts_fitting_ranks). */
struct bb_fitting {
    int ranks, batch;           /* 0: none; batch: a global batch size with which a layout fits */
    int nodes;                  /* number of nodes if only whole nodes were tried; 0: every number of GPUs was */
    int last;                   /* the largest number of GPUs that was tried; 0: only that of the plan */
    char kept[BB_KEPT_TEXT];    /* the given options that restrict the layouts: " --dp-sync zero3" */
    char without[BB_KEPT_TEXT]; /* if none fits with them, but on `ranks` without: " without --pp"; else empty */
};

/* Part of the step from which a pipeline bubble is named, with advice that plan_step.c checks. */
#define BB_HUGE_BUBBLE 0.2

struct bb_forecast {
    enum bb_rates rates;
    double tflops; /* compute rate in 1e12 FLOP/s from the command line or the proxy; 0: durations are used instead,
                      or the step has no compute */
    const char *attention; /* attention implementation: "fused" or "unfused"; NULL: no layer has attention */
    bool attention_guessed;
    const char *with_compute;         /* bb_proxy.with_compute */
    enum bb_gemm_precision precision; /* of the GEMMs of the layers */
    enum bb_dtype_id dtype;           /* of the step; its peak rate is that of the MFU, and of GEMMs without weights */
    const char *host; /* how the host launches kernels: "eager" (one by one) or "graph" (CUDA graphs); NULL: the
                              prediction contains no host time of a training framework */
    const struct bb_software *software; /* NULL: the prediction is not a forecast of real training */
    const char *default_note;           /* text after the name of the software; NULL: it is the value of --software */
    bool long_context;                  /* a sample has 32,768 or more tokens */
    enum bb_experts experts;
    bool mamba; /* the model has Mamba layers: published steps with them are kinds of their own */
    bool
        is_assumed; /* whether the prediction assumes `recompute` and `precision_aware`; otherwise they are what to try */
    const char *
        recompute; /* activation recomputation (value of --recompute) with which training fits in GPU memory, if it does not fit without; NULL: none */
    const char *recompute_modules; /* value of --recompute-modules; NULL: none */
    int recompute_layers;          /* if `recompute` is set: number of layers per model chunk whose activations are
                              recomputed; 0: all layers */
    int fewest_layers; /* smallest number of recomputed layers per model chunk with which training fits with experts of
                              equal load, if more is assumed because some may get more tokens than the average; 0: none */
    const char *faster_modules;            /* modules for the same, if they are faster; NULL: none */
    char modules_text[2][BB_MODULES_TEXT]; /* of recompute_modules and of faster_modules */
    bool
        precision_aware; /* true: training fits with --use-precision-aware-optimizer, which stores less optimizer state, and not without */
    int64_t fewest_ns;    /* step time with fewest_layers or faster_modules */
    double without_bytes; /* bytes of GPU memory that training needs without the assumed `recompute` and
                              `precision_aware` */
    int64_t without_ns;   /* step time without them; 0: not predicted, because much memory is missing */
    bool saves_nothing;   /* true: --recompute selective recomputes only fused attention */
    bool recomputes_less; /* true: the prediction is without the recomputation that torchtitan has by default */
    bool none_fits;       /* true: training does not fit with any assumed memory saving */
    double full_bytes;    /* the memory that it then needs with recomputation of all layers; 0: not computed */
    double fused_bytes;   /* the same also with --loss fused, with which it fits; 0: it does not */
    double serial_bytes;  /* the same without --overlap-moe-expert-parallel-comm, if it is given; 0: it does not fit */
    bool default_batch;   /* true: the number of samples of a step is the default of busbar */
    const char *stages_option, *batches_option; /* options that set the numbers of stages and of micro-batches: "pp";
                                                   stages_option NULL: with half of the stages, training does not fit */
    int chunks;                                 /* value of --vpp that could be added, and fits; 0: none */
    bool accepts_larger_batch;                  /* --micro-batch-size could be doubled */
    bool lacks_tp_overlap,
        lacks_moe_overlap;                   /* collectives of tensor or expert parallelism could overlap GEMMs, as with
                             --tp-comm-overlap and --overlap-moe-expert-parallel-comm */
    bool accepts_dedup, experts_leave_nodes; /* --moe-dispatch dedup could be added; ep spans several nodes */
    double exposed_experts;                  /* part of the step that exposed traffic of experts takes */
    const char *dispatch_advice;             /* what shortens the step if it is a large part and fits; NULL: nothing */
    int node_limit; /* number of nodes per token in the model's own dispatch to experts, which the step could use and
                             does not; 0: none */
    double head_tflops; /* rate in 1e12 FLOP/s of embedding and head if the durations of layers are given */
    const char
        *savings; /* options with which training fits, if it does not fit otherwise: "--dp-sync zero3"; NULL: none */
    double saving_bytes;       /* the memory that training then needs */
    struct bb_fitting fitting; /* if training does not fit */
    double trained_bytes;      /* minimum bytes of gradient and optimizer in GPU memory per trained parameter */
    double node_bytes;         /* host memory of a node that offload needs; 0: none */
    const char *offloaded;     /* what needs it: "activations need" */
    bool graphs_modules;       /* --cuda-graph-modules is given, which excludes --graph */
    bool is_dropless;          /* only the GPU knows how many tokens each expert gets */
    double gpu_bytes;          /* memory of one GPU in bytes; 0: unknown */
    char
        perturbed[200]; /* the given options and parts of the model that none of these published steps has: " --slow" */
    char excluded[200]; /* the given options that --best-layout excludes: " without --tokens without --ops" */
};

/* bb_forecast_captures - return whether a CUDA graph can hold the whole step. With dropless experts, only Megatron-LM on
 * Blackwell can (cuda_graph_impl full_iteration with moe_paged_stash, which NVIDIA's recipes have for no other GPUs). */
bool bb_forecast_captures(const struct bb_forecast *f, const struct bb_cluster *c);

/* bb_forecast_overlaps_tp - return whether the recipes of the software have --tp-comm-overlap for tensor parallelism on this
 * machine (Megatron-Bridge 26.06, see the line recipes). */
bool bb_forecast_overlaps_tp(const struct bb_forecast *f, const struct bb_cluster *c);

/*
 * bb_forecast_fits - return whether training fits in GPU memory. If the memory that training needs is unknown, the size
 * of the proxy's buffers is used instead. Returns true if the size of the GPU memory is unknown.
 * bb_forecast_is_tight - return whether it needs more than BB_SAFE_MEMORY of the GPU memory, above which training may not
 * fit: CUDA context, NCCL and the fragmentation of the allocator are not in the formulas.
 */
#define BB_SAFE_MEMORY 0.95
bool bb_forecast_fits(const struct bb_plan *plan, const struct bb_forecast *f);
bool bb_forecast_is_tight(const struct bb_plan *plan, const struct bb_forecast *f);
#define BB_MAY_NOT_FIT "may not fit: too little is free for the CUDA context, NCCL and fragmentation"

/* bb_forecast_min_gpus - return the number of GPUs whose memory parameters, gradients and optimizer fill. */
double bb_forecast_min_gpus(const struct bb_step *step, const struct bb_forecast *f);

/* bb_forecast_peak_tflops - return the rate that the MFU is relative to; NaN: it is that of the GEMMs in the line `rates`.
 * type: out: "8-bit peak", "4-bit peak" or "float", unless NaN is returned. */
double bb_forecast_peak_tflops(const struct bb_forecast *f, const struct bb_cluster *c, const char **type);

/*
 * Texts of the report.
 * bb_forecast_memory_text - the memory that training (or the proxy) needs.
 * bb_forecast_guess_text - the assumed memory savings; unchanged if there are none.
 * bb_forecast_misfit_text - why training does not fit in GPU memory, and what to try. predicted: there is a prediction.
 *     Returns whether training does not fit; otherwise text is empty. f: NULL: the size of the GPU memory is unknown
 * bb_forecast_rates_text - the source of the compute rates; unchanged if the proxy defines them.
 * bb_forecast_limit_text - that compute times do not depend on the machine, or that the step has no compute; unchanged
 *     otherwise. machine: name of the cluster or GPU. computes: the step has compute
 * bb_forecast_accuracy_text - the error of predictions of this kind. bb_forecast_error - return it, or what to
 *     assume instead if there are few published steps; 0: unknown.
 * bb_forecast_dispatch_text - the options of the model's own dispatch to experts (f->node_limit), or what reduces a large
 *     exposed traffic of experts (f->dispatch_advice); unchanged if there is neither.
 * bb_forecast_recipes_text - the options of NVIDIA's recipes (Megatron-Bridge) for steps of this kind that shorten them and
 *     were not given; unchanged if there are none.
 */
#define BB_MISFIT_TEXT 800
void bb_forecast_memory_text(const struct bb_plan *plan, const struct bb_forecast *f, char *text, size_t size);
void bb_forecast_guess_text(const struct bb_forecast *f, char *text, size_t size);
bool bb_forecast_misfit_text(const struct bb_plan *plan, const struct bb_forecast *f, bool predicted,
                             char text[BB_MISFIT_TEXT]);
void bb_forecast_rates_text(const struct bb_forecast *f, const struct bb_cluster *cluster, char *text, size_t size);
void bb_forecast_limit_text(const struct bb_forecast *f, const char *machine, bool computes, char *text, size_t size);
void bb_forecast_dispatch_text(const struct bb_forecast *f, char *text, size_t size);
void bb_forecast_recipes_text(const struct bb_forecast *f, const struct bb_cluster *cluster, char *text, size_t size);
double bb_forecast_error(const struct bb_forecast *f, const struct bb_cluster *cluster);
void bb_forecast_accuracy_text(const struct bb_forecast *f, const struct bb_cluster *cluster, char *text, size_t size);

/* Return the objects `memory` (bb_forecast_memory), `predicted.compute` (bb_forecast_compute) and
 * `predicted.model_error` (bb_forecast_model_error) of the plan's JSON. */
json_t *bb_forecast_memory(const struct bb_plan *plan, const struct bb_forecast *f);
json_t *bb_forecast_compute(const struct bb_forecast *f, const struct bb_cluster *cluster);
json_t *bb_forecast_model_error(const struct bb_forecast *f, const struct bb_cluster *cluster);

#endif
