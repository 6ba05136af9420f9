/* proxy_options.c - the options that shape a step, the same for `busbar proxy` and `busbar plan`. */
#include "proxies/author/args.h"
#include "proxies/models/profile.h"
#include "proxies/registry/registry.h"

static const char *const dtype_words[] = {"float", "half", "bfloat16", NULL};
static const char *const compute_words[] = {"none", "timed", "gemm", NULL};

#define FIELD(name) offsetof(struct bb_proxy_config, name)

const struct bb_opt bb_proxy_options[] = {
    OPT_INT(0, "layers", FIELD(layers), NULL, "L", 1, BB_MAX_LAYERS, "layers of the model (default: the model's)",
            .needs = BB_FEATURE_LAYERS),
    OPT_INT(0, "stages", FIELD(stages), NULL, "S", 1, BB_MAX_LAYERS, "pipeline stages (default: the proxy's)",
            .needs = BB_FEATURE_STAGES),
    OPT_INT(0, "micro-batches", FIELD(micro_batches), NULL, "M", 1, BB_MAX_LAYERS,
            "micro-batches per step and replica (default: the proxy's)", .needs = BB_FEATURE_MICRO_BATCHES),
    OPT_INT(0, "scale", FIELD(scale), NULL, "K", 1, BB_MAX_LAYERS,
            "micro-batches for each stage, instead of --micro-batches (default: the proxy's)",
            .needs = BB_FEATURE_SCALE),
    OPT_FLAG(0, "per-tensor", FIELD(per_tensor), "one message for each tensor instead of each layer or bucket",
             .needs = BB_FEATURE_PER_TENSOR),
    OPT_CHOICE(0, "dtype", FIELD(dtype), NULL, "TYPE", dtype_words,
               "type of the elements (default: float, as the originals; of transformer: bfloat16)"),
    OPT_CHOICE(0, "compute", FIELD(compute), NULL, "HOW", compute_words,
               "what stands for the layers' compute: none, timed kernels, or gemm, the layers' own matrix products and "
               "passes (default: what the original does)"),
    OPT_DOUBLE(0, "forward-us", FIELD(forward_us), NULL, "US", 0.001, 1e9,
               "timed: forward of one layer (of spatial and gems: one split) and micro-batch (default: the proxy's, "
               "or from its FLOPs)",
               .needs = BB_FEATURE_LAYER_US),
    OPT_DOUBLE(0, "backward-us", FIELD(backward_us), NULL, "US", 0.001, 1e9,
               "timed: backward of the same (default: twice the forward)", .needs = BB_FEATURE_LAYER_US),
    OPT_DOUBLE(0, "tflops", FIELD(tflops), NULL, "RATE", 0.001, 1e6,
               "timed: 1e12 FLOP per second that turn FLOPs into time (default: 119.8)", .needs = BB_FEATURE_TFLOPS),
    OPT_STRING(0, "model", FIELD(model), NULL, "NAME|PATH",
               "what is trained: a name of 'busbar list models', a file, its folder", .needs = BB_FEATURE_MODEL,
               .choice_at = bb_model_name_at),
    OPT_INT(0, "micro-batch-size", FIELD(micro_batch_size), NULL, "B", 1, 1e6,
            "samples of one micro-batch (default: the model's, or 1)", .needs = BB_FEATURE_MICRO_BATCH_SIZE),
    OPT_INT(0, "global-batch-size", FIELD(global_batch), NULL, "N", 1, 1e9,
            "samples of a step on all replicas together, in place of --micro-batches, which follow from it",
            .needs = BB_FEATURE_GLOBAL_BATCH),
    OPT_INT(0, "gpus-per-node", FIELD(gpus_per_node), NULL, "N", 1, 1e6,
            "ranks of one node (default: of a run its own, of a plan its cluster's)", .needs = BB_FEATURE_NODES),
    OPT_DOUBLE(0, "scale-counts", FIELD(scale_counts), NULL, "F", 1e-12, 1,
               "every count times F, rounded down, at least 1: a small step of the same form for small machines; "
               "gemm does about F of its FLOPs, timed kernels keep their time"),
    {0},
};
