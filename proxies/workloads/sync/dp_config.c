/*
 * dp_config.c - convert the command-line options of data-parallel synchronization to a struct bb_dp_config (sync.h),
 * and compute the training memory that the synchronization needs.
 */
#include "proxies/workloads/sync/sync.h"

#include "proxies/form/author/args.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

const char *const bb_sync_names[BB_SYNC_KINDS + 1] = {
    "all_reduce", "horovod", "zero1", "zero2", "zero3", "hsdp", "distributed", "ps", "ps_p2p", "ps_sharded", NULL,
};
const char *const bb_dp_sync_names[BB_SYNC_PS + 1] = {
    "all_reduce", "horovod", "zero1", "zero2", "zero3", "hsdp", "distributed", NULL,
};

const char *const bb_bucket_rule_names[] = {"ddp", "megatron", "deepspeed", "single", NULL};

#define MIB (1024.0 * 1024.0)

/* Defaults of the frameworks: bucket size and first bucket size in MiB (PyTorch DDP), reduce_bucket_size in elements
 * (DeepSpeed), HOROVOD_FUSION_THRESHOLD in bytes and HOROVOD_CYCLE_TIME in milliseconds (Horovod). */
static const double default_cap_mib = 25, default_first_mib = 1, deepspeed_elements = 5e8;
static const double default_threshold_bytes = 128 * MIB, default_cycle_ms = 1;
static const size_t pad_elements = 65536;

/* ---- validation of the command-line options ---- */

#define KIND(name) (1u << BB_SYNC_##name)
#define SERVERS    (KIND(PS) | KIND(PS_P2P) | KIND(PS_SHARDED))
#define BUCKETED   (KIND(ALL_REDUCE) | KIND(ZERO1) | KIND(ZERO2) | KIND(DISTRIBUTED) | SERVERS)

/* Write to `text` the names of a set of synchronization kinds (values of --sync), for example "zero2, zero3 or
 * hsdp", for error messages. kinds: bit k is set if enum bb_sync_kind value k is in the set. Returns text. */
static const char *kinds_text(unsigned kinds, char text[160])
{
    size_t n = 0;

    for (int k = 0, left = __builtin_popcount(kinds); k < BB_SYNC_KINDS; k++)
        if (kinds & 1u << k)
            n += (size_t)snprintf(text + n, 160 - n, "%s%s", bb_sync_names[k],
                                  --left > 1  ? ", "
                                  : left == 1 ? " or "
                                              : "");
    return text;
}

/* Bytes per parameter: the float copy of a 16-bit parameter, and all states. adam-bf16: torch.optim.Adam of bfloat16
 * parameters, whose states have their type. adam-8bit: bitsandbytes, two states with one float scale per 256 values. */
static const struct optimizer {
    double copy, states;
} optimizers[] = {{4, 4}, {4, 8}, {0, 4}, {4, 2 * (1 + 4 / 256.0)}};
const char *const bb_optimizer_names[] = {"sgd", "adam", "adam-bf16", "adam-8bit", NULL};
enum { SGD, ADAM, ADAM_BF16, ADAM_8BIT };

static int optimizer_of(const struct bb_sync_options *o, int usual)
{
    return bb_args_index(o->optimizer, bb_optimizer_names, usual);
}

static const struct optimizer *optimizer_of_policy(const struct bb_dp_config *p)
{
    return &optimizers[optimizer_of(&p->options, p->optimizer == BB_MEMORY_KERNEL_SGD ? SGD : ADAM)];
}

