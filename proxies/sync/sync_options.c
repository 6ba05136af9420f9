/* sync_options.c - the rows (see step/config.h). */
#include "proxies/step/config.h"

#include "proxies/sync/sync.h"

static const char *const rule_names[] = {"ddp", "megatron", "deepspeed", "single", NULL};
static const char *const reduce_names[] = {"rs", "allreduce", NULL};
static const char *const dtype_names[] = {"float", "half", "bfloat16", NULL};
static const char *const optimizer_names[] = {"sgd", "adam", NULL};

#define FIELD(name) offsetof(struct bb_sync_options, name)

const struct bb_opt bb_sync_options[] = {
    OPT_CHOICE(0, "sync", FIELD(sync), NULL, "HOW", bb_sync_names,
             "how replicas are kept together (default: all_reduce)"),
    OPT_CHOICE(0, "bucket-rule", FIELD(bucket_rule), NULL, "RULE", rule_names,
             "what closes a bucket of gradients (default: ddp; of distributed: megatron)"),
    OPT_DOUBLE(0, "bucket-mb", FIELD(bucket_mb), NULL, "MIB", 1e-6, 1e9,
               "ddp: a bucket is closed at this size (default: 25)"),
    OPT_DOUBLE(0, "first-bucket-mb", FIELD(first_bucket_mb), NULL, "MIB", 1e-6, 1e9,
               "ddp: the same for the first bucket (default: 1, or --bucket-mb where that is given)"),
    OPT_FLAG(0, "pad-buckets", FIELD(pad_buckets), "the end of each bucket is padded to a multiple of 65536 elements"),
    OPT_SIZE(0, "fusion-threshold", FIELD(fusion_threshold), NULL, "BYTES", 1, 1ull << 40,
             "horovod: tensors are fused up to this size; 1: none are (default: 128M)"),
    OPT_DOUBLE(0, "cycle-ms", FIELD(cycle_ms), NULL, "MS", 1e-6, 1e9,
               "horovod: what becomes ready within a cycle is fused (default: 1)"),
    OPT_CHOICE(0, "zero-reduce", FIELD(zero_reduce), NULL, "HOW", reduce_names,
             "zero1, zero2: rs, a reduce-scatter, or allreduce, of which each rank keeps its slice (default: rs)"),
    OPT_FLAG(0, "hierarchical", FIELD(hierarchical),
             "all_reduce, horovod: reduce inside the node, across nodes, and spread inside the node"),
    OPT_INT(0, "shard-size", FIELD(shard_size), NULL, "N", 1, 1e6,
            "hsdp, distributed: replicas that share one set of shards (default: those of a node, all)"),
    OPT_INT(0, "servers", FIELD(servers), NULL, "K", 1, 1e6,
            "ps_sharded: parameter servers, the first K ranks (default: 2)"),
    OPT_CHOICE(0, "grad-dtype", FIELD(grad_dtype), NULL, "TYPE", dtype_names,
             "type in which gradients are reduced (default: that of --dtype; of transformer: float)"),
    OPT_CHOICE(0, "optimizer", FIELD(optimizer), NULL, "NAME", optimizer_names,
             "sgd, with momentum, or adam (default: sgd for convolutions, else adam)"),
    OPT_FLAG(0, "use-precision-aware-optimizer", FIELD(precision_aware),
             "distributed, of memory: of a bfloat16 parameter Adam keeps the 16 bits that it lacks, no float copy of "
             "it, and "
             "none of its gradient, as Transformer Engine's FusedAdam does"),
    OPT_FLAG(0, "overlap-param-gather", FIELD(overlap_param_gather),
             "distributed: parameters are gathered under the next forward instead of after the optimizer"),
    OPT_FLAG(0, "own-gather-comm", FIELD(own_gather_comm),
             "zero3, hsdp: gathers on a communicator of their own, not behind the reductions"),
    OPT_FLAG(0, "no-overlap", FIELD(no_overlap), "gradients are reduced only after the whole backward"),
    OPT_FLAG(0, "no-sync", FIELD(no_sync),
             "zero2, zero3, hsdp: only the last micro-batch reduces, gradients are kept whole until then"),
    {0},
};
