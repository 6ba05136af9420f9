/*
 * transformer.c - the proxy `transformer`: one training step of any transformer model in any parallel layout. This file
 * resolves and validates the options and builds the layout (the process groups); stage.c generates the program of each
 * pipeline stage.
 *
 * All ranks of a stage share one program, which addresses peers relative to the own rank. A stage needs several
 * programs only in two cases: dropless experts receive different numbers of tokens on different ranks, or a
 * hierarchical reduction has a remainder that only one rank per node reduces.
 */
#include "bootstrap/base/alloc.h"
#include "bootstrap/base/units.h"
#include "bootstrap/cli/size_list.h"
#include "proxies/form/author/args.h"
#include "proxies/form/author/proxy.h"
#include "proxies/workloads/transformer/grid/pipe_layout.h"
#include "proxies/workloads/transformer/layer/layer_kernels.h"
#include "proxies/workloads/transformer/memory.h"
#include "proxies/workloads/transformer/training.h"
#include "proxies/workloads/transformer/training_bytes.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/param.h>

/* ---- options ---- */

static const char *const contexts[] = {
    [BB_CONTEXT_RING] = "ring", [BB_CONTEXT_ALL_GATHER] = "all_gather", [BB_CONTEXT_ALL_TO_ALL] = "a2a"};
static const char *const dispatches[] = {
    [BB_DISPATCH_ALL_TO_ALL] = "alltoall", [BB_DISPATCH_ALL_GATHER] = "all_gather", [BB_DISPATCH_DEDUP] = "dedup"};

/* Resets options that have no effect with the given size 1 of an axis, so that loops over sizes may begin with 1. */
static void ignore_ones(struct bb_transformer_options *o)
{
    if (o->tp == 1)
        o->sequence_parallel = o->tp_overlap = false;
    if (o->cp == 1)
        o->context = NULL;
    if (o->ep == 1) {
        o->dispatch = NULL;
        o->node_limit = 0;
        o->float8_dispatch = o->moe_overlap = false;
    }
    if (o->pp == 1)
        o->first_layers = o->last_layers = 0;
    if (o->pp == 1 || o->vpp == 1) {
        const bool interleaved = !o->schedule || strcmp(o->schedule, bb_schedule_names[BB_INTERLEAVED]) == 0;

        o->schedule = interleaved ? NULL : o->schedule; /* with one stage or one chunk, this is 1f1b */
        o->vpp = interleaved ? 1 : o->vpp;
        o->group = interleaved ? 0 : o->group;
    }
}

/* Rejects a pipeline layout without --pp. Suggests the most stages that divide its virtual stages and the ranks. */
static int reject_missing_stages(const struct bb_proxy_config *c)
{
    const int parts = bb_pipe_layout_part(c->transformer.pipeline_layout, 0, NULL);
    int stages = MAX(parts, 1);

    while (stages > 1 && (parts % stages || c->ranks % stages))
        stages--;
    return bb_err(BB_EUSAGE, "%s: --pipeline-layout requires --pp; try: --pp %d", c->proxy,
                  stages > 1 ? stages : MAX(parts, 1));
}

static int fill_defaults(struct bb_proxy_config *c)
{
    struct bb_transformer_options *o = &c->transformer;

    ignore_ones(o);
    if (!c->model)
        return bb_err(BB_EUSAGE,
                      "%s: --model is missing, expected a name of 'busbar list models' or a config.json file; try: "
                      "--model gpt2_small",
                      c->proxy);
    if (o->pipeline_layout && !o->pp)
        return reject_missing_stages(c);
    if (o->pipeline_layout && o->vpp == 0)
        o->vpp = bb_pipe_layout_part(o->pipeline_layout, 0, NULL) / o->pp;
    if (o->schedule && strcmp(o->schedule, bb_schedule_names[BB_INTERLEAVED]) == 0 && o->vpp == 0)
        o->vpp = 2;
    if (!o->schedule)
        o->schedule = bb_schedule_names[o->vpp > 1 ? BB_INTERLEAVED : BB_1F1B];
    if (o->recompute_modules && !o->recompute)
        o->recompute = bb_recompute_names[BB_RECOMPUTE_SELECTIVE];
    if (o->float8 && o->precision && strcmp(o->precision, "nvfp4") == 0)
        return bb_err(BB_EUSAGE, "%s: --fp8 and --gemm-precision nvfp4 exclude each other; leave one out", c->proxy);
    o->vpp += o->vpp == 0;
    c->micro_batch_size += c->micro_batch_size == 0;
    c->tflops = c->tflops > 0 ? c->tflops : BB_DEFAULT_TFLOPS;
    return 0;
}

/* Returns ", or --tp N" with which there are so few replicas that the global batch size is a multiple of their samples; empty:
 * none. samples: of a micro-batch of all replicas */
static const char *instead_of_batch(const struct bb_training *t, long long samples)
{
    const struct bb_proxy_config *c = t->config;
    const int node = c->gpus_per_node > 0 ? c->gpus_per_node : t->grid.ranks;

    if (c->transformer.dp || t->arch.experts || c->global_batch % samples == 0)
        return "";
    for (int times = 2; t->grid.dp % times == 0 && t->grid.tp * times <= node; times *= 2) {
        const int tp = t->grid.tp * times;

        if (c->global_batch % (samples / times) == 0 && t->arch.heads % tp == 0 && t->arch.kv_heads % tp == 0)
            return bb_step_text(t->step, ", or --tp %d (%d replica%s)", tp, t->grid.dp / times,
                                t->grid.dp == times ? "" : "s");
    }
    return "";
}

static int resolve_schedule(struct bb_training *t)
{
    const struct bb_transformer_options *o = &t->config->transformer;
    int p = t->grid.pp, b = t->layers_config.micro_batch_size, m, rc;
    char batch_unit[64];

    snprintf(batch_unit, sizeof(batch_unit), "%d replica%s x %d of a micro-batch", t->grid.dp, bb_plural(t->grid.dp),
             b);
    rc = bb_args_micro_batches(t->config, p, (long long)t->grid.dp * b, batch_unit,
                               instead_of_batch(t, (long long)t->grid.dp * b), &m);
    if (rc)
        return rc;
    t->schedule = (struct bb_schedule){
        .kind = (enum bb_schedule_kind)bb_args_index(o->schedule, bb_schedule_names, BB_1F1B),
        .stages = p,
        .micro_batches = m,
        .chunks = o->vpp,
        .group = o->group ? o->group : p,
        .combined = o->moe_overlap,
    };
    if (bb_schedule_is_bidirectional(&t->schedule) && o->vpp > 1)
        return bb_err(BB_EUSAGE,
                      "%s: schedule %s always has two model parts per stage, --vpp %d is not supported; leave it out",
                      t->config->proxy, o->schedule, o->vpp);
    if (bb_schedule_is_bidirectional(&t->schedule))
        t->schedule.chunks = 2;
    if (o->group && !bb_schedule_row(&t->schedule)->chunked)
        return bb_err(BB_EUSAGE,
                      "%s: --microbatch-group-size does not apply to schedule %s; leave it out, or try: --schedule "
                      "interleaved",
                      t->config->proxy, o->schedule);
    return bb_schedule_validate(&t->schedule, p * (o->dp ? 1 : t->grid.dp), t->config->proxy);
}

/* The overlap of two micro-batches requires several chunks per stage. Reports what divides the layers among them: two
 * chunks, or a pipeline layout. Returns 0 if the layers are divided, or another schedule was requested. */
