/*
 * config.h - the options of `busbar proxy` and `busbar plan` that describe a training step, as C structs.
 *
 * The option tables are in the folders of the code that uses them (for example sync/sync_options.c); each table
 * entry names a field of these structs by its offset. 0, false and NULL mean "not given: use the proxy's default". The
 * option tables contain no default values, so that an option which the proxy does not support can be detected and
 * rejected. Options with a fixed set of values store the value as a string; the code that builds the step converts the
 * string to an enum.
 */
#ifndef BB_PROXIES_FORM_STEP_CONFIG_H
#define BB_PROXIES_FORM_STEP_CONFIG_H

#include "bootstrap/cli/opts.h"

#include <stdbool.h>
#include <stddef.h>

#define BB_MODULES_TEXT 64 /* bytes of `recompute_modules` with all modules */

extern const struct bb_opt bb_transformer_options[], bb_sync_options[], bb_tiles_options[], bb_scaling_options[];

/* Options of the proxy transformer. */
struct bb_transformer_options {
    int tp, pp, dp, cp, ep, etp; /* number of ranks in one tensor, pipeline, data, context, expert and expert-tensor
                                    parallel group */
    const char *order; /* order of the parallelism axes over the ranks, fastest-varying axis first: "tp-cp-ep-dp-pp" */
    int vpp;           /* number of model chunks (virtual pipeline stages) per pipeline stage */
    int first_layers;  /* number of layers in the first pipeline stage; 0: the same number as the other stages */
    int last_layers;   /* number of layers in the last pipeline stage; 0: the same number as the other stages */
    const char *pipeline_layout; /* the layers of each virtual stage (transformer/grid/pipe_layout.h) */
    int mtp_layers;              /* number of layers of multi-token prediction */
    int lora_rank;               /* rank of LoRA's adapters; 0: all weights are trained */
    const char *lora_targets;    /* weights with adapters: "all", "attention" */
    int group; /* only with the interleaved schedule: number of consecutive micro-batches that a stage processes with
                  one model chunk before it continues with the next chunk (--microbatch-group-size) */
    const char *schedule; /* pipeline schedule, a name in bb_schedule_names (transformer/schedule.h) */
    int sequence;         /* tokens per sample */
    int decoder_sequence; /* only for models with an encoder: tokens per sample in the decoder */
    bool sequence_parallel;
    bool tp_overlap;       /* collectives of tensor parallelism overlap GEMMs chunk by chunk (--tp-comm-overlap) */
    const char *context;   /* context parallelism: "ring", "all_gather", "a2a" */
    const char *dispatch;  /* token dispatch of expert parallelism: "alltoall", "all_gather", "dedup" (one copy of a
                             token per node) */
    const char *recompute; /* activation recomputation: "none", "selective" (attention scores), "full" (whole layers) */
    const char *graph_modules;     /* forecasts: list of names in bb_graph_module_names (layer_kernels.h) */
    const char *recompute_modules; /* recompute "selective": list of names in bb_recompute_module_names (memory.h) */
    int offload_layers;            /* number of layers whose activations are kept in host memory */
    int recompute_layers;          /* recompute "full": number of recomputed layers in each model chunk; 0: all */
    const char *attention;         /* attention kernels: "fused", "unfused" */
    const char *loss;              /* memory of logits: "fused", "unfused"; NULL: as the software */
    bool float8;                   /* --fp8 */
    const char *precision; /* GEMMs with weights: "fp8", "mxfp8", "nvfp4" (bb_gemm_formats); NULL: in the data type */
    bool unfused_dropout;  /* Set from the cluster profile, not by an option. true: attention with dropout is unfused,
                             unless the option `attention` is given. */
    const char *software;  /* only for a plan: value of --software; NULL: not given */
    bool serial[2];        /* Set by a forecast from the software, not by an option. true: collectives of tensor
                              parallelism and transfers of ring attention do not overlap compute. [1]: with sharded
                              parameters */
    double capacity;       /* maximum number of tokens per expert, as a multiple of the number with equal load on all
                        experts; 0: unlimited */
    double imbalance;      /* exponent Z of the Zipf distribution of tokens over experts: the k-th most popular expert
                         gets tokens in proportion to 1/k^Z; 0: equal load on all experts */
    double load;           /* not an option: rows of the experts of each rank relative to equal load; 0: 1 */
    struct bb_expert_shares *shares; /* not an option: fractions of tokens that a plan keeps for all its steps
                                        (transformer/layer/routing.h); NULL: each step computes its own */
    bool float8_dispatch;            /* true: tokens are dispatched to their experts in FP8 */
    bool moe_overlap;                /* forwards run concurrently with backwards (--overlap-moe-expert-parallel-comm) */
    int node_limit; /* only with dispatch "dedup": maximum number of nodes to which one token is sent; 0: no limit */
    int seed;
    const char *sync; /* how gradients and parameters are synchronized over the data-parallel group: a name in
                         bb_dp_sync_names (sync/sync.h) */
};