static int validate_options(const struct bb_proxy_config *c, enum bb_sync_kind kind, enum bb_dtype_id params)
{
    const struct bb_sync_options *o = &c->sync;
    const struct {
        bool given;
        const char *option;
        unsigned kinds;
    } given_options[] = {
        {o->bucket_rule, "bucket-rule", BUCKETED},
        {o->bucket_mb > 0, "bucket-mb", BUCKETED},
        {o->first_bucket_mb > 0, "first-bucket-mb", BUCKETED},
        {o->pad_buckets, "pad-buckets", BUCKETED},
        {o->fusion_threshold, "fusion-threshold", KIND(HOROVOD)},
        {o->cycle_ms > 0, "cycle-ms", KIND(HOROVOD)},
        {o->zero_reduce, "zero-reduce", KIND(ZERO1) | KIND(ZERO2)},
        {o->hierarchical, "hierarchical", KIND(ALL_REDUCE) | KIND(HOROVOD)},
        {o->shard_size, "shard-size", KIND(HSDP) | KIND(DISTRIBUTED)},
        {o->servers, "servers", KIND(PS_SHARDED)},
        {o->overlap_param_gather, "overlap-param-gather", KIND(DISTRIBUTED)},
        {o->precision_aware, "use-precision-aware-optimizer", KIND(DISTRIBUTED)},
        {o->cpu_offload, "optimizer-cpu-offload", KIND(DISTRIBUTED)},
        {o->float8_gather, "fp8-param-gather", KIND(ZERO3) | KIND(HSDP) | KIND(DISTRIBUTED)},
        {o->own_gather_comm, "own-gather-comm", KIND(ZERO3) | KIND(HSDP)},
        {o->no_overlap, "no-overlap", KIND(ALL_REDUCE) | KIND(HOROVOD) | KIND(ZERO1) | KIND(DISTRIBUTED) | SERVERS},
        {o->no_sync, "no-sync", KIND(ZERO2) | KIND(ZERO3) | KIND(HSDP)},
    };
    const int optimizer = optimizer_of(o, ADAM);
    char text[160];

    for (size_t i = 0; i < sizeof(given_options) / sizeof(given_options[0]); i++)
        if (given_options[i].given && !(given_options[i].kinds & 1u << kind))
            return bb_err(BB_EUSAGE, "%s: --%s does not apply to %s; it requires %s", c->proxy, given_options[i].option,
                          bb_sync_names[kind], kinds_text(given_options[i].kinds, text));
    if (!bb_sync_accepts_optimizer(o, kind))
        return bb_err(BB_EUSAGE, "%s: --optimizer %s does not apply to distributed; %s", c->proxy, o->optimizer,
                      "Megatron-LM saves memory with: --use-precision-aware-optimizer");
    if (optimizer == ADAM_BF16 && params != BB_BFLOAT16)
        return bb_err(BB_EUSAGE, "%s: --optimizer adam-bf16 requires --dtype bfloat16 (it is %s)", c->proxy,
                      bb_dtypes[params].name);
    if (o->precision_aware &&
        optimizer == SGD) /* Transformer Engine implements the precision-aware optimizer only for Adam */
        return bb_err(BB_EUSAGE,
                      "%s: --use-precision-aware-optimizer does not apply to sgd; it requires --optimizer adam",
                      c->proxy);
    if (o->cpu_offload && !o->precision_aware)
        return bb_err(BB_EUSAGE,
                      "%s: --optimizer-cpu-offload requires --use-precision-aware-optimizer, as in Megatron-LM",
                      c->proxy);
    if (o->offload_fraction > 0 && !o->cpu_offload)
        return bb_err(BB_EUSAGE, "%s: --optimizer-offload-fraction requires --optimizer-cpu-offload", c->proxy);
    return 0;
}

/* ---- conversion of the command-line options to struct bb_dp_config ---- */

static int resolve_rule(const struct bb_proxy_config *c, enum bb_sync_kind kind, struct bb_bucket_rule *rule)
{
    const struct bb_sync_options *o = &c->sync;
    double first = o->first_bucket_mb > 0 ? o->first_bucket_mb : o->bucket_mb > 0 ? o->bucket_mb : default_first_mib;
    int default_rule = kind == BB_SYNC_HOROVOD                      ? BB_BUCKETS_FUSION
                       : o->bucket_mb > 0 || o->first_bucket_mb > 0 ? BB_BUCKETS_DDP
                       : kind == BB_SYNC_DISTRIBUTED                ? BB_BUCKETS_MEGATRON
                       : kind == BB_SYNC_ZERO2                      ? BB_BUCKETS_DEEPSPEED
                                                                    : BB_BUCKETS_DDP;
    int which = bb_args_index(o->bucket_rule, bb_bucket_rule_names, default_rule);

    *rule = (struct bb_bucket_rule){
        .kind = (enum bb_bucket_kind)which,
        .first_bytes = first * MIB,
        .cap_bytes = (o->bucket_mb > 0 ? o->bucket_mb : default_cap_mib) * MIB,
        .elements = which == BB_BUCKETS_DEEPSPEED ? deepspeed_elements : 0,
        .threshold_bytes = o->fusion_threshold ? (double)o->fusion_threshold : default_threshold_bytes,
        .cycle_us = (o->cycle_ms > 0 ? o->cycle_ms : default_cycle_ms) * 1000,
        .pad = o->pad_buckets ? pad_elements : 0,
    };
    if (which != BB_BUCKETS_DDP && (o->bucket_mb > 0 || o->first_bucket_mb > 0))
        return bb_err(BB_EUSAGE, "%s: --%s does not apply to --bucket-rule %s; it requires --bucket-rule ddp", c->proxy,
                      o->bucket_mb > 0 ? "bucket-mb" : "first-bucket-mb", o->bucket_rule);
    return 0;
}

int bb_sync_resolve(const struct bb_proxy_config *c, enum bb_sync_kind kind, enum bb_dtype_id params,
                    enum bb_dtype_id grads, struct bb_dp_config *p)
{
    const struct bb_sync_options *o = &c->sync;
    int rc;

    *p = (struct bb_dp_config){
        .kind = kind,
        .params = params,
        .grads = o->grad_dtype ? (enum bb_dtype_id)bb_dtype_find(o->grad_dtype) : grads,
        .optimizer = optimizer_of(o, ADAM) == SGD ? BB_MEMORY_KERNEL_SGD : BB_MEMORY_KERNEL_ADAM,
        .reduce_whole = o->zero_reduce && strcmp(o->zero_reduce, "allreduce") == 0,
        .options = *o,
    };
    TRY(validate_options(c, kind, params));
    TRY(resolve_rule(c, kind, &p->rule));
out:
    return rc;
}