static int reject_chunks_of_overlap(const struct bb_training *t)
{
    const struct bb_transformer_options *o = &t->config->transformer;
    struct bb_pipe_split split = t->split;
    const bool has_ends = split.first || split.last;
    char text[BB_PIPE_LAYOUT_TEXT], layout[BB_PIPE_LAYOUT_TEXT + 32] = "";

    if (!o->moe_overlap || t->grid.ep <= 1 || split.stages == 1 || o->pipeline_layout ||
        (t->schedule.kind != BB_INTERLEAVED && t->schedule.kind != BB_1F1B) ||
        (t->schedule.kind == BB_INTERLEAVED && bb_pipe_split_is_valid(&split)))
        return 0;
    split.chunks = split.chunks > 1 ? split.chunks : 2;
    if (!bb_pipe_split_is_valid(&split)) {
        if (!bb_pipe_layout_suggest(&split, t->arch.mtp, text)) {
            split.chunks = 2;
            if (!bb_pipe_layout_suggest(&split, t->arch.mtp, text))
                return 0;
        }
        snprintf(layout, sizeof(layout), " --pipeline-layout '%s'", text);
    }
    return bb_err(
        BB_EUSAGE,
        "%s: --overlap-moe-expert-parallel-comm with pp %d requires --schedule interleaved, and --vpp 2 or more "
        "that divides the %d layers; try:%s --vpp %d%s%s",
        t->config->proxy, split.stages, split.layers,
        t->schedule.kind == BB_INTERLEAVED ? "" : " --schedule interleaved", split.chunks, layout,
        layout[0] && has_ends ? " without --decoder-first-pipeline-num-layers and --decoder-last-pipeline-num-layers"
                              : "");
}

static int resolve_grid(struct bb_training *t)
{
    const struct bb_transformer_options *o = &t->config->transformer;
    const struct bb_grid_model model = {.arch = &t->arch,
                                        .sequence = t->layers_config.sequence,
                                        .decoder_sequence = t->layers_config.decoder_sequence,
                                        .chunks = o->vpp,
                                        .sequence_parallel = o->sequence_parallel,
                                        .cp_all_to_all = t->layers_config.context == BB_CONTEXT_ALL_TO_ALL};
    char near[BB_GRID_SUGGESTION];
    int rc;

    t->grid = (struct bb_grid){.tp = o->tp, .cp = o->cp, .dp = o->dp, .pp = o->pp, .ep = o->ep, .etp = o->etp};
    t->grid.first_layers = o->first_layers;
    t->grid.last_layers = o->last_layers;
    t->grid.layout = o->pipeline_layout;
    t->grid.experts = t->arch.experts > 0;
    TRY(bb_grid_resolve(&t->grid, t->config->ranks, o->order, &model, t->config->proxy));
    TRY(bb_grid_validate_model(&t->grid, &model, t->config->proxy));
    TRY(resolve_schedule(t));
    t->split = bb_grid_pipe_split(&t->grid, t->arch.layers, bb_schedule_parts_per_stage(&t->schedule));
    TRY(reject_chunks_of_overlap(t));
    if (o->pipeline_layout)
        TRY(bb_pipe_layout_validate(&t->split, t->arch.mtp, t->config->proxy));
    else if (t->split.stages > 1 && !bb_pipe_split_is_valid(&t->split))
        return bb_pipe_split_validate(&t->split, t->arch.mtp, bb_grid_suggest(&t->grid, &model, near),
                                      t->config->proxy);
    t->grid.table_stage = bb_memory_table_stage(&t->arch, &t->grid, &t->schedule);
out:
    return rc;
}

/* Returns the number of layers of the largest virtual pipeline stage (model chunk). */
static int max_chunk_layers(const struct bb_training *t)
{
    int max = 0, first;

    for (int part = 0; part < bb_schedule_parts(&t->schedule); part++) {
        int n = bb_pipe_split_layers(&t->split, part, &first);

        max = n > max ? n : max;
    }
    return max;
}

/* Parses --recompute-modules. A module that no layer of the model has is an error. */
static int read_recompute_modules(const char *list, struct bb_training *t)
{
    const unsigned modules = bb_recompute_modules_of(&t->arch);
    char word[BB_LIST_WORD];

    while (list && bb_list_next(&list, word)) {
        int i = 0;

        while (i < BB_MODULES && strcmp(word, bb_recompute_module_names[i]) != 0)
            i++;
        if (i == BB_MODULES)
            return bb_reject_unknown("module of --recompute-modules", word, bb_recompute_module_names, BB_MODULES);
        if (!(modules >> i & 1))
            return bb_err(BB_EUSAGE, "%s: --recompute-modules %s does not apply to %s, which has no %s; leave it out",
                          t->config->proxy, word, t->arch.name,
                          i == BB_MODULE_NORM ? "latent attention or experts, before which it recomputes the norms"
                                              : "such module");
        t->layers_config.recompute_modules |= 1u << i;
    }
    if (t->layers_config.recompute_modules & 1u << BB_MODULE_MOE) /* its parts are recomputed with it */
        t->layers_config.recompute_modules &= ~(1u << BB_MODULE_EXPERT_ACTIVATION | 1u << BB_MODULE_SHARED_EXPERTS);
    return 0;
}

static int validate_graph_modules(const struct bb_training *t, const char *list)
{
    const unsigned modules = t->layers_config.graph_modules;

    if (modules & 1u << BB_GRAPH_EXPERTS && t->layers_config.capacity_factor <= 0)
        return bb_err(BB_EUSAGE,
                      "%s: --cuda-graph-modules moe requires --capacity-factor, as in Megatron-LM; try: "
                      "--cuda-graph-modules moe_router,moe_preprocess",
                      t->config->proxy);
    if (modules & 1u << BB_GRAPH_PREPROCESS && !(modules & 1u << BB_GRAPH_ROUTER))
        return bb_err(BB_EUSAGE,
                      "%s: --cuda-graph-modules moe_preprocess requires moe_router, as in Megatron-LM; try: "
                      "--cuda-graph-modules %s,moe_router",
                      t->config->proxy, list);
    return 0;
}

/* Parses --cuda-graph-modules. A module that Megatron-LM does not capture in this step is an error. */
static int read_graph_modules(const char *list, struct bb_training *t)
{
    const struct bb_arch *a = &t->arch;
    char word[BB_LIST_WORD];

    for (const char *rest = list; rest && bb_list_next(&rest, word);) {
        int i = 0;

        while (i < BB_GRAPH_MODULES && strcmp(word, bb_graph_module_names[i]) != 0)
            i++;
        if (i == BB_GRAPH_MODULES && strcmp(word, "full_iteration") == 0)
            return bb_err(BB_EUSAGE, "%s: --cuda-graph-modules full_iteration is --graph here", t->config->proxy);
        if (i == BB_GRAPH_MODULES)
            return bb_reject_unknown("module of --cuda-graph-modules", word, bb_graph_module_names, BB_GRAPH_MODULES);
        if (i == BB_GRAPH_MAMBA ? a->scan.heads == 0 || a->scan.delta
            : i == BB_GRAPH_MLP ? !bb_arch_any(a, BB_ARCH_DENSE)
                                : i != BB_GRAPH_ATTENTION && a->experts == 0)
            return bb_err(BB_EUSAGE,
                          "%s: --cuda-graph-modules %s does not apply to %s, which has no such layer; leave it out",
                          t->config->proxy, word, a->name);
        t->layers_config.graph_modules |= 1u << i;
    }
    return validate_graph_modules(t, list);
}

