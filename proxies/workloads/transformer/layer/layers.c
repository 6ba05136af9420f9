/* layers.c - sizes of a rank's shard of the layers, validation of their configuration, and FLOPs (see layer.h). */
#include "proxies/workloads/transformer/layer/block.h"

#include "bootstrap/base/alloc.h"

#include <limits.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/param.h>

bool bb_layers_is_recomputed(const struct bb_layers_config *config, int chunk_first, int layer)
{
    int first = bb_arch_is_decoder(config->arch, layer) && config->arch->encoder_layers > chunk_first
                    ? config->arch->encoder_layers
                    : chunk_first;

    return config->recompute == BB_RECOMPUTE_FULL &&
           (config->recompute_layers == 0 || layer - first < config->recompute_layers);
}

bool bb_layers_recomputes(const struct bb_layers_config *config, enum bb_recompute_module module)
{
    const unsigned modules = config->recompute_modules ? config->recompute_modules : 1u << BB_MODULE_CORE;

    return config->recompute == BB_RECOMPUTE_SELECTIVE && modules >> module & 1;
}

/* ---- sizes ---- */

static void resolve_attention(struct bb_layer_sizes *s, const struct bb_layers_config *c)
{
    const struct bb_arch *a = c->arch;
    bool latent = a->kv_lora > 0, by_heads = c->context == BB_CONTEXT_ALL_TO_ALL;

    s->heads = a->heads / c->tp;
    s->kv_heads = latent ? s->heads : a->kv_heads / c->tp;
    s->key_dim = latent ? a->nope_dim + a->rope_dim : a->head_dim;
    s->value_dim = latent ? a->v_dim : a->head_dim;
    s->q_lora = a->q_lora;
    s->kv_lora = a->kv_lora;
    s->nope_dim = a->nope_dim;
    s->rope_dim = a->rope_dim;
    s->index_heads = a->index_heads;
    s->index_dim = a->index_dim;
    s->keys = s->sequence = c->sequence;
    s->block_keys = c->sequence / c->cp;
    s->queries = by_heads ? c->sequence : c->sequence / c->cp;
    s->attention_heads = by_heads ? s->heads / c->cp : s->heads;
    s->index_share = s->repeated_share / (by_heads ? c->cp : 1);
}

static void resolve_scan(struct bb_layer_sizes *s, const struct bb_layers_config *c)
{
    const struct bb_arch_scan *scan = &c->arch->scan;

    s->heads = s->attention_heads = scan->heads / c->tp;
    s->kv_heads = scan->groups / c->tp;
    s->key_dim = scan->key_dim;
    s->value_dim = scan->value_dim;
    s->chunk = scan->chunk;
    s->delta = scan->delta;
    s->step_rank = scan->step_rank;
    s->out_gate = scan->step_rank == 0; /* the kernel of a selective scan includes its gate */
    s->qkv_bias = s->out_bias = scan->bias;
    s->rotary = false;
}

/* Sets the sizes of decoder layers, which have their own sequence length, and the sizes of encoder layers without a
 * causal mask: their queries attend to the whole sample. */
static void resolve_decoder(struct bb_layers *l)
{
    const struct bb_layers_config *c = &l->config;
    struct bb_layer_sizes *s = &l->decoder_sizes;

    *s = l->sizes;
    if (c->arch->encoder_layers == 0)
        return;
    l->sizes.causal = false;
    s->encoder_tokens = s->tokens;
    s->encoder_sequence = c->sequence;
    s->tokens = (int64_t)c->micro_batch_size * c->decoder_sequence;
    s->local_tokens = l->sequence_sharded ? s->tokens / c->tp : s->tokens;
    s->keys = s->queries = s->block_keys = s->sequence = c->decoder_sequence;
}