/* bb_precision_word - returns the precision of GEMMs with weights, by --gemm-precision or --fp8 (Megatron-LM's --fp8-format,
 * which may be given with mxfp8); NULL: in the data type. */
static inline const char *bb_precision_word(const struct bb_transformer_options *o)
{
    return o->precision ? o->precision : o->float8 ? "fp8" : NULL;
}

/* Options of the proxies data_parallel and transformer. */
struct bb_sync_options {
    const char *sync; /* data_parallel: a name in bb_sync_names (sync/sync.h). The proxy transformer ignores this
                         field and uses bb_transformer_options.sync */
    double bucket_mb, first_bucket_mb;
    const char *bucket_rule; /* how gradients are grouped into buckets: "ddp", "megatron", "deepspeed", "single" */
    bool pad_buckets;
    size_t fusion_threshold; /* Horovod: maximum total size of the tensors that are fused into one all-reduce, in
                                bytes */
    double cycle_ms;
    const char *zero_reduce; /* collective that reduces the gradients with ZeRO-1 and ZeRO-2: "rs" (reduce-scatter)
                                or "allreduce" */
    bool hierarchical;       /* all_reduce, horovod: reduce-scatter within the node, all-reduce across nodes, all-gather
                          within the node */
    const char *grad_dtype, *optimizer;
    bool overlap_param_gather; /* distributed: the all-gather of parameters overlaps the forward of the next step */
    bool float8_gather;        /* distributed, zero3, hsdp: parameters are gathered in 8 bits */
    bool own_gather_comm;      /* zero3, hsdp: true: all-gathers of parameters have a communicator of their own; false:
                                  they share the communicator of the gradient reductions */
    bool no_overlap;           /* reductions of gradients start only after the whole backward pass */
    bool sync_bn;              /* convolutional networks: batch norms exchange their statistics over all replicas */
    bool no_sync;              /* zero2, zero3, hsdp: only the last micro-batch reduces gradients */
    bool cpu_offload;          /* the optimizer runs on the host, for this part of the parameters; 0: all */
    double offload_fraction;
    bool precision_aware; /* distributed: the precision-aware FusedAdam of Transformer Engine. With bfloat16 parameters,
                             it stores only the 16 low bits that bfloat16 lacks, instead of a float copy of each
                             parameter and gradient */
    /* shard_size: hsdp, distributed: number of ranks that shard one copy of the gradients and the optimizer state; 0:
     * the ranks on one node (hsdp) or all replicas (distributed). servers: ps_sharded: number of parameter servers; 0:
     * the default number, 2 */
    int shard_size, servers;
};