static int validate_recompute(const struct bb_training *t)
{
    int requested = t->config->transformer.recompute_layers, max = max_chunk_layers(t);

    if (requested <= max)
        return 0;
    return bb_err(
        BB_EUSAGE,
        "%s: --recompute-num-layers %d is more than the %d layer%s of the largest (virtual) pipeline stage; try: "
        "--recompute-num-layers %d",
        t->config->proxy, requested, max, bb_plural(max), max);
}

static bool has_plain_layers(const struct bb_arch *a)
{
    return a->experts == 0 && a->kv_lora == 0 && a->scan.heads == 0 && !a->kinds[0] && a->encoder_layers == 0 &&
           a->mtp == 0 && !a->out_gate;
}

/* An option of the command line, and whether the step can use it; if not, why, and after "; try: " what to type instead. */
struct requirement {
    bool given, applies;
    const char *option, *why;
};

static int reject_first(const char *proxy, const struct requirement *rows, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (rows[i].given && !rows[i].applies)
            return bb_err(BB_EUSAGE, "%s: --%s does not apply: %s%s", proxy, rows[i].option, rows[i].why,
                          strstr(rows[i].why, "; try: ") ? "" : "; leave it out");
    return 0;
}

static int reject_expert_options(const struct bb_training *t)
{
    const struct bb_transformer_options *o = &t->config->transformer;
    static const char overlap[] = "overlap-moe-expert-parallel-comm";
    const struct requirement rows[] = {
        {o->etp > 1, t->grid.experts, "etp", "the model has no experts"},
        {o->dispatch, t->grid.experts, "moe-dispatch", "the model has no experts"},
        {o->node_limit, t->grid.experts, "moe-node-limit", "the model has no experts"},
        {o->node_limit, t->layers_config.dispatch == BB_DISPATCH_DEDUP, "moe-node-limit",
         "it requires --moe-dispatch dedup; try: --moe-dispatch dedup"},
        {o->float8_dispatch, t->grid.experts && t->grid.ep > 1, "fp8-dispatch", "no token goes to another rank"},
        {o->float8_dispatch, t->layers_config.dispatch != BB_DISPATCH_ALL_GATHER, "fp8-dispatch",
         "it requires --moe-dispatch alltoall or dedup; try: --moe-dispatch alltoall"},
        {o->float8_dispatch, t->grid.etp <= 1, "fp8-dispatch", "with etp above 1 tokens are gathered in 16 bits"},
        {o->moe_overlap, t->grid.experts && t->grid.ep > 1, overlap, "no token goes to another rank"},
        {o->moe_overlap, t->layers_config.dispatch != BB_DISPATCH_ALL_GATHER, overlap,
         "it requires --moe-dispatch alltoall or dedup; try: --moe-dispatch alltoall"},
        {o->moe_overlap, t->layers_config.recompute != BB_RECOMPUTE_FULL, overlap,
         "it excludes --recompute full, as in Megatron-LM"},
        {o->moe_overlap, !(t->layers_config.recompute_modules & 1u << BB_MODULE_MOE), overlap,
         "it excludes the module moe of --recompute-modules, as in Megatron-LM"},
        {o->moe_overlap, t->arch.mtp <= 1, overlap, "it excludes more than one layer of MTP, as in Megatron-LM"},
        {o->moe_overlap, bb_dtypes[t->layers_config.dtype].bytes == 2, overlap,
         "it requires --dtype bfloat16 or half, as in Megatron-LM; try: --dtype bfloat16"},
        {o->moe_overlap, t->schedule.kind == (t->grid.pp > 1 ? BB_INTERLEAVED : BB_1F1B), overlap,
         "it requires --schedule interleaved (--vpp 2 or more) with several stages, else 1f1b"},
        {o->moe_overlap, bb_sync_reduces_once(t->policy.kind), overlap,
         "it requires --dp-sync all_reduce, zero1 or distributed; try: --dp-sync distributed"},
        {o->capacity > 0, t->grid.experts, "capacity-factor", "the model has no experts"},
        {o->imbalance > 0, t->grid.experts, "moe-imbalance", "the model has no experts"},
        {o->imbalance > 0, o->capacity == 0, "moe-imbalance", "with --capacity-factor all experts have equal capacity"},
        {o->seed, o->imbalance > 0, "seed", "it requires --moe-imbalance; try: --moe-imbalance 1"},
    };

    return reject_first(t->config->proxy, rows, sizeof(rows) / sizeof(rows[0]));
}

static int reject_training_options(const struct bb_training *t)
{
    const struct bb_transformer_options *o = &t->config->transformer;
    static const char offload[] = "cpu-offloading-num-layers";
    const struct requirement rows[] = {
        {o->recompute_layers && o->recompute_modules, false, "recompute-num-layers", "it excludes --recompute-modules"},
        {o->recompute_layers, t->layers_config.recompute == BB_RECOMPUTE_FULL, "recompute-num-layers",
         "it requires --recompute full; try: --recompute full"},
        {t->layers_config.recompute == BB_RECOMPUTE_OPS,
         has_plain_layers(&t->arch) && !t->arch.parallel_attention && o->lora_rank == 0, "recompute ops",
         "it is modelled for dense models whose MLP follows plain attention, without MTP and LoRA; try: --recompute "
         "full"},
        {o->recompute_modules, t->layers_config.recompute == BB_RECOMPUTE_SELECTIVE, "recompute-modules",
         "it requires --recompute selective; try: --recompute selective"},
        {o->mtp_layers, t->arch.encoder_layers == 0 && !t->arch.post_norm, "mtp-num-layers",
         "the model has an encoder"},
        {o->mtp_layers && t->arch.tied, bb_pipe_split_mtp_part(&t->split) == t->split.stages * t->split.chunks - 1,
         "mtp-num-layers", "the tied embeddings are not on the virtual stage of m in --pipeline-layout"},
        {o->offload_layers, t->grid.pp == 1, offload, "it requires one stage, as in Megatron-LM"},
        {o->offload_layers, t->schedule.kind == BB_1F1B, offload, "it requires --schedule 1f1b; try: --schedule 1f1b"},
        {o->offload_layers, t->arch.encoder_layers == 0, offload, "the model has an encoder"},
        {o->offload_layers, !o->moe_overlap, offload, "it excludes --overlap-moe-expert-parallel-comm"},
        {o->offload_layers, t->layers_config.recompute == BB_RECOMPUTE_NONE, offload,
         "it excludes recomputation, as in Megatron-LM"},
        {o->offload_layers, o->offload_layers < t->arch.layers, offload,
         "at least one layer keeps its activations, as in Megatron-LM"},
        {o->lora_rank, t->arch.scan.heads == 0 && !t->arch.kinds[0], "lora-rank",
         "adapters are not modelled for models with scan layers (linear attention, Mamba)"},
        {o->lora_rank, t->arch.streams == 0, "lora-rank",
         "adapters are not modelled for compressed attention (DeepSeek-V4)"},
        {o->lora_rank, t->arch.encoder_layers == 0, "lora-rank",
         "adapters are not modelled for encoder-decoder models"},
        {o->lora_rank && o->mtp_layers, false, "mtp-num-layers", "it excludes --lora-rank"},
        {o->lora_rank && !t->arch.lora_attention, t->grid.etp <= 1, "etp",
         "adapters of experts are not modelled with it"},
        {o->lora_targets, o->lora_rank > 0, "lora-targets", "it requires --lora-rank; try: --lora-rank 16"},
        {bb_precision_word(o), t->layers_config.gemm, o->precision ? "gemm-precision" : "fp8",
         "it requires --cluster, and no --compute, --tflops, --forward-us or --backward-us"},
    };

    return reject_first(t->config->proxy, rows, sizeof(rows) / sizeof(rows[0]));
}

