/*
 * config.h - the options of `busbar proxy` and `busbar plan` that describe a step, as values.
 *
 * The option tables are in the folders of the builders that use them (for example sync/sync_options.c) and address
 * these structs by offset. 0, false and NULL mean "not given: use the proxy's default". No option has a default text,
 * so an option that the proxy does not support can be detected and rejected. Keywords are strings of the option tables;
 * the builders convert them to their enums.
 */
#ifndef BB_PROXIES_STEP_CONFIG_H
#define BB_PROXIES_STEP_CONFIG_H

#include "bootstrap/cli/opts.h"

#include <stdbool.h>
#include <stddef.h>

extern const struct bb_opt bb_transformer_options[], bb_sync_options[], bb_tiles_options[], bb_scaling_options[];

/* Options of the proxy transformer. */
struct bb_transformer_options {
    int tp, pp, dp, cp, ep, etp; /* ranks along each axis of the grid; etp: expert tensor parallel */
    const char *order;           /* order of the axes, fastest first: "tp-cp-ep-dp-pp" */
    int vpp;                     /* virtual pipeline stages per GPU (Megatron's VPP): chunks of layers on each stage */
    int first_layers;            /* layers of the first pipeline stage */
    int last_layers;             /* layers of the last pipeline stage; the other stages share the rest equally */
    int group;                   /* schedule interleaved: micro-batches per round */
    const char *schedule;        /* a name of bb_schedule_names */
    int sequence;                /* tokens per sample */
    int decoder_sequence;        /* models with an encoder: tokens per sample in the decoder */
    bool sequence_parallel;
    const char *context;   /* context parallelism: "ring", "all_gather", "a2a" */
    const char *dispatch;  /* expert parallelism: "alltoall", "all_gather", "dedup" */
    const char *recompute; /* activation recomputation: "none", "selective", "full" */
    int recompute_layers;  /* recompute "full": number of layers of each chunk, 0: all */
    const char *attention; /* "fused", "unfused" */
    bool float8;           /* FP8 GEMMs for weights */
    bool unfused_dropout;  /* not an option: attention with dropout is unfused unless `attention` is given */
    double capacity;       /* expert capacity factor */
    double imbalance;      /* exponent of the load imbalance between experts */
    bool float8_dispatch;  /* tokens are dispatched to their experts in FP8 */
    int node_limit;        /* dispatch "dedup": maximum number of nodes that a token is sent to */
    int seed;
    const char *sync; /* synchronisation of gradients and parameters: a name of bb_dp_sync_names (sync/sync.h) */
};

/* Options of the proxies data_parallel and transformer. */
struct bb_sync_options {
    const char *sync; /* a name of bb_sync_names (sync/sync.h), for data_parallel; transformer uses --dp-sync instead */
    double bucket_mb, first_bucket_mb;
    const char *bucket_rule; /* ddp, megatron, deepspeed, single */
    bool pad_buckets;
    size_t fusion_threshold; /* bytes */
    double cycle_ms;
    const char *zero_reduce; /* rs, allreduce */
    bool hierarchical;
    const char *grad_dtype, *optimizer;
    bool overlap_param_gather, own_gather_comm, no_overlap, no_sync;
    bool precision_aware; /* for 16-bit parameters the optimizer keeps the missing mantissa bits in place of a float
                             copy */
    int shard_size, servers;
};

/* Options of the proxies spatial and gems. */
struct bb_tiles_options {
    int image_size, filters;
    const char *slice;         /* "vertical", "horizontal", "square" */
    const char *spatial_parts; /* "4", or one number per spatial split: "8,4" */
    int splits, spatial_splits;
    const char *balance; /* network modules of each split: "20,18" */
    bool halo_d2;
    int fused_layers;     /* network modules that share one halo exchange */
    const char *halo_bwd; /* "none", "dx", "dy" */
    bool halo_overlap;
    int local_dp;
    const char *spatial_gradients; /* "sum", "mean" */
    int replications;
    bool comm_opt, odd_step;
};

/* The programs of a scaling study. */
enum bb_scaling_part {
    BB_SCALING_STEP,      /* a full step */
    BB_SCALING_LAST,      /* the shorter last step of an epoch */
    BB_SCALING_BROADCAST, /* once before training: rank 0 broadcasts its state */
};

/* Options of the proxy scaling. */
struct bb_scaling_options {
    const char *mode;     /* weak, strong */
    const char *format;   /* epochs, synthetic */
    int batch;            /* samples per step; weak: of each rank, strong: of all ranks together */
    int epochs, images;   /* images in the data set */
    int epoch_steps;      /* full steps of an epoch that are run, 0: all */
    const char *baseline; /* result file of an earlier run */

    enum bb_scaling_part part; /* not an option: the program to build */
};

/* All options that describe a step. 0 means "use the proxy's default". Filled from the table bb_proxy_options. */
struct bb_proxy_config {
    const char *proxy;   /* name of the proxy */
    const void *variant; /* struct bb_proxy.variant: selects the step when several proxies share one builder */
    int ranks;
    int layers, stages, micro_batches;
    int scale;            /* micro-batches per stage */
    bool per_tensor;      /* one all-reduce per tensor instead of one per layer */
    const char *dtype;    /* "float", "half", "bfloat16" */
    const char *compute;  /* "none", "timed", "gemm" */
    double scale_counts;  /* factor on every count; 0: unchanged */
    double forward_us;    /* timed kernels: microseconds per layer and micro-batch; 0: from the FLOPs */
    double backward_us;   /* timed kernels: likewise for backward; 0: twice the forward */
    double tflops;        /* 1e12 FLOP/s, converts FLOPs to microseconds */
    const char *model;    /* a name in profiles/models, or a file */
    int micro_batch_size; /* samples per micro-batch and replica */
    int global_batch;     /* samples per step over all replicas; determines the number of micro-batches */
    int gpus_per_node;    /* consecutive ranks on one node; 0: a run uses its actual nodes */
    struct bb_transformer_options transformer;
    struct bb_sync_options sync;
    struct bb_tiles_options tiles;
    struct bb_scaling_options scaling;
};

#endif