/* Sizes of the layers with one kind of compressed keys (DeepSeek-V4). */
static void resolve_ratio(struct bb_layers *l, int index)
{
    static const int ratios[BB_RATIOS] = {0, BB_ARCH_SPARSE_RATIO, BB_ARCH_HEAVY_RATIO};
    const struct bb_arch *a = l->config.arch;
    const int ratio = ratios[index], sequence = l->config.sequence;
    struct bb_layer_sizes *s = &l->ratio_sizes[index];

    *s = l->sizes;
    s->streams = a->streams;
    s->ratio = ratio;
    s->compressed = bb_arch_compressed_keys(a, ratio, sequence);
    s->keys = MIN(a->window, sequence) + s->compressed;
    s->index_heads = bb_arch_index_heads(a, ratio);
    s->compressor = bb_arch_compressor_width(ratio, a->kv_lora);
    s->index_compressor = s->index_heads ? bb_arch_compressor_width(ratio, a->index_dim) : 0;
    s->out_groups = a->out_groups / l->config.tp;
    s->out_lora = a->out_lora;
}

/* Returns the number of rows (token copies) that a rank sends to each node with dedup dispatch: tokens times the expected
 * number of nodes with an expert of the token, divided by the number of nodes. A token chooses M nodes (node_limit, or all),
 * then its K experts among the M E experts of these nodes, each with the same probability: M (1 - C(M E - E, K) / C(M E, K))
 * nodes. DeepSeek-V3 with 4 of 8 nodes: 3.63, as DeepEP's test (see node_dispatch.c). The number is rounded, to 1 or more,
 * above 16 chunks to full chunks. */
static int64_t rows_per_node(const struct bb_layers_config *c, int64_t tokens)
{
    const int of = c->node_limit ? c->node_limit : c->nodes, experts = c->arch->experts / c->nodes;
    double missed = 1; /* probability that no expert of the token is on a node that it chose */
    int64_t rows;

    for (int i = 0; i < c->arch->top_k && missed > 0; i++) /* 0 before validate_dedup rejects too few experts, too */
        missed *= MAX((of - 1.0) * experts - i, 0) / ((double)of * experts - i);
    rows = llround(fmax((double)tokens * of * (1 - missed) / c->nodes, 1));
    if (rows > 16 * BB_NODE_DISPATCH_CHUNKS)
        rows = (rows + BB_NODE_DISPATCH_CHUNKS / 2) / BB_NODE_DISPATCH_CHUNKS * BB_NODE_DISPATCH_CHUNKS;
    return rows;
}