static int reject_layout_options(const struct bb_training *t)
{
    const struct bb_transformer_options *o = &t->config->transformer;
    const struct requirement rows[] = {
        {o->decoder_sequence, t->arch.encoder_layers > 0, "decoder-seq-length", "the model has no encoder"},
        {o->context, t->grid.cp > 1, "cp-comm", "cp is 1"},
        {o->first_layers, t->grid.pp > 1, "decoder-first-pipeline-num-layers", "pp is 1"},
        {o->last_layers, t->grid.pp > 1, "decoder-last-pipeline-num-layers", "pp is 1"},
        {o->pipeline_layout, !o->first_layers && !o->last_layers, "pipeline-layout",
         "the layers of the first or last stage are given"},
        {o->sequence_parallel, t->grid.tp > 1, "sequence-parallel", "tp is 1"},
        {o->tp_overlap, t->grid.tp > 1, "tp-comm-overlap", "tp is 1"},
        {o->tp_overlap, o->sequence_parallel, "tp-comm-overlap",
         "it requires --sequence-parallel; try: --sequence-parallel"},
        {t->config->sync.sync, false, "sync", "transformer has the option --dp-sync instead"},
    };

    return reject_first(t->config->proxy, rows, sizeof(rows) / sizeof(rows[0]));
}

static int reject_unused_options(const struct bb_training *t)
{
    int rc;

    TRY(reject_expert_options(t));
    TRY(reject_training_options(t));
    TRY(reject_layout_options(t));
    if (bb_schedule_is_bidirectional(&t->schedule) && t->arch.tied)
        return bb_err(
            BB_EUSAGE,
            "%s: schedule dualpipe is not supported for models with tied embeddings (tie_word_embeddings); try: "
            "--schedule zb-h1",
            t->config->proxy);
    if (bb_schedule_is_bidirectional(&t->schedule) && !bb_sync_reduces_once(t->policy.kind))
        return bb_err(BB_EUSAGE,
                      "%s: schedule dualpipe reduces gradients only at the end of the step, because two stages compute "
                      "them in different order; --dp-sync %s is not supported; try: --dp-sync zero1",
                      t->config->proxy, bb_sync_names[t->policy.kind]);
    if (bb_schedule_splits_backward(&t->schedule) && bb_sync_gathers_parameters(t->policy.kind))
        return bb_err(BB_EUSAGE,
                      "%s: schedule %s defers the gradients of the weights, but --dp-sync %s frees the weights after "
                      "the backward; try: --dp-sync zero1, or --schedule 1f1b",
                      t->config->proxy, bb_schedule_names[t->schedule.kind], bb_sync_names[t->policy.kind]);
out:
    return rc;
}

static enum bb_sync_kind sync_kind(const struct bb_proxy_config *c)
{
    return (enum bb_sync_kind)bb_args_index(c->transformer.sync, bb_sync_names, BB_SYNC_ALL_REDUCE);
}

static void resolve_layers_config(struct bb_training *t)
{
    const struct bb_proxy_config *c = t->config;
    const struct bb_transformer_options *o = &c->transformer;
    const bool sharded = bb_sync_gathers_parameters(sync_kind(c));

    t->layers_config = (struct bb_layers_config){
        .arch = &t->arch,
        .sequence = o->sequence ? o->sequence : t->arch.sequence,
        .decoder_sequence = o->decoder_sequence ? o->decoder_sequence
                            : o->sequence       ? o->sequence
                                                : t->arch.sequence,
        .micro_batch_size = c->micro_batch_size,
        .sequence_parallel = o->sequence_parallel,
        .recompute = (enum bb_recompute)bb_args_index(o->recompute, bb_recompute_names, BB_RECOMPUTE_NONE),
        .recompute_layers = o->recompute_layers,
        .offload_layers = o->offload_layers,
        .context = (enum bb_context_mode)bb_args_index(o->context, contexts, BB_CONTEXT_RING),
        .dispatch = (enum bb_dispatch_mode)bb_args_index(o->dispatch, dispatches, BB_DISPATCH_ALL_TO_ALL),
        .node_limit = o->node_limit,
        .float8_dispatch = o->float8_dispatch,
        .capacity_factor = o->capacity,
        .imbalance = o->imbalance,
        .load = o->load,
        .seed = (unsigned)(o->seed ? o->seed : 1),
        .shares = o->shares,
        .dtype = (enum bb_dtype_id)bb_dtype_find(c->dtype),
        .tflops = c->tflops,
        .forward_us = c->forward_us,
        .backward_us = c->backward_us,
        .gemm = strcmp(c->compute, "gemm") == 0,
        .unfused = o->attention ? strcmp(o->attention, "unfused") == 0 : o->unfused_dropout && t->arch.dropout,
        .fused = o->attention && strcmp(o->attention, "fused") == 0,
        .precision = bb_gemm_precision_of(bb_precision_word(o)),
        .serial = o->serial[sharded] || c->sync.no_overlap,
        .tp_overlap = o->tp_overlap,
    };
}

/* Resolves and validates all options except those that bb_layers_new validates. The caller has already loaded
 * t->arch. */
static bool trains_experts(const struct bb_training *t)
{
    return t->grid.experts && !(t->arch.lora_rank && t->arch.lora_attention);
}

static bool is_torch(const struct bb_proxy_config *c)
{
    return c->transformer.software ? strncmp(c->transformer.software, "torch", 5) == 0
                                   : bb_training_assumes_torch(c, sync_kind(c));
}

/* ZeRO-1 of PyTorch is that of DeepSpeed (reduce_bucket_size), unless the options choose the buckets. */
static int resolve_sync(struct bb_training *t)
{
    struct bb_proxy_config c = *t->config;
    const bool chosen = c.sync.bucket_rule || c.sync.bucket_mb > 0 || c.sync.first_bucket_mb > 0;

    if (sync_kind(&c) == BB_SYNC_ZERO1 && !chosen && is_torch(&c))
        c.sync.bucket_rule = "deepspeed";
    return bb_sync_resolve(&c, sync_kind(&c), t->layers_config.dtype, BB_FLOAT, &t->policy);
}

/* Returns whether the GEMM of a weight gradient adds it to that of earlier micro-batches, as in Megatron-LM. PyTorch's
 * autograd (accumulate_grad.h) and DeepSpeed's BF16_Optimizer (update_hp_grads) add it by a kernel, the whole one unless
 * replicas reduce it in every micro-batch. */
static bool fuses_sums(const struct bb_training *t)
{
    return !is_torch(t->config) || t->policy.kind == BB_SYNC_DISTRIBUTED ||
           bb_sync_reduces_every_micro_batch(&t->policy);
}

static int resolve_shape(struct bb_training *t)
{
    const struct bb_proxy_config *c = t->config;
    int rc = 0;

    resolve_layers_config(t);
    TRY(resolve_grid(t));
    TRY(resolve_sync(t));
    TRY(read_recompute_modules(c->transformer.recompute_modules, t));
    TRY(reject_unused_options(t));
    TRY(validate_recompute(t));
    TRY(read_graph_modules(c->transformer.graph_modules, t));
    t->has_parameters[BB_DENSE] = true;
    t->has_parameters[BB_EXPERT] = trains_experts(t) || (t->grid.experts && bb_sync_gathers_parameters(t->policy.kind));
    t->arch.lora_experts = t->arch.lora_split ? t->arch.experts : t->grid.ep;
    t->layers_config.grad_dtype = t->policy.grads;
    t->layers_config.tp = t->grid.tp;
    t->layers_config.cp = t->grid.cp;
    t->layers_config.ep = t->grid.ep;
    t->layers_config.etp = t->grid.etp;
    t->layers_config.accumulates = t->schedule.micro_batches > 1;
    t->layers_config.fuses_sums = fuses_sums(t);
out:
    return rc;
}