/* Options of the proxies layer_parallel, spatial and gems. */
struct bb_tiles_options {
    int image_size, filters;
    const char *slice; /* how an image is divided into tiles: "vertical", "horizontal" (strips), "square" (grid) */
    const char *spatial_parts; /* number of image tiles in each spatial split (a pipeline stage whose layers work on
                                  image tiles): "4" for all spatial splits, or "8,4" */
    int splits, spatial_splits;
    const char *balance; /* number of network modules in each split (pipeline stage), comma-separated: "20,18" */
    bool halo_d2;
    int fused_layers;     /* with halo_d2: number of consecutive network modules that share one wide halo exchange */
    const char *halo_bwd; /* halo exchange in the backward pass: "none", "dx" (gradients of inputs), "dy" (gradients
                             of outputs) */
    bool halo_overlap;
    int local_dp;
    const char *spatial_gradients; /* all-reduce of the weight gradients of the tiles: "sum", "mean" */
    int replications;
    bool comm_opt, odd_step;
    bool hybrid; /* gems: two or more data-parallel copies of both replicas (positional argument Hybrid) */
};

/* The step programs that a scaling study (proxy `scaling`) runs. */
enum bb_scaling_part {
    BB_SCALING_STEP,      /* a training step with the full batch */
    BB_SCALING_LAST,      /* the last training step of an epoch, with the remaining images */
    BB_SCALING_BROADCAST, /* initial broadcast of rank 0's state, once before training */
};

/* Options of the proxy scaling. */
struct bb_scaling_options {
    const char *mode;   /* "weak" (fixed batch size per rank), "strong" (fixed batch size over all ranks) */
    const char *format; /* "epochs" (train epochs over a data set), "synthetic" (Horovod's synthetic benchmark) */
    int batch;          /* samples per training step: per rank with mode "weak", over all ranks with mode "strong" */
    int epochs;
    int images;           /* images in the data set */
    int epoch_steps;      /* number of training steps with a full batch to run in each epoch; 0: all */
    const char *baseline; /* path of the result file of an earlier run, relative to which speedup and efficiency are
                             reported; NULL: none */

    enum bb_scaling_part part; /* the step program to build; set by the scaling study, not by an option */
};

/* All options that describe a step. The table bb_proxy_options fills this struct. */
struct bb_proxy_config {
    const char *proxy;   /* name of the proxy, as on the command line */
    const void *variant; /* copy of struct bb_proxy.variant: distinguishes proxies that share one build function */
    int ranks;
    int layers, stages, micro_batches;
    int scale; /* number of micro-batches divided by the number of pipeline stages (--scale); an alternative to the
                  field micro_batches */
    bool per_tensor;     /* true: one all-reduce per tensor instead of per layer */
    const char *dtype;   /* element type: "float", "half", "bfloat16" */
    const char *compute; /* compute of the layers: "none", "timed" (kernels of a given duration), "gemm" (real GEMMs) */
    double scale_counts; /* factor by which every element count of the step is multiplied; 0: unchanged */
    double forward_us;   /* duration of a timed forward kernel in microseconds, per layer and micro-batch; 0: computed
                          from the FLOPs and tflops */
    double backward_us;  /* duration of a timed backward kernel in microseconds, per layer and micro-batch; 0: twice
                           the duration of the forward kernel */
    double tflops;       /* compute rate in 1e12 FLOP/s that converts FLOPs to the duration of timed kernels */
    double memory_gbps;  /* memory bandwidth in 1e9 bytes/s, for the duration of timed memory-bound kernels: that of the
                            cluster profile if the compute rate is given; 0: BB_DEFAULT_MEMORY_GBPS */
    const char *model;   /* name of a model in profiles/models, or path of a model file (JSON) */
    struct {             /* layout of struct bb_opt_ints (cli/opts.h) */
        int micro_batch_size;          /* samples per micro-batch on each replica */
        const char *micro_batch_sizes; /* list of such numbers, "32,16", of which replica r has number r modulo the
                                          length of the list; NULL: all replicas have micro_batch_size */
    };
    int global_batch;  /* samples per training step over all replicas; determines the number of micro-batches */
    int gpus_per_node; /* number of consecutive ranks per node; 0: the actual number of the job */
    struct bb_transformer_options transformer;
    struct bb_sync_options sync;
    struct bb_tiles_options tiles;
    struct bb_scaling_options scaling;
};

#endif
