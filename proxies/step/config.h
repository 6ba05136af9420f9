/*
 * config.h - what a step is asked to be: the options of `busbar proxy` and `busbar plan` as values. The rows that fill
 * it stand with the builders that they are for; their offsets are those of the structs here.
 *
 * 0, false and NULL: not given, the proxy's own default. Nothing has a default text, so that what a proxy does not know
 * can be refused. Words are the table's own, as the enums of the builders name them.
 */
#ifndef BB_PROXIES_STEP_CONFIG_H
#define BB_PROXIES_STEP_CONFIG_H

#include "bootstrap/cli/opts.h"

#include <stdbool.h>
#include <stddef.h>

extern const struct bb_opt bb_transformer_options[], bb_sync_options[], bb_tiles_options[], bb_scaling_options[];

/* Of transformer. */
struct bb_transformer_options {
    int tp, pp, dp, cp, ep, etp; /* ranks along each axis                                    */
    const char *order;           /* of the axes, the fastest first: "tp-cp-ep-dp-pp"         */
    int vpp;                     /* chunks of layers on each stage                           */
    int first_layers;            /* layers of the first stage,                               */
    int last_layers;             /* and of the last; the rest divides over the other stages  */
    int group;                   /* micro-batches that interleaved takes in one go           */
    const char *schedule;        /* bb_schedule_names                                        */
    int sequence;                /* tokens of a sample                                       */
    int decoder_sequence;        /* of a model with an encoder: those of its decoder         */
    bool sequence_parallel;
    const char *context;   /* "ring", "all_gather", "a2a"                              */
    const char *dispatch;  /* "alltoall", "all_gather", "dedup"                        */
    const char *recompute; /* "none", "selective", "full"                              */
    int recompute_layers;  /* of full: so many of each chunk, 0: all                   */
    const char *attention; /* "fused", "unfused"                                       */
    bool float8;           /* products with weights in 8 bits                          */
    bool unfused_dropout;  /* no option: attention that drops out is unfused where the word does not say */
    double capacity;       /* factor                                                   */
    double imbalance;      /* exponent                                                 */
    bool float8_dispatch;  /* tokens go to their experts in 8 bits                     */
    int node_limit;        /* of dedup: nodes that a token goes to                     */
    int seed;
    const char *sync; /* of gradients and parameters: bb_dp_sync_names (sync/sync.h)      */
};

/* Of data_parallel, and of transformer. */
struct bb_sync_options {
    const char *sync; /* a kind of sync.h: of data_parallel; the transformer has --dp-sync of its own */
    double bucket_mb, first_bucket_mb;
    const char *bucket_rule; /* ddp, megatron, deepspeed, single */
    bool pad_buckets;
    size_t fusion_threshold; /* bytes */
    double cycle_ms;
    const char *zero_reduce; /* rs, allreduce */
    bool hierarchical;
    const char *grad_dtype, *optimizer;
    bool overlap_param_gather, own_gather_comm, no_overlap, no_sync;
    bool precision_aware; /* the optimizer keeps of 16-bit parameters what they lack of float */
    int shard_size, servers;
};

/* Of spatial and gems. */
struct bb_tiles_options {
    int image_size, filters;
    const char *slice;         /* "vertical", "horizontal", "square"                        */
    const char *spatial_parts; /* "4", or one number for each spatial split: "8,4"          */
    int splits, spatial_splits;
    const char *balance; /* modules of each split: "20,18"                            */
    bool halo_d2;
    int fused_layers;     /* modules that share a halo                                 */
    const char *halo_bwd; /* "none", "dx", "dy"                                        */
    bool halo_overlap;
    int local_dp;
    const char *spatial_gradients; /* "sum", "mean"                                     */
    int replications;
    bool comm_opt, odd_step;
};

/* Which program of a study is built. */
enum bb_scaling_part {
    BB_SCALING_STEP,      /* a full step                                          */
    BB_SCALING_LAST,      /* the short last step of an epoch                      */
    BB_SCALING_BROADCAST, /* once before training: rank 0's state to everybody    */
};

/* Of scaling. */
struct bb_scaling_options {
    const char *mode;     /* weak, strong                                         */
    const char *format;   /* epochs, synthetic                                    */
    int batch;            /* weak: of each rank; strong: of all ranks together    */
    int epochs, images;   /* images of the data set                               */
    int epoch_steps;      /* full steps of an epoch that are run, 0: all          */
    const char *baseline; /* file of a former run                                 */

    enum bb_scaling_part part; /* not an option */
};

/* What every proxy may be told; 0 means "the proxy's own default". Filled from bb_proxy_options. */
struct bb_proxy_config {
    const char *proxy;   /* its name                                                                 */
    const void *variant; /* of the proxy's row: which of its builder's steps it is                   */
    int ranks;
    int layers, stages, micro_batches;
    int scale;            /* micro-batches per stage                                                  */
    bool per_tensor;      /* one all-reduce per tensor instead of per layer                           */
    const char *dtype;    /* "float", "half", "bfloat16"                                              */
    const char *compute;  /* "none", "timed", "gemm"                                                        */
    double scale_counts;  /* every count times this, 0: as they are                                   */
    double forward_us;    /* timed: microseconds per layer and micro-batch, forward; 0: from FLOPs    */
    double backward_us;   /* 0: twice the forward                                                     */
    double tflops;        /* rate that turns FLOPs into microseconds                                  */
    const char *model;    /* a name of profiles/models, or a file                                     */
    int micro_batch_size; /* samples of one micro-batch on one replica                                */
    int global_batch;     /* samples of a step, all replicas together: tells the micro-batches        */
    int gpus_per_node;    /* of consecutive ranks; a run that is not told takes its own               */
    struct bb_transformer_options transformer;
    struct bb_sync_options sync;
    struct bb_tiles_options tiles;
    struct bb_scaling_options scaling;
};

#endif