/* Adapters are those of PEFT, but PEFT has no pipeline stages, no sequence parallelism and no distributed optimizer. Without
 * --pp, the stages are what tp, cp and dp leave of the ranks (bb_grid_resolve). */
bool bb_training_assumes_torch(const struct bb_proxy_config *config, enum bb_sync_kind sync)
{
    const struct bb_transformer_options *t = &config->transformer;
    const bool derived = !t->pp && config->ranks > (long long)t->dp * MAX(t->tp, 1) * MAX(t->cp, 1) && t->dp > 0;
    const bool megatron = t->pp > 1 || derived || t->sequence_parallel || sync == BB_SYNC_DISTRIBUTED;

    return bb_sync_gathers_parameters(sync) || (t->lora_rank > 0 && !megatron);
}

int bb_training_load_arch(const struct bb_proxy_config *c, struct bb_arch *arch)
{
    int rc = bb_arch_load(c->model, arch);

    arch->mtp = c->transformer.mtp_layers;
    arch->lora_rank = c->transformer.lora_rank;
    arch->lora_attention = c->transformer.lora_targets && strcmp(c->transformer.lora_targets, "attention") == 0;
    arch->lora_split = is_torch(c);
    return rc == 0 && c->layers ? bb_arch_with_layers(arch, c->layers) : rc;
}

int bb_training_validate_graph(const struct bb_proxy_config *c, bool modules)
{
    struct bb_arch arch;
    int rc = 0;

    if (!c->model || c->transformer.capacity > 0)
        return 0;
    TRY(bb_training_load_arch(c, &arch));
    if (arch.experts > 0)
        return bb_err(
            BB_EUSAGE,
            "%s: --graph cannot capture the experts of %s without --capacity-factor, since only the GPU knows "
            "how many tokens each expert gets; try: --capacity-factor 1%s",
            c->proxy, arch.name, modules ? ", or --cuda-graph-modules attn,moe_router without --graph" : "");
out:
    return rc;
}

/* ---- groups and communicators ---- */

/* Adds a communicator for a process group of the rank grid, for example tp. *comm: index of the communicator in the
 * layout; BB_NONE if the group has one rank. name: name of the communicator; NULL: the name of the group. */
static void add_comm(struct bb_training *t, enum bb_grid_group group, const char *name, int *comm)
{
    int of = t->groups.of[group];

    *comm = BB_NONE;
    if (of != BB_NONE)
        *comm = bb_layout_add_comm(&t->step->layout, name ? name : t->step->layout.groups[of].name, of);
}

/* Adds the communicators over which the gradient norm is summed: the tp x pp ranks of one model replica, the ranks that
 * shard the optimizer state, and the ep ranks. */
static void add_norms(struct bb_training *t)
{
    enum bb_grid_group replicas = t->grid.cp > 1 ? BB_GRID_DP_CP : BB_GRID_DP;

    t->norms[1] = t->norms[2] = BB_NONE;
    add_comm(t, BB_GRID_TP_PP, "norm", &t->norms[0]);
    if (bb_sync_is_sharded(t->policy.kind))
        add_comm(t, replicas, "shard norm", &t->norms[1]);
    if (trains_experts(t))
        add_comm(t, BB_GRID_EP, "expert norm", &t->norms[2]);
}

static unsigned wanted_groups(const struct bb_training *t)
{
    unsigned wanted = BB_GRID_GROUP_BIT(BB_GRID_TP) | BB_GRID_GROUP_BIT(BB_GRID_CP) | BB_GRID_GROUP_BIT(BB_GRID_DP) |
                      BB_GRID_GROUP_BIT(BB_GRID_PP) | BB_GRID_GROUP_BIT(BB_GRID_TP_PP);

    if (t->grid.cp > 1)
        wanted |= BB_GRID_GROUP_BIT(BB_GRID_DP_CP);
    if (t->grid.table_stage > 0)
        wanted |= BB_GRID_GROUP_BIT(BB_GRID_EMBEDDING);
    if (t->grid.experts)
        wanted |= BB_GRID_GROUP_BIT(BB_GRID_EP) | BB_GRID_GROUP_BIT(BB_GRID_EDP) | BB_GRID_GROUP_BIT(BB_GRID_ETP) |
                  BB_GRID_GROUP_BIT(BB_GRID_TP_EP);
    return wanted;
}

/* What to type where the ranks of ep are not on several nodes: the size of ep that covers two nodes, if the model and
 * the number of ranks allow it, or another dispatch. */
static const char *instead_of_dedup(struct bb_training *t, int node)
{
    const struct bb_grid *g = &t->grid;
    const int ep = 2 * (node / g->etp);
    const char *plain = t->config->transformer.node_limit ? "--moe-dispatch alltoall without --moe-node-limit"
                                                          : "--moe-dispatch alltoall";

    if (ep < 4 || node % g->etp || t->arch.experts % ep || g->ranks / g->pp % ((long long)g->etp * ep))
        return plain;
    return bb_step_text(t->step, "--ep %d, or %s", ep, plain);
}

/* Adds the two communicators of --moe-dispatch dedup, which sends a token to each node at most once: one among the
 * ep ranks of a node, and one among the ep ranks that have the same index in their nodes. */
static int add_node_comms(struct bb_training *t)
{
    int ep = t->groups.of[BB_GRID_EP], node = t->config->gpus_per_node, rc;
    struct bb_hierarchy_option dedup = {.name = "moe-dispatch dedup"};
    struct bb_sync_comms comms;

    t->ep_local = t->ep_cross = BB_NONE;
    if (t->layers_config.dispatch != BB_DISPATCH_DEDUP)
        return 0;
    if (ep == BB_NONE)
        return bb_err(BB_EUSAGE,
                      "%s: --moe-dispatch dedup does not apply: ep is 1, no token goes to another rank; leave it out",
                      t->config->proxy);
    node = node > 0 ? node : t->grid.ranks;
    dedup.instead = instead_of_dedup(t, node);
    TRY(bb_sync_hierarchy_comms(t->step, ep, node, &dedup, &comms));
    t->ep_local = comms.local;
    t->ep_cross = comms.cross;
    t->layers_config.nodes = comms.n_cross;
out:
    return rc;
}

/* A bidirectional pipeline holds each virtual stage of the model twice: stages r and p - 1 - r of p hold the same
 * parameters. Adds the groups of ranks that replicate parameters. Each new group consists of the ranks of one group
 * of kind `of` (dp, dp_cp or edp) on stage r, and of the ranks of the same pipelines on stage p - 1 - r. If the
 * groups of kind `of` have one rank, each new group has two ranks, one of each stage. Returns the index of the new
 * groups in the layout. */
static int add_bidirectional_replicas(struct bb_training *t, enum bb_grid_group of, const char *name)
{
    struct bb_layout *l = &t->step->layout;
    int group = t->groups.of[of], pp = t->groups.of[BB_GRID_PP], n = group == BB_NONE ? 1 : l->groups[group].size,
        at = 0, joined;
    int *members, p = t->grid.pp;

    BB_NEW(members, l->ranks);
    for (int rank = 0; rank < l->ranks; rank++) {
        if (bb_group_index(l, pp, rank) >= p / 2 || (group != BB_NONE && bb_group_index(l, group, rank) != 0))
            continue;
        for (int half = 0; half < 2; half++)
            for (int i = 0; i < n; i++) {
                int member = group == BB_NONE ? rank : bb_group_member(l, group, bb_group_instance(l, group, rank), i);
                int position = bb_group_index(l, pp, member), pipeline = bb_group_instance(l, pp, member);

                members[at++] = bb_group_member(l, pp, pipeline, half ? p - 1 - position : position);
            }
    }
    joined = bb_layout_add_irregular(l, name, members, at / (2 * n), 2 * n);
    free(members);
    return joined;
}

