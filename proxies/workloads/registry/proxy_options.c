/* proxy_options.c - the options of `busbar proxy` and `busbar plan` that describe a training step. */
#include "proxies/form/author/args.h"
#include "proxies/form/models/profile.h"
#include "proxies/workloads/registry/registry.h"
#include "proxies/workloads/transformer/schedule.h"

static const char *const dtype_choices[] = {"float", "half", "bfloat16", NULL};
static const char *const compute_choices[] = {"none", "timed", "gemm", NULL};

#define FIELD(name) offsetof(struct bb_proxy_config, name)

const struct bb_opt bb_proxy_options[] = {
    OPT_INT(0, "layers", FIELD(layers), NULL, "L", 1, BB_MAX_LAYERS, "layers of the model (default: the model's)",
            .needs = BB_FEATURE_LAYERS),
    OPT_INT(0, "stages", FIELD(stages), NULL, "S", 1, BB_MAX_LAYERS, "pipeline stages (default: the proxy's)",
            .needs = BB_FEATURE_STAGES),
    OPT_INT(0, "micro-batches", FIELD(micro_batches), NULL, "M", 1, BB_MAX_LAYERS,
            "micro-batches per step and replica (default: the proxy's)", .needs = BB_FEATURE_MICRO_BATCHES),
    OPT_INT(0, "scale", FIELD(scale), NULL, "K", 1, BB_MAX_LAYERS,
            "micro-batches per pipeline stage, instead of --micro-batches (default: the proxy's)",
            .needs = BB_FEATURE_SCALE),
    OPT_CHOICE(0, "schedule", FIELD(transformer.schedule), NULL, "NAME", bb_schedule_names,
               "pipeline schedule: GPipe, 1F1B (PipeDream-Flush), interleaved 1F1B, zero bubble (zb-h1; zb-h2, whose "
               "optimizer waits for the gradient norm, without post-validation) or DualPipe (default: interleaved with "
               "--vpp 2 or more, else 1f1b); layer_parallel, spatial: gpipe or 1f1b (default: gpipe)",
               .needs = BB_FEATURE_SCHEDULE),
    OPT_FLAG(0, "per-tensor", FIELD(per_tensor), "one all-reduce per tensor instead of one per layer or bucket",
             .needs = BB_FEATURE_PER_TENSOR),
    OPT_CHOICE(0, "dtype", FIELD(dtype), NULL, "TYPE", dtype_choices,
               "element type (default: bfloat16 for transformer; float for other proxies, as in the published code)",
               .needs = BB_FEATURE_STEP),
    OPT_CHOICE(0, "compute", FIELD(compute), NULL, "HOW", compute_choices,
               "compute of the layers: none; timed: kernels of a given duration; gemm: the layers' real GEMMs and "
               "memory-bound kernels (default: none for gpt2_large, bert_large, resnet50 and resnet50_ring; timed for "
               "the other proxies); resnet50 and resnet50_ring do not support timed",
               .needs = BB_FEATURE_STEP),
    OPT_DOUBLE(0, "forward-us", FIELD(forward_us), NULL, "US", 0.001, 1e9,
               "timed: duration of the forward pass of one layer per micro-batch; layer_parallel, spatial, gems: of "
               "all layers of a split "
               "(default: computed from the FLOPs and --tflops; gpt3*: as in the published code)",
               .needs = BB_FEATURE_LAYER_US),
    OPT_DOUBLE(
        0, "backward-us", FIELD(backward_us), NULL, "US", 0.001, 1e9,
        "timed: duration of the backward pass of one layer (or split) per micro-batch (default: twice the forward; "
        "gpt3*: as in the published code)",
        .needs = BB_FEATURE_LAYER_US),
    OPT_DOUBLE(0, "tflops", FIELD(tflops), NULL, "RATE", 0.001, 1e6,
               "timed: compute rate in TFLOP/s, which converts FLOPs to time (default: 119.8, of an A100, and 2039 "
               "GB/s for the "
               "optimizer; given with --cluster: the memory bandwidth of the cluster)",
               .needs = BB_FEATURE_TFLOPS),
    OPT_STRING(0, "model", FIELD(model), NULL, "NAME|PATH",
               "the model: a name from 'busbar list models', Hugging Face's config.json or its folder, or a model file",
               .needs = BB_FEATURE_MODEL, .choice_at = bb_model_name_at, .everyday = true),
    OPT_INT(0, "image-size", FIELD(tiles.image_size), NULL, "N", 1, 1e9,
            "resnet110_v2, amoebanet_d, cosmoflow: image side N, a power of two (default: the model's)",
            .needs = BB_FEATURE_IMAGES),
    OPT_INT(0, "filters", FIELD(tiles.filters), NULL, "F", 1, 1e5,
            "amoebanet_d: number of filters (default: the model's); --layers sets the number of cells",
            .needs = BB_FEATURE_IMAGES),
    OPT_FLAG(0, "sync-bn", FIELD(sync.sync_bn),
             "convolutional networks: synchronized batch norm over all replicas and tiles; each norm layer all-gathers "
             "mean, variance and count in forward, and all-reduces two sums per channel in backward",
             .needs = BB_FEATURE_IMAGES),
    OPT_INTS(
        0, "micro-batch-size", FIELD(micro_batch_size), NULL, "B[,B...]", 1, 1e6,
        "samples per micro-batch and replica (default: the model's, or 1); convolutional networks and data_parallel "
        "also accept a list, which is repeated over the replicas: gradients are weighted by samples",
        .needs = BB_FEATURE_MICRO_BATCH_SIZE),
    OPT_INT(
        0, "global-batch-size", FIELD(global_batch), NULL, "SAMPLES", 1, 1e9,
        "samples per step over all replicas; determines the number of micro-batches, so --micro-batches is rejected",
        .needs = BB_FEATURE_GLOBAL_BATCH, .everyday = true),
    OPT_INT(0, "gpus-per-node", FIELD(gpus_per_node), NULL, "N", 1, 1e6,
            "ranks per node (default: for proxy, as the job was started; for plan, as in --cluster)",
            .needs = BB_FEATURE_NODES),
    OPT_DOUBLE(0, "scale-counts", FIELD(scale_counts), NULL, "F", 1e-12, 1,
               "multiply every element count by F (rounded down, at least 1), to run the step with less data on small "
               "machines; the FLOPs of gemm shrink by about F, timed kernels keep their duration",
               .needs = BB_FEATURE_STEP),
    {0},
};
