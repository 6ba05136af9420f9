/*
 * config.h - the options of `busbar proxy` and `busbar plan` that describe a step, as values.
 *
 * The option tables are in the folders of the builders that use them (for example sync/sync_options.c); each table
 * entry names a field of these structs by its offset. 0, false and NULL mean "not given: use the proxy's default". The
 * option tables contain no default values, so that an option which the proxy does not support can be detected and
 * rejected. Options with a fixed set of values store the value as a string; the builders convert the string to an enum.
 */
#ifndef BB_PROXIES_STEP_CONFIG_H
#define BB_PROXIES_STEP_CONFIG_H

#include "bootstrap/cli/opts.h"

#include <stdbool.h>
#include <stddef.h>

extern const struct bb_opt bb_transformer_options[], bb_sync_options[], bb_tiles_options[], bb_scaling_options[];

/* Options of the proxy transformer. */
struct bb_transformer_options {
    int tp, pp, dp, cp, ep, etp; /* parallel sizes: number of ranks along each axis of the grid; etp: expert tensor
                                    parallel size */
    const char *order;           /* order of the axes, the axis that varies fastest first: "tp-cp-ep-dp-pp" */
    int vpp;                     /* virtual pipeline size: model chunks (runs of layers) per pipeline stage */
    int first_layers;            /* layers in the first pipeline stage */
    int last_layers;             /* layers in the last pipeline stage; the other stages share the rest equally */
    int group; /* only with the interleaved schedule: number of consecutive micro-batches that a stage processes with
                  one model chunk before it continues with the next chunk (--microbatch-group-size) */
    const char *schedule; /* a name of bb_schedule_names */
    int sequence;         /* tokens per sample */
    int decoder_sequence; /* models with an encoder: tokens per sample in the decoder */
    bool sequence_parallel;
    const char *context;   /* context parallelism: "ring", "all_gather", "a2a" */
    const char *dispatch;  /* token dispatcher of expert parallelism: "alltoall", "all_gather", "dedup" */
    const char *recompute; /* activation recomputation: "none", "selective", "full" */
    int recompute_layers;  /* recompute "full": number of recomputed layers in each model chunk; 0: all */
    const char *attention; /* "fused", "unfused" */
    bool float8;           /* true: GEMMs with weights use FP8 */
    bool unfused_dropout;  /* set from the cluster profile, not by an option: true: attention with dropout is unfused,
                             unless the option `attention` is given */
    double capacity;       /* capacity factor of the experts */
    double imbalance;      /* Zipf exponent Z: the k-th most popular expert gets tokens in proportion to 1/k^Z; 0: equal
                         shares */
    bool float8_dispatch;  /* true: tokens are dispatched to their experts in FP8 */
    int node_limit;        /* only with dispatch "dedup": maximum number of nodes to which one token is sent */
    int seed;
    const char *sync; /* synchronization of gradients and parameters over the data-parallel group: a name of
                         bb_dp_sync_names (sync/sync.h) */
};

/* Options of the proxies data_parallel and transformer. */
struct bb_sync_options {
    const char *sync; /* data_parallel: a name of bb_sync_names (sync/sync.h); transformer uses
                         bb_transformer_options.sync instead */
    double bucket_mb, first_bucket_mb;
    const char *bucket_rule; /* how gradients are grouped into buckets: ddp, megatron, deepspeed, single */
    bool pad_buckets;
    size_t fusion_threshold; /* bytes */
    double cycle_ms;
    const char *zero_reduce; /* collective that reduces the gradients with ZeRO-1 and ZeRO-2: "rs" (reduce-scatter)
                                or "allreduce" */
    bool hierarchical;
    const char *grad_dtype, *optimizer;
    bool overlap_param_gather, own_gather_comm, no_overlap, no_sync;
    bool precision_aware; /* Adam with bfloat16 parameters: the optimizer stores only the 16 low bits that bfloat16
                             lacks, instead of a float copy of each parameter */
    int shard_size, servers;
};

/* Options of the proxies spatial and gems. */
struct bb_tiles_options {
    int image_size, filters;
    const char *slice;         /* "vertical", "horizontal", "square" */
    const char *spatial_parts; /* number of image tiles in each spatial split (a pipeline split whose layers work on
                                  tiles): "4" for all, or "8,4" */
    int splits, spatial_splits;
    const char *balance; /* number of network modules in each pipeline split: "20,18" */
    bool halo_d2;
    int fused_layers;     /* number of consecutive network modules that share one halo exchange, with halo_d2 */
    const char *halo_bwd; /* halo exchange in the backward pass: "none", "dx" (gradients of inputs), "dy" (gradients
                             of outputs) */
    bool halo_overlap;
    int local_dp;
    const char *spatial_gradients; /* all-reduce of the weight gradients of the tiles: "sum", "mean" */
    int replications;
    bool comm_opt, odd_step;
};

/* The step programs of a scaling study. */
enum bb_scaling_part {
    BB_SCALING_STEP,      /* a step with the full batch size */
    BB_SCALING_LAST,      /* the last step of an epoch, with the remaining images */
    BB_SCALING_BROADCAST, /* initial broadcast of rank 0's state, once before training */
};

/* Options of the proxy scaling. */
struct bb_scaling_options {
    const char *mode;   /* weak, strong */
    const char *format; /* epochs, synthetic */
    int batch;          /* samples per step; mode weak: on each rank, mode strong: on all ranks together */
    int epochs;
    int images;           /* images in the data set */
    int epoch_steps;      /* number of full steps to run in each epoch; 0: all */
    const char *baseline; /* result file of an earlier run, for the speedup and efficiency */

    enum bb_scaling_part part; /* set by the scaling study, not by an option: the step program to build */
};

/* All options that describe a step. The table bb_proxy_options fills this struct. */
struct bb_proxy_config {
    const char *proxy;   /* name of the proxy, as on the command line */
    const void *variant; /* copy of struct bb_proxy.variant: selects the step when several proxies share one builder */
    int ranks;
    int layers, stages, micro_batches;
    int scale;            /* micro-batches per pipeline stage, an alternative to micro_batches */
    bool per_tensor;      /* true: one all-reduce per tensor instead of per layer */
    const char *dtype;    /* "float", "half", "bfloat16" */
    const char *compute;  /* "none", "timed", "gemm" */
    double scale_counts;  /* factor by which every element count is multiplied; 0: unchanged */
    double forward_us;    /* duration of a timed forward kernel in microseconds, per layer and micro-batch; 0: computed
                          from the FLOPs and tflops */
    double backward_us;   /* duration of a timed backward kernel in microseconds, per layer and micro-batch; 0: twice
                           the duration of the forward kernel */
    double tflops;        /* compute rate in 1e12 FLOP/s that converts FLOPs to the duration of timed kernels */
    const char *model;    /* a name in profiles/models, or a file */
    int micro_batch_size; /* samples per micro-batch on each replica */
    int global_batch;     /* samples per step over all replicas; determines the number of micro-batches */
    int gpus_per_node;    /* number of consecutive ranks that share a node; 0: a run uses the hosts of its processes */
    struct bb_transformer_options transformer;
    struct bb_sync_options sync;
    struct bb_tiles_options tiles;
    struct bb_scaling_options scaling;
};

#endif
