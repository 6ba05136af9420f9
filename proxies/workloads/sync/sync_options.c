/* sync_options.c - the options of data-parallel synchronization (see step/config.h and sync/sync.h). */
#include "proxies/form/step/config.h"

#include "proxies/workloads/sync/sync.h"

static const char *const reduce_names[] = {"rs", "allreduce", NULL};
static const char *const dtype_names[] = {"float", "half", "bfloat16", NULL};

#define FIELD(name) offsetof(struct bb_sync_options, name)

const struct bb_opt bb_sync_options[] = {
    OPT_CHOICE(
        0, "sync", FIELD(sync), NULL, "HOW", bb_sync_names,
        "synchronization of the replicas' gradients and parameters: DDP, Horovod, ZeRO-1 to ZeRO-3, HSDP, "
        "Megatron's distributed optimizer, parameter servers (default: all_reduce, as PyTorch DDP; scaling: horovod)"),
    OPT_CHOICE(
        0, "bucket-rule", FIELD(bucket_rule), NULL, "RULE", bb_bucket_rule_names,
        "gradient bucketing rule (default: ddp; --sync distributed: megatron; --sync zero2, and of a transformer "
        "zero1 with --software torch: deepspeed)"),
    OPT_DOUBLE(0, "bucket-mb", FIELD(bucket_mb), NULL, "MIB", 1e-6, 1e9, "ddp: bucket size in MiB (default: 25)"),
    OPT_DOUBLE(0, "first-bucket-mb", FIELD(first_bucket_mb), NULL, "MIB", 1e-6, 1e9,
               "ddp: size of the first bucket in MiB (default: 1, or --bucket-mb if given)"),
    OPT_FLAG(0, "pad-buckets", FIELD(pad_buckets), "pad each bucket to a multiple of 65536 elements"),
    OPT_SIZE(0, "fusion-threshold", FIELD(fusion_threshold), NULL, "BYTES", 1, 1ull << 40,
             "horovod: maximum size of fused tensors (HOROVOD_FUSION_THRESHOLD); 1: no fusion (default: 128M)"),
    OPT_DOUBLE(
        0, "cycle-ms", FIELD(cycle_ms), NULL, "MS", 1e-6, 1e9,
        "horovod: cycle length; gradients that become ready in one cycle are fused (HOROVOD_CYCLE_TIME; default: 1)"),
    OPT_CHOICE(0, "zero-reduce", FIELD(zero_reduce), NULL, "HOW", reduce_names,
               "zero1, zero2: rs: reduce-scatter the gradients; allreduce: all-reduce them and use the local shard "
               "(default: rs)"),
    OPT_FLAG(
        0, "hierarchical", FIELD(hierarchical),
        "all_reduce, horovod: reduce-scatter inside the node, all-reduce across nodes, all-gather inside the node"),
    OPT_INT(0, "shard-size", FIELD(shard_size), NULL, "N", 1, 1e6,
            "hsdp, distributed: replicas per shard group (default: hsdp: the replicas on one node; distributed: all)"),
    OPT_INT(0, "servers", FIELD(servers), NULL, "K", 1, 1e6,
            "ps_sharded: number of parameter servers, which are the first K ranks (default: 2)"),
    OPT_CHOICE(0, "grad-dtype", FIELD(grad_dtype), NULL, "TYPE", dtype_names,
               "element type of gradient reductions (default: --dtype; transformer: float)"),
    OPT_CHOICE(0, "optimizer", FIELD(optimizer), NULL, "NAME", bb_optimizer_names,
               "sgd (with momentum), adam, adam-bf16 (states in bfloat16, no float copies of parameters) or adam-8bit "
               "(states of 8 bits, as bitsandbytes) (default: sgd for convolutional networks, else adam)"),
    OPT_FLAG(0, "use-precision-aware-optimizer", FIELD(precision_aware),
             "distributed: count the memory of precision-aware Adam (Transformer Engine's FusedAdam), which stores the "
             "16 bits that a bfloat16 parameter lacks instead of float copies of parameters and gradients"),
    OPT_FLAG(0, "optimizer-cpu-offload", FIELD(cpu_offload),
             "distributed, with plan --cluster: optimizer states are in host memory, and the host updates parameters"),
    OPT_DOUBLE(0, "optimizer-offload-fraction", FIELD(offload_fraction), NULL, "F", 1e-6, 1,
               "with --optimizer-cpu-offload: fraction of the optimizer states in host memory (default: 1)"),
    OPT_FLAG(0, "overlap-param-gather", FIELD(overlap_param_gather),
             "distributed: overlap the all-gather of parameters with the next forward (default: all-gather after the "
             "optimizer)"),
    OPT_FLAG(0, "fp8-param-gather", FIELD(float8_gather),
             "distributed, zero3, hsdp: gather the parameters in 8 bits, but those of embedding and head (torchtitan: "
             "enable_fsdp_float8_all_gather); of MXFP8 and NVFP4 in 16 bits, as Megatron-LM"),
    OPT_FLAG(0, "own-gather-comm", FIELD(own_gather_comm),
             "zero3, hsdp: use a separate communicator for all-gathers, so that they need not wait for reductions"),
    OPT_FLAG(0, "no-overlap", FIELD(no_overlap), "start reducing gradients only after the whole backward"),
    OPT_FLAG(
        0, "no-sync", FIELD(no_sync),
        "zero2, zero3, hsdp: reduce gradients once per step, after the last micro-batch, instead of after each one; "
        "until then, unsharded gradients stay in memory (FSDP no_sync)"),
    {0},
};