static void resolve_sizes(struct bb_layers *l)
{
    const struct bb_layers_config *c = &l->config;
    const struct bb_arch *a = c->arch;
    struct bb_layer_sizes *s = &l->sizes;

    l->sequence_sharded = c->sequence_parallel && c->tp > 1;
    *s = (struct bb_layer_sizes){.dtype = c->dtype,
                                 .hidden = a->hidden,
                                 .moe_latent = a->moe_latent,
                                 .tokens = (int64_t)c->micro_batch_size * c->sequence / c->cp,
                                 .batch = c->micro_batch_size,
                                 .mtp_width = a->hidden / c->tp,
                                 .ffn = a->ffn / c->tp,
                                 .vocab = (a->vocab + c->tp - 1) / c->tp,
                                 .experts = a->experts,
                                 .local_experts = a->experts / c->ep,
                                 .expert_ffn = a->expert_ffn / c->etp,
                                 .shared_ffn = a->shared_ffn / c->tp,
                                 .top_k = a->top_k,
                                 .dropless = c->capacity_factor <= 0,
                                 .graph_modules = c->graph_modules,
                                 .sorts_rows = c->capacity_factor > 0 && c->dispatch == BB_DISPATCH_ALL_TO_ALL &&
                                               c->ep > 1 && a->experts > c->ep,
                                 .gated = a->gated,
                                 .out_gate = a->out_gate,
                                 .qkv_bias = a->qkv_bias,
                                 .out_bias = a->out_bias,
                                 .mlp_bias = a->mlp_bias,
                                 .expert_bias = a->expert_bias,
                                 .causal = !a->post_norm && !a->bidirectional,
                                 .rotary = !a->learned_positions && !a->no_positions && a->position_buckets == 0,
                                 .dropout = a->dropout,
                                 .unfused = c->unfused,
                                 .fuses_sums = c->fuses_sums,
                                 .lora_rank = a->lora_rank,
                                 .qkv_adapters = bb_arch_adapters(a, true),
                                 .up_adapters = bb_arch_adapters(a, false),
                                 .lora_attention = a->lora_attention,
                                 .shared_adapters = a->lora_experts < a->experts,
                                 .precision = c->precision,
                                 .repeated_share = 1.0 / c->tp};
    s->vocab_share = (double)a->vocab / ((double)s->vocab * c->tp);
    s->local_tokens = l->sequence_sharded ? s->tokens / c->tp : s->tokens;
    s->rows_routed = s->local_tokens * a->top_k;
    s->rows_sent = c->dispatch == BB_DISPATCH_DEDUP ? rows_per_node(c, s->local_tokens) * c->nodes : s->rows_routed;
    resolve_attention(s, c);
    resolve_decoder(l);
    l->boundary_elements = (size_t)(MAX(s->local_tokens, l->decoder_sizes.local_tokens) * s->hidden);
    l->full_elements = (size_t)(MAX(s->tokens, l->decoder_sizes.tokens) * s->hidden);
    l->kv_block = (size_t)(s->tokens * s->kv_heads * (s->key_dim + s->value_dim));
    l->window_sizes = *s;
    if (a->window > 0 && a->window < c->sequence)
        l->window_sizes.keys = a->window;
    l->scan_sizes = *s;
    if (a->scan.heads > 0)
        resolve_scan(&l->scan_sizes, c);
    for (int i = 0; i < BB_RATIOS && a->streams; i++)
        resolve_ratio(l, i);
}

const struct bb_layer_sizes *bb_layers_sizes(const struct bb_layers *l, int layer)
{
    const struct bb_layers_config *c = &l->config;

    if (layer >= 0 && bb_arch_is_decoder(c->arch, layer))
        return &l->decoder_sizes;
    if (layer >= 0 && bb_arch_is_scan(c->arch, layer))
        return &l->scan_sizes;
    if (layer >= 0 && c->arch->streams)
        return &l->ratio_sizes[(bb_arch_ratio(c->arch, layer) > 0) +
                               (bb_arch_ratio(c->arch, layer) == BB_ARCH_HEAVY_RATIO)];
    return layer >= 0 && bb_arch_attended_keys(c->arch, layer, c->sequence) < c->sequence ? &l->window_sizes
                                                                                          : &l->sizes;
}

/* ---- validation ---- */

/* Validates dedup dispatch: the nodes to which a token is sent must exist and hold at least top_k experts, and each rank
 * must get the same number of rows (token copies). */
static int validate_dedup(const struct bb_layers *l, const char *proxy)
{
    const struct bb_layers_config *c = &l->config;

    if (c->dispatch != BB_DISPATCH_DEDUP)
        return 0;
    if (c->node_limit > c->nodes)
        return bb_err(BB_EUSAGE, "%s: --moe-node-limit %d does not apply: the experts are on %d nodes; leave it out",
                      proxy, c->node_limit, c->nodes);
    if (c->node_limit > 0 && c->node_limit * (c->arch->experts / c->nodes) < c->arch->top_k)
        return bb_err(
            BB_EUSAGE,
            "%s: --moe-node-limit %d: a token chooses %d experts, but a node holds %d; try: --moe-node-limit %d", proxy,
            c->node_limit, c->arch->top_k, c->arch->experts / c->nodes,
            (c->arch->top_k * c->nodes + c->arch->experts - 1) / c->arch->experts);
    if (l->routing.uniform_rows < 0)
        return bb_err(
            BB_EUSAGE,
            "%s: --moe-dispatch dedup requires equal row counts for %d ranks, impossible with %lld tokens per "
            "rank%s; try: --moe-dispatch alltoall%s",
            proxy, c->ep, (long long)l->sizes.local_tokens, c->imbalance > 0 ? " and --moe-imbalance" : "",
            c->node_limit ? " without --moe-node-limit" : "");
    return 0;
}