static int resolve_layout(struct bb_training *t)
{
    const enum bb_grid_group of[BB_PARAMETER_KINDS] = {t->grid.cp > 1 ? BB_GRID_DP_CP : BB_GRID_DP, BB_GRID_EDP};
    static const char *const names[BB_PARAMETER_KINDS] = {"dp bidirectional", "edp bidirectional"};
    const bool bidirectional = bb_schedule_is_bidirectional(&t->schedule);
    struct bb_layout *l = &t->step->layout;
    /* groups of ranks that replicate the parameters of each kind; BB_NONE: the parameters are not replicated */
    int replicas[BB_PARAMETER_KINDS], rc;

    TRY(bb_grid_layout(&t->grid, wanted_groups(t), l, &t->groups));
    add_comm(t, BB_GRID_TP, NULL, &t->tp);
    /* With dp = 1, gradients are reduced over the cp group. This group then has two communicators, one for attention
     * and one for gradients, which need different names. */
    add_comm(t, BB_GRID_CP, t->grid.dp == 1 ? "cp tokens" : NULL, &t->cp);
    add_comm(t, BB_GRID_EMBEDDING, NULL, &t->embedding);
    /* expert parallelism: the ep ranks, the etp ranks that share one expert, and the etp x ep ranks that together hold
     * all experts of a layer */
    add_comm(t, BB_GRID_EP, NULL, &t->ep);
    TRY(add_node_comms(t));
    add_comm(t, BB_GRID_ETP, "etp", &t->etp);
    t->etp_ep = t->ep;
    if (t->groups.of[BB_GRID_TP_EP] != t->groups.of[BB_GRID_EP])
        add_comm(t, BB_GRID_TP_EP, "tp_ep", &t->etp_ep);
    for (int d = 0; d < BB_PIPE_FLOWS; d++)
        t->pipe[d] = BB_NONE;
    if (t->groups.of[BB_GRID_PP] != BB_NONE)
        bb_pipe_comms(l, t->groups.of[BB_GRID_PP], bidirectional, t->pipe);
    for (int s = 0; s < BB_PARAMETER_KINDS; s++) {
        replicas[s] = t->has_parameters[s] ? t->groups.of[of[s]] : BB_NONE;
        if (bidirectional && t->has_parameters[s])
            replicas[s] = add_bidirectional_replicas(t, of[s], names[s]);
    }
    for (int s = 0; s < BB_PARAMETER_KINDS; s++)
        TRY(bb_sync_add_comms(t->step, &t->policy, replicas[s], t->config->gpus_per_node, &t->sync[s]));
    add_norms(t);
out:
    return rc;
}

/* ---- roles (sets of ranks that execute the same program) ---- */

/* Number of roles per pipeline stage: one per program (bb_layers_programs_per_stage). Hierarchical all-reduces
 * double the number, because the last rank of each node also reduces the remainder (elements that are left when a
 * bucket is divided equally among the node's ranks). */
static int roles_per_stage(const struct bb_training *t)
{
    return bb_layers_programs_per_stage(t->layers) * (t->policy.options.hierarchical ? 2 : 1);
}

static bool is_last_of_node(const struct bb_training *t, int rank)
{
    int local = t->sync[BB_DENSE].local, group;

    if (local == BB_NONE)
        return false;
    group = t->step->layout.comms[local].group;
    return bb_group_index(&t->step->layout, group, rank) == t->step->layout.groups[group].size - 1;
}

static int role_of(const struct bb_training *t, int rank)
{
    int stage = bb_grid_coord(&t->grid, rank, BB_AXIS_PP, false),
        programs_per_stage = bb_layers_programs_per_stage(t->layers), kind = 0;

    if (programs_per_stage > 1)
        kind = bb_grid_coord(&t->grid, rank, BB_AXIS_EP, true);
    if (t->policy.options.hierarchical)
        kind += programs_per_stage * is_last_of_node(t, rank);
    return stage * roles_per_stage(t) + kind;
}

static const char *name_of(const struct bb_training *t, const struct bb_stage *s)
{
    const char *last = s->remainder ? ", last of its node" : "";
    char experts[32] = "";

    if (bb_layers_programs_per_stage(t->layers) > 1)
        snprintf(experts, sizeof(experts), ", experts %d", s->ep_rank);
    if (t->schedule.stages == 1)
        return bb_step_text(t->step, "whole model%s%s", experts, last);
    if (s->stage == 0)
        return bb_step_text(t->step, "first stage%s%s", experts, last);
    if (s->stage == t->schedule.stages - 1)
        return bb_step_text(t->step, "last stage%s%s", experts, last);
    return bb_step_text(t->step, "stage %d%s%s", s->stage, experts, last);
}

struct bb_memory bb_training_memory(const struct bb_training *t, int ep_rank)
{
    const struct bb_transformer_options *o = &t->config->transformer;
    const struct bb_memory_stack *stack =
        bb_memory_stack_of(o->software, bb_training_assumes_torch(t->config, t->policy.kind));

    return (struct bb_memory){
        .arch = &t->arch,
        .grid = &t->grid,
        .schedule = &t->schedule,
        .policy = &t->policy,
        .dense = &t->sync[BB_DENSE],
        .expert = t->has_parameters[BB_EXPERT] ? &t->sync[BB_EXPERT] : NULL,
        .layers_config = &t->layers_config,
        .layers = t->layers,
        .ep_rank = ep_rank,
        .stack = stack,
        .fused_loss = o->loss ? strcmp(o->loss, "fused") == 0 : stack->fused_loss,
    };
}

static void set_training_bytes(const struct bb_training *t, int stage, int ep_rank, struct bb_role *role)
{
    const struct bb_memory m = bb_training_memory(t, ep_rank);

    bb_memory_rank_bytes(&m, stage, role->training_bytes);
    t->step->host_bytes = MAX(t->step->host_bytes, bb_memory_host_bytes(&m));
    t->step->host_optimizer_bytes = MAX(t->step->host_optimizer_bytes, bb_memory_host_optimizer_bytes(&m, stage));
}

/* Returns what bb_sync_add_comms would compute for memory, but without creating communicators: one shard for each of the
 * ranks with the same parameters. */
static struct bb_sync_comms sync_groups_of(int replicas)
{
    return (struct bb_sync_comms){.n = replicas, .n_replicas = 1};
}

/* Returns whether the options are valid only with some distributions of the ranks over the nodes. */
static bool depends_on_nodes(const struct bb_training *t)
{
    return t->policy.kind == BB_SYNC_HSDP || t->policy.options.shard_size || t->policy.options.hierarchical ||
           t->layers_config.dispatch == BB_DISPATCH_DEDUP;
}

/* Resolves the inputs of the memory formulas (memory.h), except the load of experts, without building the layout (the
 * process groups of the ranks) unless it decides whether the options are valid. The caller releases the result with
 * release_bytes, also after an error. */