/* ---- properties and training memory of the synchronization ---- */

bool bb_sync_is_sharded(enum bb_sync_kind kind)
{
    return (KIND(ZERO1) | KIND(ZERO2) | KIND(ZERO3) | KIND(HSDP) | KIND(DISTRIBUTED)) & 1u << kind;
}

double bb_sync_offloaded_part(const struct bb_dp_config *p)
{
    const double fraction = p->options.offload_fraction;

    return !p->options.cpu_offload ? 0 : fraction > 0 ? fraction : 1;
}

double bb_sync_host_bytes(const struct bb_dp_config *p)
{
    return (optimizer_of_policy(p)->states + 8) * bb_sync_offloaded_part(p);
}

bool bb_sync_has_servers(enum bb_sync_kind kind)
{
    return SERVERS & 1u << kind;
}

bool bb_sync_reduces_once(enum bb_sync_kind kind)
{
    return kind == BB_SYNC_ALL_REDUCE || kind == BB_SYNC_ZERO1 || kind == BB_SYNC_DISTRIBUTED;
}

bool bb_sync_uses_adam(const struct bb_sync_options *o)
{
    return optimizer_of(o, ADAM) == ADAM;
}

bool bb_sync_accepts_optimizer(const struct bb_sync_options *o, enum bb_sync_kind kind)
{
    return kind != BB_SYNC_DISTRIBUTED || optimizer_of(o, ADAM) <= ADAM;
}

double bb_sync_min_state_bytes(const struct bb_sync_options *o)
{
    const struct optimizer *optimizer = &optimizers[optimizer_of(o, ADAM)];

    return optimizer->states + (bb_sync_uses_adam(o) ? 2 : optimizer->copy);
}

size_t bb_sync_update_count(const struct bb_dp_config *p, size_t parameters)
{
    const struct optimizer *optimizer = optimizer_of_policy(p);
    const struct bb_memory_kernel one = {.kind = p->optimizer, .dtype = p->params, .rows = 1, .cols = 1};
    const double saved = (p->optimizer == BB_MEMORY_KERNEL_SGD ? 4 : 8) - optimizer->states;
    /* without a copy, the update reads the parameter instead of the copy, and writes no copy */
    const double copy = optimizer->copy > 0 ? 0 : 8 - (double)bb_dtypes[p->params].bytes;

    return (size_t)ceil((double)parameters * (1 - (2 * saved + copy) / (double)bb_memory_kernel_bytes(&one)));
}

bool bb_sync_gathers_parameters(enum bb_sync_kind kind)
{
    return (KIND(ZERO3) | KIND(HSDP)) & 1u << kind;
}

bool bb_sync_reduces_every_micro_batch(const struct bb_dp_config *p)
{
    return !p->options.no_sync && (KIND(ZERO2) | KIND(ZERO3) | KIND(HSDP)) & 1u << p->kind;
}

double bb_sync_update_peak_bytes(const struct bb_dp_config *p, const struct bb_sync_comms *comms, double parameters)
{
    bool copies = p->kind == BB_SYNC_DISTRIBUTED && bb_dtypes[p->grads].bytes < 4 && !p->options.precision_aware;

    return copies ? 4 * parameters / comms->n : 0;
}

void bb_sync_add_update_peak(double update_bytes, double bytes[BB_USES])
{
    bytes[BB_USE_OPTIMIZER] += fmax(0, update_bytes - bytes[BB_USE_ACTIVATIONS]);
}

bool bb_sync_has_float_copy(const struct bb_dp_config *p)
{
    return bb_dtypes[p->params].bytes < 4 && !p->options.precision_aware && optimizer_of_policy(p)->copy > 0;
}

void bb_sync_memory(const struct bb_dp_config *p, const struct bb_sync_comms *comms, double parameters,
                    double bytes[BB_USES])
{
    double shard = parameters / comms->n, state = optimizer_of_policy(p)->states;

    /* The optimizer state per parameter is the moments and, for 16-bit parameters, a float copy of the parameter.
     * With the precision-aware optimizer and bfloat16, the copy has only the 16 low bits that bfloat16 lacks. */
    if (bb_dtypes[p->params].bytes < 4)
        state += p->options.precision_aware && p->params == BB_BFLOAT16 ? 2 : optimizer_of_policy(p)->copy;
    bytes[BB_USE_PARAMETERS] += (bb_sync_gathers_parameters(p->kind) ? shard : parameters) * bb_dtypes[p->params].bytes;
    bytes[BB_USE_GRADIENTS] += (bb_sync_reduces_every_micro_batch(p) ? shard : parameters) * bb_dtypes[p->grads].bytes;
    bytes[BB_USE_OPTIMIZER] +=
        (bb_sync_is_sharded(p->kind) ? shard : parameters) * state * (1 - bb_sync_offloaded_part(p));
}