/* Checks three limits that bb_grid_validate_model, which checks divisibility, does not know: the number of tokens in a
 * micro-batch, because row counts have type int; experts with tp; and ring attention for layers with a sliding window,
 * because a ring sends every block of keys to every rank, and the ring's attention kernels have no window. */
int bb_layers_validate(const struct bb_layers_config *c, const char *proxy)
{
    const struct bb_arch *a = c->arch;
    long long tokens = (long long)c->micro_batch_size * c->sequence, max = INT_MAX / (a->top_k ? a->top_k : 1);
    bool too_long = c->sequence > max;

    if (tokens > max)
        return bb_err(BB_EUSAGE, "%s: a micro-batch has %lld tokens, at most %lld are supported; try: --%s %lld", proxy,
                      tokens, max, too_long ? "seq-length" : "micro-batch-size", too_long ? max : max / c->sequence);
    if (a->experts > 0 && c->tp > 1 && !c->sequence_parallel)
        return bb_err(BB_EUSAGE,
                      "%s: experts with tp %d require sequence parallelism, else all tp ranks send the same tokens; "
                      "try: --sequence-parallel",
                      proxy, c->tp);
    if (a->streams && (c->cp > 1 || (c->tp > 1 && (a->mtp > 0 || a->out_groups % c->tp != 0))))
        return bb_err(BB_EUSAGE, "%s: layers of '%s' support %s; try: %s", proxy, a->name,
                      c->cp > 1    ? "no context parallelism, which would have to exchange compressed keys"
                      : a->mtp > 0 ? "multi-token prediction only without tensor parallelism"
                                   : "only tensor parallelism that divides o_groups",
                      c->cp > 1 ? "--cp 1" : "--tp 1");
    if (c->cp > 1 && c->context == BB_CONTEXT_RING && a->window > 0 && a->window < c->sequence)
        return bb_err(BB_EUSAGE,
                      "%s: ring attention with cp %d computes all %d keys for each query, but layers of '%s' have a "
                      "window of %d; try: --cp-comm all_gather",
                      proxy, c->cp, c->sequence, a->name, a->window);
    return 0;
}

/* ---- creation and release ---- */

void bb_layers_store_row_counts(struct bb_layers *l)
{
    const size_t each = (size_t)l->config.ep * (size_t)l->config.ep;

    if (!l->routing.rows)
        return;
    BB_NEW(l->row_counts, l->routing.config.layers);
    for (int layer = 0; layer < l->routing.config.layers; layer++) {
        struct bb_alltoallv *table = bb_step_add_alltoallv_table(l->step, l->config.ep);

        memcpy(table->rows, l->routing.rows + (size_t)layer * each, each * sizeof(*table->rows));
        l->row_counts[layer] = table;
    }
}

int bb_layers_new(struct bb_layers **layers, const struct bb_layers_config *config, struct bb_step *step)
{
    struct bb_layers *l;
    int first, n = bb_arch_mtp_layers(config->arch, &first), rc;

    *layers = NULL;
    TRY(bb_layers_validate(config, step->proxy));
    BB_NEW(l, 1);
    *layers = l;
    *l = (struct bb_layers){.config = *config, .step = step};
    resolve_sizes(l);
    if (config->arch->experts)
        bb_routing_init(&l->routing,
                        &(struct bb_routing_config){.tokens = (int)l->sizes.local_tokens,
                                                    .top_k = config->arch->top_k,
                                                    .experts = config->arch->experts,
                                                    .ranks = config->ep,
                                                    .layers = first + n,
                                                    .balanced = config->arch->hash_layers,
                                                    .capacity_factor = config->capacity_factor,
                                                    .imbalance = config->imbalance,
                                                    .load = config->load,
                                                    .seed = config->seed},
                        config->shares);
    TRY(validate_dedup(l, step->proxy));
    return 0;
out:
    bb_layers_free(*layers);
    *layers = NULL;
    return rc;
}