static int resolve_sharding(struct bb_training *t)
{
    int copies, rc;

    TRY(resolve_shape(t));
    copies = bb_schedule_is_bidirectional(&t->schedule) ? 2 : 1;
    if (depends_on_nodes(t)) {
        TRY(resolve_layout(t));
    } else {
        t->sync[BB_DENSE] = sync_groups_of(copies * t->grid.dp * t->grid.cp);
        t->sync[BB_EXPERT] = sync_groups_of(copies * MAX(t->grid.edp, 1));
    }
    TRY(bb_layers_validate(&t->layers_config, t->step->proxy));
out:
    return rc;
}

static int resolve_bytes(struct bb_training *t)
{
    int rc;

    TRY(resolve_sharding(t));
    if (t->layers_config.imbalance > 0 || t->layers_config.dispatch == BB_DISPATCH_DEDUP)
        TRY(bb_layers_new(&t->layers, &t->layers_config, t->step));
out:
    return rc;
}

static void release_bytes(struct bb_training *t)
{
    bb_layers_free(t->layers);
    bb_step_release(t->step);
}

static double max_rank_bytes(const struct bb_training *t)
{
    const int programs = t->layers ? bb_layers_programs_per_stage(t->layers) : 1;
    struct bb_role role = {0};
    double max = 0;

    for (int i = 0; i < t->grid.pp * programs; i++) {
        double sum = 0;

        set_training_bytes(t, i / programs, i % programs, &role);
        for (int use = 0; use < BB_USES; use++)
            sum += role.training_bytes[use];
        max = sum > max ? sum : max;
    }
    return max;
}

int bb_training_bytes(const struct bb_proxy_config *c, const struct bb_arch *arch, double *max_bytes)
{
    struct bb_step step = {.proxy = c->proxy};
    struct bb_training t = {.config = c, .step = &step, .arch = *arch};
    int rc = resolve_bytes(&t);

    *max_bytes = rc ? 0 : max_rank_bytes(&t);
    release_bytes(&t);
    return rc;
}

int bb_training_rank_loads(const struct bb_proxy_config *c, const struct bb_arch *arch, double *loads)
{
    struct bb_step step = {.proxy = c->proxy};
    struct bb_training t = {.config = c, .step = &step, .arch = *arch};
    int rc;

    TRY(resolve_bytes(&t));
    for (int i = 0; i < arch->layers * t.grid.ep; i++)
        loads[i] = t.layers ? bb_layers_expert_load(t.layers, i / t.grid.ep, i % t.grid.ep) : 1;
out:
    release_bytes(&t);
    return rc;
}

/* Returns the load of the busiest rank of ep in the layers of one stage: the mean over these layers. */
static double stage_load(const struct bb_training *t, int stage, const double *loads)
{
    const struct bb_schedule *s = &t->schedule;
    const struct bb_pipe_split split = bb_grid_pipe_split(&t->grid, t->arch.layers, bb_schedule_parts_per_stage(s));
    double max = 0;

    for (int rank = 0; rank < t->grid.ep; rank++) {
        double sum = 0;
        int layers = 0, first;

        for (int chunk = 0; chunk < s->chunks; chunk++) {
            const int n = bb_pipe_split_layers(&split, bb_schedule_part(s, stage, chunk), &first);

            for (int layer = first; layer < first + n; layer++)
                sum += loads[layer * t->grid.ep + rank];
            layers += n;
        }
        max = layers > 0 ? MAX(max, sum / layers) : max;
    }
    return max;
}

int bb_training_expert_load(const struct bb_proxy_config *c, const struct bb_arch *arch, const double *loads,
                            struct bb_expert_load *load)
{
    struct bb_step step = {.proxy = c->proxy};
    struct bb_training t = {.config = c, .step = &step, .arch = *arch};
    int rc;

    *load = (struct bb_expert_load){0};
    TRY(resolve_sharding(&t));
    for (int layer = 0; layer < arch->layers; layer++) {
        double max = 0;

        for (int rank = 0; rank < t.grid.ep; rank++)
            max = MAX(max, loads[layer * t.grid.ep + rank]);
        load->of_layers += max / arch->layers;
    }
    for (int stage = 0; stage < t.grid.pp; stage++)
        load->of_stage = MAX(load->of_stage, stage_load(&t, stage, loads));
out:
    release_bytes(&t);
    return rc;
}

int bb_training_min_recompute_layers(const struct bb_proxy_config *c, const struct bb_arch *arch, double gpu_bytes,
                                     int *layers, double *bytes)
{
    struct bb_step step = {.proxy = c->proxy};
    struct bb_training t = {.config = c, .step = &step, .arch = *arch};
    int rc, too_few = 0, all;
    double with;

    *layers = 0;
    *bytes = 0;
    TRY(resolve_bytes(&t));
    t.layers_config.recompute = BB_RECOMPUTE_FULL;
    *bytes = max_rank_bytes(&t);
    /* Binary search for the smallest number of recomputed layers per model chunk with which training fits in GPU
     * memory. In each iteration, recomputing too_few layers is known to be insufficient and recomputing `all` layers
     * to be sufficient, first those of the largest chunk. If no smaller number suffices, *layers stays 0: all layers. */
    for (all = max_chunk_layers(&t); *bytes <= gpu_bytes && all - too_few > 1;) {
        t.layers_config.recompute_layers = too_few + (all - too_few) / 2;
        with = max_rank_bytes(&t);
        if (with > gpu_bytes) {
            too_few = t.layers_config.recompute_layers;
            continue;
        }
        *layers = all = t.layers_config.recompute_layers;
        *bytes = with;
    }
out:
    release_bytes(&t);
    return rc;
}

static int write_roles(struct bb_training *t)
{
    int programs_per_stage = bb_layers_programs_per_stage(t->layers), kinds = roles_per_stage(t), rc;

    TRY(bb_step_add_roles(t->step, t->schedule.stages * kinds));
    for (int r = 0; r < t->step->layout.ranks; r++)
        t->step->role_of[r] = role_of(t, r);
    for (int r = 0; r < t->step->n_roles; r++) {
        const struct bb_stage s = {r / kinds, r % kinds % programs_per_stage, r % kinds >= programs_per_stage};
        struct bb_role *role = &t->step->roles[r];

        role->name = name_of(t, &s);
        set_training_bytes(t, s.stage, s.ep_rank, role);
        TRY(bb_stage_write(t, &s, role));
    }
out:
    return rc;
}

/* ---- the step ---- */

#define STAGES_TEXT 128

/* Formats how the layers are divided among the stages, for example " in 16 stages of 4, the first of 3 and the last
 * of 2". */
static void describe_stages(const struct bb_training *t, char text[STAGES_TEXT])
{
    const struct bb_pipe_split *split = &t->split;
    int p = split->stages, v = split->chunks, parts = p * v, first, n = 0;

    text[0] = '\0';
    if (parts == 1)
        return;
    if (split->layout) {
        snprintf(text, STAGES_TEXT, " in %d %s as %.80s", parts, v > 1 ? "chunks" : "stages", split->layout);
        return;
    }
    if (split->first == 0 && split->last == 0) {
        snprintf(text, STAGES_TEXT, " in %d %s of %d%s", parts, v > 1 ? "chunks" : "stages",
                 bb_pipe_split_layers(split, parts / 2, &first),
                 t->arch.layers % parts ? ", embedding and head counted as one layer each" : "");
        return;
    }
    n = snprintf(text, STAGES_TEXT, " in %d stages", p);
    if (p > 2)
        n += snprintf(text + n, STAGES_TEXT - (size_t)n, " of %d", v * bb_pipe_split_layers(split, 1, &first));
    if (v > 1)
        n += snprintf(text + n, STAGES_TEXT - (size_t)n, " in %d chunks each", v);
    snprintf(text + n, STAGES_TEXT - (size_t)n, ", the first of %d and the last of %d",
             v * bb_pipe_split_layers(split, 0, &first), v * bb_pipe_split_layers(split, p - 1, &first));
}