void bb_layers_free(struct bb_layers *layers)
{
    if (layers) {
        bb_routing_release(&layers->routing);
        free(layers->kernel_lists);
        free(layers->row_counts);
    }
    free(layers);
}

/* ---- number of programs, element counts, FLOPs ---- */

/* If the experts of different ep ranks receive different numbers of rows (token copies), each ep rank needs its own
 * program. With all_gather dispatch all ranks exchange equal messages, but their experts compute for different
 * times, so each ep rank needs its own program, too. */
double bb_layers_expert_load(const struct bb_layers *l, int layer, int ep_rank)
{
    const struct bb_routing *r = &l->routing;

    return r->rows ? (double)bb_routing_received(r, layer, ep_rank) / ((double)r->config.tokens * r->config.top_k) : 1;
}

int bb_layers_programs_per_stage(const struct bb_layers *l)
{
    return l->routing.rows ? l->config.ep : 1;
}

size_t bb_layers_boundary_elements(const struct bb_layers *l)
{
    return l->boundary_elements * (size_t)bb_arch_streams(l->config.arch);
}

size_t bb_layers_replicated_elements(const struct bb_layers *l, int layer)
{
    const struct bb_layers_config *c = &l->config;

    if (layer == BB_ARCH_EMBEDDING) /* no partial sums: the backward pass of the embedding gathers the gradients of
                                       all tokens first */
        return 0;
    const struct bb_arch trained = bb_arch_trained(c->arch);

    return l->sequence_sharded || (c->arch->lora_rank && c->tp > 1)
               ? bb_arch_layer_share(&trained, layer, c->tp, c->etp, c->ep).replicated
               : 0;
}

int64_t bb_layers_balanced_rows(const struct bb_layers *l)
{
    return l->sizes.local_tokens * l->sizes.top_k * l->config.etp;
}

bool bb_layers_shards_latents(const struct bb_layers *l, int layer)
{
    const struct bb_layer_sizes *s = bb_layers_sizes(l, layer);

    return l->sequence_sharded && s->kv_lora > 0 && s->streams == 0;
}

double bb_layers_flops(const struct bb_layers *l, int layer)
{
    const struct bb_arch *a = l->config.arch;
    const bool crosses = bb_arch_is_decoder(a, layer), expert = bb_arch_has_experts(a, layer);
    const bool dense = !expert && bb_arch_has_mlp(a, layer), mixes = bb_arch_has_mixer(a, layer);
    const bool latent = mixes && bb_layers_shards_latents(l, layer);
    const struct {
        bool applies;
        enum bb_kernels_kind kind;
    } rows[] = {
        {mixes && !latent, BB_KERNELS_QKV}, {latent, BB_KERNELS_LATENT_DOWN}, {latent, BB_KERNELS_LATENT_UP},
        {latent, BB_KERNELS_INDEX},         {mixes, BB_KERNELS_CORE},         {mixes, BB_KERNELS_OUT},
        {crosses, BB_KERNELS_CROSS_QUERY},  {crosses, BB_KERNELS_CROSS_KEYS}, {crosses, BB_KERNELS_CROSS_CORE},
        {crosses, BB_KERNELS_OUT},          {expert, BB_KERNELS_ROUTER},      {expert, BB_KERNELS_EXPERTS},
        {expert, BB_KERNELS_SHARED_UP},     {expert, BB_KERNELS_SHARED_DOWN}, {expert, BB_KERNELS_LATENT_IN},
        {expert, BB_KERNELS_LATENT_OUT},    {dense, BB_KERNELS_UP},           {dense, BB_KERNELS_DOWN},
    };
    struct bb_kernel_groups c = {.rows = bb_layers_balanced_rows(l)};

    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++)
        if (rows[i].applies)
            bb_kernel_groups_add(&c, rows[i].kind, BB_KERNELS_FORWARD);
    return bb_kernel_groups_flops(bb_layers_sizes(l, layer), &c);
}