/* If --seq-length is not given, the sequence length is the model's maximum. The description of the step points out
 * this default if it exceeds LONG_SEQUENCE tokens, because training rarely uses longer sequences: models that
 * support longer sequences are first trained with shorter ones. */
enum { LONG_SEQUENCE = 32768 };

static int sequence_of(const struct bb_training *t, int layer)
{
    const struct bb_layers_config *c = &t->layers_config;

    return bb_arch_is_decoder(&t->arch, layer) ? c->decoder_sequence : c->sequence;
}

/* Returns the FLOPs per sample, forward and backward, of the attention scores that a causal mask hides. */
static double masked_flops(const struct bb_training *t)
{
    int first, n = bb_arch_mtp_layers(&t->arch, &first);
    double flops = 0;

    for (int layer = 0; layer < t->arch.layers; layer++)
        flops += 3 * bb_arch_masked_flops(&t->arch, layer, sequence_of(t, layer));
    for (int layer = first; layer < first + n; layer++)
        flops += 3 * t->arch.mtp * bb_arch_masked_flops(&t->arch, layer, sequence_of(t, layer));
    return flops;
}

/* Returns the part of a layer's backward FLOPs that are gradients of weights, 0 to 1. Attention scores have no weights, and
 * every other GEMM has as many FLOPs for its weights as in the forward pass. */
static double weight_gradient_share(const struct bb_training *t)
{
    const struct bb_layers_config *c = &t->layers_config;
    double forward = 0, core = 0;

    for (int layer = 0; layer < t->arch.layers; layer++) {
        forward += bb_layers_flops(t->layers, layer);
        core += bb_arch_core_flops(&t->arch, layer, sequence_of(t, layer)) * c->micro_batch_size / (c->tp * c->cp);
    }
    return (forward - core) / (2 * forward);
}

static void describe_step(struct bb_training *t)
{
    static const enum bb_grid_axis shown[] = {BB_AXIS_TP, BB_AXIS_CP, BB_AXIS_PP, BB_AXIS_DP};
    const struct bb_schedule *s = &t->schedule;
    const struct bb_arch trained = bb_arch_trained(&t->arch);
    const bool is_longest = !t->config->transformer.sequence && t->layers_config.sequence > LONG_SEQUENCE;
    int m = s->micro_batches;
    char axes[128] = "", stages[STAGES_TEXT], decoder[48] = "", weights[64] = "", mtp[32] = "", lora[128] = "",
         number[BB_THOUSANDS_TEXT];
    bool encodes = t->arch.encoder_layers > 0;
    size_t at = 0;

    for (int a = 0; a < 4; a++) {
        int size = bb_grid_size(&t->grid, shown[a], false);

        if (size > 1)
            at += (size_t)snprintf(axes + at, sizeof(axes) - at, "%s%s %d", at ? " x " : "",
                                   bb_grid_axis_names[shown[a]], size);
    }
    if (t->grid.ep > 1)
        snprintf(axes + at, sizeof(axes) - at, ", ep %d, etp %d, edp %d", t->grid.ep, t->grid.etp, t->grid.edp);
    describe_stages(t, stages);
    t->step->parameters = bb_arch_parameters(&t->arch);
    t->step->trained_parameters = bb_arch_parameters(&trained);
    t->step->samples = (double)m * t->layers_config.micro_batch_size * t->grid.dp;
    t->step->tokens =
        t->step->samples * (t->layers_config.sequence + (encodes ? t->layers_config.decoder_sequence : 0));
    t->step->masked_flops = t->step->samples * masked_flops(t);
    t->step->unfused_attention = t->layers_config.unfused || (t->arch.dropout && !t->layers_config.fused);
    if (t->arch.mtp)
        snprintf(mtp, sizeof(mtp), " + %d of MTP", t->arch.mtp);
    if (t->arch.lora_rank)
        snprintf(lora, sizeof(lora), ", LoRA of rank %d on attention%s (%s trained parameters)", t->arch.lora_rank,
                 t->arch.lora_attention ? ""
                 : !t->grid.experts     ? " and MLP"
                 : t->arch.lora_split   ? " and each expert"
                                        : " and the experts of each rank together",
                 bb_format_thousands(t->step->trained_parameters, number));
    if (encodes)
        snprintf(decoder, sizeof(decoder), " and %d of the decoder", t->layers_config.decoder_sequence);
    if (bb_schedule_splits_backward(s) && t->arch.lora_rank == 0)
        snprintf(weights, sizeof(weights), " (weight gradients W: %.1f%% of backward FLOPs)",
                 100 * weight_gradient_share(t));
    t->step->summary = bb_step_text(
        t->step, "%s, %d layers%s%s%s%s; %s; %s%s%s%d micro-batch%s of %d x %d tokens%s%s; %s%s", t->arch.name,
        t->arch.layers, mtp,
        t->arch.parallel_attention && t->grid.tp > 1 ? " (attention and MLP in parallel: one sum over tp)" : "", lora,
        stages, axes[0] ? axes : "one rank", t->grid.pp > 1 ? bb_schedule_names[s->kind] : "", weights,
        t->grid.pp > 1 ? ", " : "", m, m == 1 ? "" : "es", t->layers_config.micro_batch_size, t->layers_config.sequence,
        decoder, is_longest ? " (the model's maximum; set --seq-length)" : "", bb_sync_names[t->policy.kind],
        t->policy.kind == BB_SYNC_ZERO1 && t->policy.rule.kind == BB_BUCKETS_DEEPSPEED ? " (DeepSpeed's buckets)" : "");
}

static int build_step(const struct bb_proxy_config *c, struct bb_step *step)
{
    struct bb_training t = {.config = c, .step = step};
    int rc;

    TRY(bb_training_load_arch(c, &t.arch));
    TRY(resolve_shape(&t));
    if (t.policy.kind == BB_SYNC_ZERO2 && t.grid.pp > 1 && t.schedule.micro_batches > 1 && !c->sync.no_sync)
        bb_warn("%s: --dp-sync zero2 reduces gradients after each of the %d micro-batches, as DeepSpeed does without a "
                "pipeline; "
                "to reduce them once per step, as frameworks do with pipelines, try: --no-sync",
                c->proxy, t.schedule.micro_batches);
    TRY(resolve_layout(&t));
    TRY(bb_layers_new(&t.layers, &t.layers_config, step));
    bb_layers_store_row_counts(t.layers);
    describe_step(&t);
    TRY(write_roles(&t));
out:
    bb_layers_free(t.layers);
    return rc;
}

const struct bb_proxy bb_transformer_proxy = {
    .name = "transformer",
    .help = "any transformer model: tensor, sequence, context, expert, pipeline and data parallelism",
    .model = "gpt2_small",
    .features = BB_FEATURE_MODEL | BB_FEATURE_LAYERS | BB_FEATURE_SCHEDULE | BB_FEATURE_MICRO_BATCHES |
                BB_FEATURE_GLOBAL_BATCH | BB_FEATURE_MICRO_BATCH_SIZE | BB_FEATURE_TIMED | BB_FEATURE_LAYER_US |
                BB_FEATURE_TFLOPS | BB_FEATURE_GEMM | BB_FEATURE_NODES | BB_FEATURE_TRANSFORMER | BB_FEATURE_SYNC,
    .dtype = "bfloat16",
    .compute = "timed",
    .defaults = fill_defaults,
    .build = build_step};
