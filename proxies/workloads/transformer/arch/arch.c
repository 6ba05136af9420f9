/*
 * arch.c - lists the tensors of a transformer, and computes its parameter counts and FLOPs (see arch.h; arch_load.c
 * reads the files).
 *
 * The names of the tensors are busbar's own. Their order is that of the published implementations (Hugging Face
 * transformers); data-parallel buckets are filled in the reverse of this order.
 */
#include "proxies/workloads/transformer/arch/arch.h"

#include <math.h>
#include <string.h>

enum {
    WHOLE = 0,
    SPLIT = 1,  /* sharded over tp */
    EXPERT = 2, /* sharded over ep */
    ROWS = 4,   /* sharded over tp by rows, one row per vocabulary token */
    INPUT = 8,  /* adapters: tp shards the columns of the adapted weight, not (SPLIT) its rows */
};

struct tensor_list {
    struct bb_arch_tensor *out;
    int n;
};

static void put_tensor(struct tensor_list *l, const char *name, size_t rows, size_t columns, unsigned sharding)
{
    if (rows > 0 && columns > 0)
        l->out[l->n++] = (struct bb_arch_tensor){.name = name,
                                                 .count = rows * columns,
                                                 .tensor_split = (sharding & (SPLIT | ROWS)) != 0,
                                                 .expert = (sharding & EXPERT) != 0,
                                                 .rows = sharding & ROWS ? rows : 0};
}

static void put_norm(struct tensor_list *l, const struct bb_arch *a, const char *weight, const char *bias)
{
    put_tensor(l, weight, (size_t)a->hidden, 1, WHOLE);
    if (a->layer_norm)
        put_tensor(l, bias, (size_t)a->hidden, 1, WHOLE);
}

/* Adds norm number nth ('1' to '4', as in bb_arch.order, the order string of the model). */
static void put_layer_norm(struct tensor_list *l, const struct bb_arch *a, char nth)
{
    static const char *const names[][2] = {{"norm1.weight", "norm1.bias"},
                                           {"norm2.weight", "norm2.bias"},
                                           {"norm3.weight", "norm3.bias"},
                                           {"norm4.weight", "norm4.bias"}};
    int i = nth - '1';

    if (a->norms == 0 || i < a->norms)
        put_norm(l, a, names[i][0], names[i][1]);
}

/* ---- attention ---- */

static void put_attention(struct tensor_list *l, const struct bb_arch *a)
{
    size_t h = (size_t)a->hidden, q = (size_t)a->heads * (size_t)a->head_dim;
    size_t kv = (size_t)a->kv_heads * (size_t)a->head_dim;

    if (a->fused_qkv) {
        put_tensor(l, "attention.qkv.weight", q + 2 * kv, h, SPLIT);
        put_tensor(l, "attention.qkv.bias", q + 2 * kv, a->qkv_bias, SPLIT);
    } else {
        put_tensor(l, "attention.query.weight", q * (a->out_gate ? 2 : 1), h, SPLIT);
        put_tensor(l, "attention.query.bias", q * (a->out_gate ? 2 : 1), a->qkv_bias, SPLIT);
        put_tensor(l, "attention.key.weight", kv, h, SPLIT);
        put_tensor(l, "attention.key.bias", kv, a->qkv_bias, SPLIT);
        put_tensor(l, "attention.value.weight", kv, h, SPLIT);
        put_tensor(l, "attention.value.bias", kv, a->qkv_bias, SPLIT);
    }
    put_tensor(l, "attention.out.weight", h, q, SPLIT);
    put_tensor(l, "attention.out.bias", h, a->out_bias, WHOLE);
    put_tensor(l, "attention.sinks", (size_t)a->heads, a->sinks, SPLIT);
    put_tensor(l, "attention.query_norm.weight", a->qk_norm_wide ? q : (size_t)a->head_dim,
               a->qk_norm || a->qk_norm_wide, a->qk_norm_wide ? SPLIT : WHOLE);
    put_tensor(l, "attention.key_norm.weight", a->qk_norm_wide ? kv : (size_t)a->head_dim,
               a->qk_norm || a->qk_norm_wide, a->qk_norm_wide ? SPLIT : WHOLE);
    put_tensor(l, "attention.query_norm.bias", (size_t)a->head_dim, a->qk_norm && a->layer_norm, WHOLE);
    put_tensor(l, "attention.key_norm.bias", (size_t)a->head_dim, a->qk_norm && a->layer_norm, WHOLE);
}

/* Cross attention: queries from the decoder's tokens, keys and values from the encoder's output. */
static void put_cross_attention(struct tensor_list *l, const struct bb_arch *a)
{
    size_t h = (size_t)a->hidden, q = (size_t)a->heads * (size_t)a->head_dim;
    size_t kv = (size_t)a->kv_heads * (size_t)a->head_dim;

    put_tensor(l, "cross.query.weight", q, h, SPLIT);
    put_tensor(l, "cross.key.weight", kv, h, SPLIT);
    put_tensor(l, "cross.value.weight", kv, h, SPLIT);
    put_tensor(l, "cross.out.weight", h, q, SPLIT);
}

/* Compressor (DeepSeek-V4), which makes a key of `ratio` tokens: a weighted sum of their projections, the weights of which
 * depend on the position. With the smaller ratio a key is made of twice as many tokens, with projections of their own. */
static void put_compressor(struct tensor_list *l, const struct bb_arch *a, const char *const names[4], int ratio,
                           int dim)
{
    size_t h = (size_t)a->hidden, width = (size_t)bb_arch_compressor_width(ratio, dim);

    put_tensor(l, names[0], width, h, WHOLE);
    put_tensor(l, names[1], width, h, WHOLE);
    put_tensor(l, names[2], width, (size_t)ratio, WHOLE);
    put_tensor(l, names[3], ratio ? (size_t)dim : 0, 1, WHOLE);
}

/* Indexer of sparse attention (DeepSeek-V3.2), which scores every key for every query with a few small heads. Every
 * tp rank holds the whole indexer. Its keys may be compressed. */
static void put_indexer(struct tensor_list *l, const struct bb_arch *a, int ratio)
{
    static const char *const names[] = {"attention.index.key.weight", "attention.index.gate.weight",
                                        "attention.index.positions", "attention.index.key_norm.weight"};
    size_t h = (size_t)a->hidden, heads = (size_t)bb_arch_index_heads(a, ratio), dim = (size_t)a->index_dim;
    size_t width = heads && !ratio ? dim : 0;

    put_tensor(l, "attention.index.query.weight", heads * dim, (size_t)a->q_lora, WHOLE);
    put_compressor(l, a, names, heads ? ratio : 0, a->index_dim);
    put_tensor(l, "attention.index.key.weight", width, h, WHOLE);
    put_tensor(l, "attention.index.key_norm.weight", width, 1, WHOLE);
    put_tensor(l, "attention.index.key_norm.bias", width, 1, WHOLE);
    put_tensor(l, "attention.index.weights.weight", heads, h, WHOLE);
}

/* Multi-head latent attention: small down projections, which every tp rank holds in full, then up projections per
 * head. */
static void put_latent_attention(struct tensor_list *l, const struct bb_arch *a, int ratio)
{
    static const char *const names[] = {"attention.compressor.key.weight", "attention.compressor.gate.weight",
                                        "attention.compressor.positions", "attention.compressor.norm.weight"};
    size_t h = (size_t)a->hidden, heads = (size_t)a->heads, latent = (size_t)a->kv_lora, q = (size_t)a->q_lora;
    size_t key = (size_t)(a->nope_dim + a->rope_dim), down = latent + (a->streams ? 0 : (size_t)a->rope_dim);
    size_t grouped = (size_t)a->out_groups * (size_t)a->out_lora;

    put_tensor(l, "attention.query_down.weight", q, h, WHOLE);
    put_tensor(l, "attention.query_down.bias", q, a->qkv_bias, WHOLE);
    put_tensor(l, "attention.query_norm.weight", q, 1, WHOLE);
    put_tensor(l, "attention.query_up.weight", heads * key, q ? q : h, SPLIT);
    put_tensor(l, "attention.kv_down.weight", down, h, WHOLE);
    put_tensor(l, "attention.kv_down.bias", down, a->qkv_bias, WHOLE);
    put_tensor(l, "attention.kv_norm.weight", latent, 1, WHOLE);
    put_tensor(l, "attention.kv_up.weight", a->streams ? 0 : heads * (size_t)(a->nope_dim + a->v_dim), latent, SPLIT);
    put_tensor(l, "attention.out_groups.weight", grouped, grouped ? heads * (size_t)(a->v_dim / a->out_groups) : 0,
               SPLIT);
    put_tensor(l, "attention.out.weight", h, grouped ? grouped : heads * (size_t)a->v_dim, SPLIT);
    put_tensor(l, "attention.out.bias", h, a->out_bias, WHOLE);
    put_tensor(l, "attention.sinks", heads, a->sinks, SPLIT);
    put_compressor(l, a, names, ratio, a->kv_lora);
    put_indexer(l, a, ratio);
}

/* Adds the tensors of a selective scan (Mamba 1), in which the step sizes, keys and queries of all channels are
 * projected from the output of the convolution, as Jamba normed. */
static void put_selective_scan(struct tensor_list *l, const struct bb_arch *a)
{
    const struct bb_arch_scan *s = &a->scan;
    size_t h = (size_t)a->hidden, width = (size_t)s->heads, state = (size_t)s->key_dim, rank = (size_t)s->step_rank;

    put_tensor(l, "scan.decay", width, state, SPLIT);
    put_tensor(l, "scan.skip", width, 1, SPLIT);
    put_tensor(l, "scan.convolution.weight", width, (size_t)s->conv, SPLIT);
    put_tensor(l, "scan.convolution.bias", width, s->conv_bias, SPLIT);
    put_tensor(l, "scan.in.weight", 2 * width, h, SPLIT);
    put_tensor(l, "scan.in.bias", 2 * width, s->bias, SPLIT);
    put_tensor(l, "scan.parameters.weight", rank + 2 * state, width, SPLIT);
    put_tensor(l, "scan.steps.weight", width, rank, SPLIT);
    put_tensor(l, "scan.steps.bias", width, 1, SPLIT);
    put_tensor(l, "scan.out.weight", h, width, SPLIT);
    put_tensor(l, "scan.out.bias", h, s->bias, WHOLE);
    put_tensor(l, "scan.norms.weight", rank + 2 * state, 1, WHOLE);
}

/* Adds the tensors of a scan layer (state-space or linear attention: Mamba 2, Gated DeltaNet). For each head,
 * `decay` determines how fast the state decays, and `step_bias` how much of each token is added to the state. */
static void put_scan(struct tensor_list *l, const struct bb_arch *a)
{
    const struct bb_arch_scan *s = &a->scan;
    size_t h = (size_t)a->hidden, heads = (size_t)s->heads, values = heads * (size_t)s->value_dim;
    /* elements of the queries, keys and values of one token, which are the input of the convolution */
    size_t mixed = 2 * (size_t)s->groups * (size_t)s->key_dim + values;

    if (s->step_rank) {
        put_selective_scan(l, a);
        return;
    }
    put_tensor(l, "scan.step_bias", heads, 1, SPLIT);
    put_tensor(l, "scan.decay", heads, 1, SPLIT);
    put_tensor(l, "scan.skip", heads, !s->delta, SPLIT);
    put_tensor(l, "scan.convolution.weight", mixed, (size_t)s->conv, SPLIT);
    put_tensor(l, "scan.convolution.bias", mixed, s->conv_bias, SPLIT);
    put_tensor(l, "scan.in.weight", mixed + values + (s->delta ? 0 : heads), h, SPLIT);
    put_tensor(l, "scan.in.bias", mixed + values + (s->delta ? 0 : heads), s->bias, SPLIT);
    put_tensor(l, "scan.steps.weight", s->delta ? 2 * heads : 0, h, SPLIT);
    put_tensor(l, "scan.norm.weight", s->delta ? (size_t)s->value_dim : values, 1, s->delta ? WHOLE : SPLIT);
    put_tensor(l, "scan.out.weight", h, values, SPLIT);
    put_tensor(l, "scan.out.bias", h, s->bias, WHOLE);
}

static void put_any_attention(struct tensor_list *l, const struct bb_arch *a, int layer)
{
    if (bb_arch_is_scan(a, layer))
        put_scan(l, a);
    else if (a->kv_lora)
        put_latent_attention(l, a, bb_arch_ratio(a, layer));
    else
        put_attention(l, a);
}

/* ---- MLP and experts ---- */

static void put_mlp(struct tensor_list *l, const struct bb_arch *a)
{
    size_t h = (size_t)a->hidden, f = (size_t)a->ffn;

    if (a->gated)
        put_tensor(l, "mlp.gate.weight", f, h, SPLIT);
    if (a->gated)
        put_tensor(l, "mlp.gate.bias", f, a->mlp_bias, SPLIT);
    put_tensor(l, "mlp.up.weight", f, h, SPLIT);
    put_tensor(l, "mlp.up.bias", f, a->mlp_bias, SPLIT);
    put_tensor(l, "mlp.down.weight", h, f, SPLIT);
    put_tensor(l, "mlp.down.bias", h, a->mlp_bias, WHOLE);
}

static void put_experts(struct tensor_list *l, const struct bb_arch *a, int layer)
{
    size_t h = (size_t)a->hidden, all = (size_t)a->experts * (size_t)a->expert_ffn, f = (size_t)a->shared_ffn;
    size_t latent = (size_t)a->moe_latent, in = latent ? latent : h;

    put_tensor(l, "router.weight", (size_t)a->experts, h, WHOLE);
    put_tensor(l, "router.bias", (size_t)a->experts, a->router_bias && layer >= a->hash_layers, WHOLE);
    put_tensor(l, "experts.gate.weight", a->gated ? all : 0, in, SPLIT | EXPERT);
    put_tensor(l, "experts.gate.bias", a->gated ? all : 0, a->expert_bias, SPLIT | EXPERT);
    put_tensor(l, "experts.up.weight", all, in, SPLIT | EXPERT);
    put_tensor(l, "experts.up.bias", all, a->expert_bias, SPLIT | EXPERT);
    put_tensor(l, "experts.down.weight", all, in, SPLIT | EXPERT);
    put_tensor(l, "experts.down.bias", (size_t)a->experts * h, a->expert_bias, EXPERT);
    put_tensor(l, "latent.down.weight", latent, h, WHOLE);
    put_tensor(l, "latent.up.weight", latent, h, WHOLE);
    put_tensor(l, "shared.gate.weight", a->gated ? f : 0, h, SPLIT);
    put_tensor(l, "shared.up.weight", f, h, SPLIT);
    put_tensor(l, "shared.down.weight", h, f, SPLIT);
    put_tensor(l, "shared.weight", h, a->shared_gate, WHOLE);
}

/* ---- layers ---- */

/* Hyper-connections: a projection of all residual streams of a token to `mixed` numbers, with which the streams are summed
 * up and mixed; a bias; and a factor of each of `scales` kinds of numbers. */
static void put_streams(struct tensor_list *l, const struct bb_arch *a, const char *const names[3], int mixed,
                        int scales)
{
    put_tensor(l, names[0], (size_t)mixed, (size_t)(a->streams * a->hidden), WHOLE);
    put_tensor(l, names[1], (size_t)mixed, 1, WHOLE);
    put_tensor(l, names[2], a->streams ? (size_t)scales : 0, 1, WHOLE);
}

static void put_last_streams(struct tensor_list *l, const struct bb_arch *a)
{
    static const char *const names[] = {"last_streams.weight", "last_streams.bias", "last_streams.scale"};

    put_streams(l, a, names, a->streams, 1);
}

static void put_layer(struct tensor_list *l, const struct bb_arch *a, int layer)
{
    const bool encodes = a->encoder_layers > 0 && !bb_arch_is_decoder(a, layer);
    /* The first layer of the encoder holds the table of relative position biases (T5) that all encoder layers use, the
     * first layer of the decoder that of all decoder layers. */
    const bool has_positions = layer == 0 || layer == a->encoder_layers;
    static const char *const names[2][3] = {
        {"attention.streams.weight", "attention.streams.bias", "attention.streams.scale"},
        {"mlp.streams.weight", "mlp.streams.bias", "mlp.streams.scale"}};

    for (const char *part = a->order ? a->order : "am12"; *part; part++) {
        if ((encodes && (*part == 'c' || *part == '3')) || (*part == 'a' && !bb_arch_has_mixer(a, layer)) ||
            (*part == 'm' && !bb_arch_has_mlp(a, layer)))
            continue;
        if (*part == 'c')
            put_cross_attention(l, a);
        else if (*part == 'a')
            put_any_attention(l, a, layer);
        else if (*part != 'm')
            put_layer_norm(l, a, *part);
        else if (bb_arch_has_experts(a, layer))
            put_experts(l, a, layer);
        else
            put_mlp(l, a);
        if (*part == 'a')
            put_tensor(l, "attention.positions", has_positions ? (size_t)a->position_buckets : 0, (size_t)a->heads,
                       SPLIT);
    }
    if (encodes && layer == a->encoder_layers - 1)
        put_norm(l, a, "encoder_norm.weight", "encoder_norm.bias");
    for (int i = 0; i < 2; i++)
        put_streams(l, a, names[i], a->streams * (a->streams + 2), 3);
}

static void put_embedding(struct tensor_list *l, const struct bb_arch *a)
{
    size_t h = (size_t)a->hidden;

    put_tensor(l, "embedding.word", (size_t)a->vocab, h, ROWS);
    put_tensor(l, "embedding.position", a->learned_positions ? (size_t)(a->sequence + a->extra_positions) : 0, h,
               WHOLE);
    put_tensor(l, "embedding.token_type", (size_t)a->token_types, h, WHOLE);
    if (a->embedding_norm)
        put_norm(l, a, "embedding.norm.weight", "embedding.norm.bias");
}

static void put_head(struct tensor_list *l, const struct bb_arch *a)
{
    size_t h = (size_t)a->hidden;

    put_last_streams(l, a);
    if (!a->post_norm)
        put_norm(l, a, "final_norm.weight", "final_norm.bias");
    put_tensor(l, "pooler.weight", a->post_norm ? h : 0, h, WHOLE);
    put_tensor(l, "pooler.bias", a->post_norm ? h : 0, 1, WHOLE);
    if (!a->tied)
        put_tensor(l, "head.weight", (size_t)a->vocab, h, ROWS);
}

static void put_mtp(struct tensor_list *l, const struct bb_arch *a)
{
    size_t h = (size_t)a->hidden;
    int first, n = bb_arch_mtp_layers(a, &first);

    put_norm(l, a, "mtp.embedding_norm.weight", "mtp.embedding_norm.bias");
    put_norm(l, a, "mtp.hidden_norm.weight", "mtp.hidden_norm.bias");
    put_tensor(l, "mtp.projection.weight", h, 2 * h, SPLIT);
    for (int layer = first; layer < first + n; layer++)
        put_layer(l, a, layer);
    put_last_streams(l, a);
    put_norm(l, a, "mtp.final_norm.weight", "mtp.final_norm.bias");
}

int bb_arch_adapters(const struct bb_arch *a, bool qkv)
{
    if (qkv && a->kv_lora)
        return a->q_lora ? 4 : 3;
    if (!a->lora_split || a->fused_qkv)
        return 1;
    return qkv ? 3 : a->gated ? 2 : 1;
}

#define ADAPTER(weight) weight ".adapter.in", weight ".adapter.out"

/* Adds the adapters of weights that have the same input of width `in`, together `out` rows, as one tensor for the first
 * matrices and one for the second. Tensor parallelism shards the side that it shards of the weight; every tp rank holds the
 * other matrix, so that the adapter has no communication. */
static void put_adapter(struct tensor_list *l, const struct bb_arch *a, const char *first, const char *second, int n,
                        size_t in, size_t out, unsigned sharding)
{
    const size_t rank = (size_t)a->lora_rank;

    put_tensor(l, first, out > 0 ? (size_t)n * rank : 0, in, (sharding & EXPERT) | (sharding & INPUT ? SPLIT : WHOLE));
    put_tensor(l, second, in > 0 ? out : 0, rank, sharding & (EXPERT | SPLIT));
}

static void put_attention_adapters(struct tensor_list *l, const struct bb_arch *a)
{
    const size_t h = (size_t)a->hidden, heads = (size_t)a->heads, latent = (size_t)a->kv_lora, q = (size_t)a->q_lora;
    const size_t key = (size_t)(a->nope_dim + a->rope_dim), head_dim = (size_t)a->head_dim;

    if (latent) { /* none of the indexer, whose choice of keys has no gradient */
        put_adapter(l, a, ADAPTER("attention.query_down"), 1, h, q, WHOLE);
        put_adapter(l, a, ADAPTER("attention.query_up"), 1, q ? q : h, heads * key, SPLIT);
        put_adapter(l, a, ADAPTER("attention.kv_down"), 1, h, latent + (size_t)a->rope_dim, WHOLE);
        put_adapter(l, a, ADAPTER("attention.kv_up"), 1, latent, heads * (size_t)(a->nope_dim + a->v_dim), SPLIT);
    } else {
        put_adapter(l, a, ADAPTER("attention.qkv"), bb_arch_adapters(a, true), h,
                    (heads + 2 * (size_t)a->kv_heads) * head_dim, SPLIT);
    }
    put_adapter(l, a, ADAPTER("attention.out"), 1, heads * (latent ? (size_t)a->v_dim : head_dim), h, INPUT);
}

static void put_adapters(struct tensor_list *l, const struct bb_arch *a, int layer)
{
    const bool routed = bb_arch_has_experts(a, layer);
    const int up = bb_arch_adapters(a, false), n = routed ? a->lora_experts : 0;
    const size_t h = (size_t)a->hidden, f = (size_t)(routed ? a->shared_ffn : a->ffn), wide = a->gated ? 2 : 1;
    const size_t each = (size_t)a->expert_ffn, experts = (size_t)n;

    put_attention_adapters(l, a);
    if (a->lora_attention)
        return;
    put_adapter(l, a, ADAPTER("experts.up"), n * up, h, experts * wide * each, SPLIT | EXPERT);
    put_adapter(l, a, ADAPTER("experts.down"), n, each, experts * h, INPUT | EXPERT);
    put_adapter(l, a, ADAPTER("mlp.up"), up, h, wide * f, SPLIT);
    put_adapter(l, a, ADAPTER("mlp.down"), 1, f, h, INPUT);
}

struct bb_arch bb_arch_trained(const struct bb_arch *arch)
{
    struct bb_arch trained = *arch;

    trained.adapters_only = arch->lora_rank > 0;
    return trained;
}

int bb_arch_tensors(const struct bb_arch *arch, int layer, struct bb_arch_tensor out[BB_ARCH_TENSORS])
{
    struct tensor_list l = {.out = out};

    if (arch->adapters_only && layer >= 0)
        put_adapters(&l, arch, layer);
    else if (arch->adapters_only)
        return 0;
    else if (layer == BB_ARCH_EMBEDDING)
        put_embedding(&l, arch);
    else if (layer == BB_ARCH_HEAD)
        put_head(&l, arch);
    else if (layer == BB_ARCH_MTP)
        put_mtp(&l, arch);
    else
        put_layer(&l, arch, layer);
    return l.n;
}

/* Returns the kind of a layer (bb_arch.kinds); 0: the model has no kinds. */
static char kind_of(const struct bb_arch *a, int layer)
{
    return layer >= a->layers && a->mtp_kinds[0] ? a->mtp_kinds[layer - a->layers]
           : a->kinds[0]                         ? a->kinds[layer % (int)strlen(a->kinds)]
                                                 : '\0';
}

/* The first layers of encoder and decoder and the last layer of the encoder have extra tensors. */
bool bb_arch_equal_layers(const struct bb_arch *a, int layer, int other)
{
    return a->encoder_layers == 0 && kind_of(a, layer) == kind_of(a, other) &&
           bb_arch_has_experts(a, layer) == bb_arch_has_experts(a, other) &&
           bb_arch_is_scan(a, layer) == bb_arch_is_scan(a, other) &&
           bb_arch_ratio(a, layer) == bb_arch_ratio(a, other) && (layer < a->hash_layers) == (other < a->hash_layers);
}

bool bb_arch_has_experts(const struct bb_arch *a, int layer)
{
    const char kind = kind_of(a, layer);

    return kind ? kind == 'E'
                : a->experts > 0 && layer >= a->dense_layers && (layer - a->moe_offset) % a->moe_every == 0;
}

int bb_arch_attended_keys(const struct bb_arch *a, int layer, int sequence)
{
    bool all = a->window == 0 || (a->window_every > 0 && (layer + 1) % a->window_every == 0);

    return (all || sequence < a->window ? sequence : a->window) +
           bb_arch_compressed_keys(a, bb_arch_ratio(a, layer), sequence);
}

int bb_arch_compressed_keys(const struct bb_arch *a, int ratio, int sequence)
{
    const int keys = ratio ? sequence / ratio : 0;

    return bb_arch_index_heads(a, ratio) && keys > a->index_top_k && ratio ? a->index_top_k : keys;
}

int bb_arch_ratio(const struct bb_arch *a, int layer)
{
    const int last = BB_ARCH_LISTED - 2 + layer % 2;

    return a->streams && layer >= 0 && layer < a->layers ? a->ratios[layer < BB_ARCH_LISTED ? layer : last] : 0;
}

int bb_arch_index_heads(const struct bb_arch *a, int ratio)
{
    return a->streams && ratio != BB_ARCH_SPARSE_RATIO ? 0 : a->index_heads;
}

int bb_arch_compressor_width(int ratio, int dim)
{
    return ratio == 0 ? 0 : ratio == BB_ARCH_SPARSE_RATIO ? 2 * dim : dim;
}

bool bb_arch_is_decoder(const struct bb_arch *a, int layer)
{
    return a->encoder_layers > 0 && layer >= a->encoder_layers;
}

bool bb_arch_is_scan(const struct bb_arch *a, int layer)
{
    const char kind = kind_of(a, layer);

    return kind ? kind == 'M'
                : a->scan.heads > 0 &&
                      (a->attention_every == 0 || (layer - a->attention_offset) % a->attention_every != 0);
}

bool bb_arch_has_mixer(const struct bb_arch *a, int layer)
{
    const char kind = kind_of(a, layer);

    return !kind || kind == 'M' || kind == '*';
}

bool bb_arch_has_mlp(const struct bb_arch *a, int layer)
{
    return kind_of(a, layer) ? !bb_arch_has_mixer(a, layer) : !a->order || strchr(a->order, 'm');
}

bool bb_arch_any(const struct bb_arch *a, enum bb_arch_part part)
{
    int first, last = a->mtp > 0 && a->mtp_kinds[0] ? a->layers + bb_arch_mtp_layers(a, &first) : a->layers;

    for (int i = 0; i < last; i++)
        if (part == BB_ARCH_ATTENTION ? bb_arch_has_mixer(a, i) && !bb_arch_is_scan(a, i)
                                      : bb_arch_has_mlp(a, i) && !bb_arch_has_experts(a, i))
            return true;
    return false;
}

int bb_arch_mtp_layers(const struct bb_arch *a, int *first)
{
    *first = a->mtp_kinds[0] || a->streams ? a->layers : a->layers - 1;
    return a->mtp_kinds[0] ? (int)strlen(a->mtp_kinds) : 1;
}

/*
 * Forward FLOPs of a scan layer (state-space or linear attention) for one sample. GEMMs of one head for one chunk of c
 * tokens, with keys of width n and values of width p:
 *   2 c c n        scores of queries and keys (Mamba 2: once per group of heads)
 *   2 c c p        product of scores and values
 *   2 c n p        update of the state
 *   2 c n p        product of queries and state
 * Gated DeltaNet adds:
 *   2 c c n        scores between the keys
 *   2 c c (n + p)  product of the inverse of these scores with keys and values
 *   2 c n p        product of keys and state
 */
static double scan_flops(const struct bb_arch_scan *s, int sequence)
{
    double c = sequence < s->chunk ? sequence : s->chunk, chunks = ceil(sequence / c), n = s->key_dim, p = s->value_dim;
    double state = 2 * c * n * p;

    if (s->step_rank)
        return 0;
    if (s->delta)
        return chunks * s->heads * (2 * (2 * c * c * n) + 2 * c * c * (n + p) + 2 * c * c * p + 3 * state);
    return chunks * (s->groups * 2 * c * c * n + s->heads * (2 * c * c * p + 2 * state));
}

/* Forward FLOPs of attention for one pair of a query and a key: scores and context of all heads. */
static double pair_flops(const struct bb_arch *a)
{
    return 2.0 * a->heads * (a->kv_lora ? a->nope_dim + a->rope_dim + a->v_dim : 2 * a->head_dim);
}

/* Products of all elements of the queries and keys of the indexer, for one sample. */
static double index_products(const struct bb_arch *a, int layer, double sequence)
{
    const int ratio = bb_arch_ratio(a, layer);

    return sequence * (ratio ? floor(sequence / ratio) : sequence) * bb_arch_index_heads(a, ratio) * a->index_dim;
}

double bb_arch_core_flops(const struct bb_arch *a, int layer, int sequence)
{
    double s = sequence;

    if (!bb_arch_has_mixer(a, layer))
        return 0;
    if (bb_arch_is_scan(a, layer))
        return scan_flops(&a->scan, sequence);
    return s * (bb_arch_attended_keys(a, layer, sequence) + (bb_arch_is_decoder(a, layer) ? s : 0)) * pair_flops(a) +
           2 * index_products(a, layer, sequence);
}

/* With a sliding window, only the first `keys` queries have masked keys, half of them on average; with selected compressed
 * keys, only the first keys * ratio queries. */
double bb_arch_masked_flops(const struct bb_arch *a, int layer, int sequence)
{
    const int ratio = bb_arch_ratio(a, layer);
    double compressed = bb_arch_compressed_keys(a, ratio, sequence);
    double keys = bb_arch_attended_keys(a, layer, sequence) - compressed;

    if (a->post_norm || a->bidirectional || !bb_arch_has_mixer(a, layer) || bb_arch_is_scan(a, layer) ||
        (a->encoder_layers > 0 && !bb_arch_is_decoder(a, layer)))
        return 0;
    return (keys * keys + compressed * compressed * ratio) / 2 * pair_flops(a) + index_products(a, layer, sequence);
}

/* ---- sums over tensors ---- */

size_t bb_arch_tensor_share(const struct bb_arch_tensor *t, int tp, int ep)
{
    size_t ways = t->tensor_split ? (size_t)tp : 1;

    if (t->rows)
        return (t->rows + ways - 1) / ways * (t->count / t->rows);
    return t->count / ways / (t->expert ? (size_t)ep : 1);
}

struct bb_arch_rank_parameters bb_arch_layer_share(const struct bb_arch *arch, int layer, int tp, int etp, int ep)
{
    struct bb_arch_tensor tensors[BB_ARCH_TENSORS];
    struct bb_arch_rank_parameters held = {0};
    int n = bb_arch_tensors(arch, layer, tensors);

    for (int i = 0; i < n; i++) {
        const struct bb_arch_tensor *t = &tensors[i];
        size_t share = bb_arch_tensor_share(t, t->expert ? etp : tp, ep);

        if (t->expert)
            held.expert += share;
        else
            held.dense += share;
        if (!t->tensor_split && !t->expert)
            held.replicated += share;
    }
    return held;
}

/* Number of parameters of a layer. counted_experts: number of experts to count in a layer with experts. */
static double count_layer_parameters(const struct bb_arch *arch, int layer, int counted_experts)
{
    struct bb_arch_tensor tensors[BB_ARCH_TENSORS];
    int n = bb_arch_tensors(arch, layer, tensors);
    double sum = 0;

    for (int i = 0; i < n; i++)
        sum +=
            tensors[i].expert ? (double)tensors[i].count / arch->experts * counted_experts : (double)tensors[i].count;
    return sum;
}

double bb_arch_layer_parameters(const struct bb_arch *arch, int layer)
{
    return count_layer_parameters(arch, layer, arch->experts);
}

/* Number of parameters of the model. counted_experts: number of experts to count in each layer with experts. */
static double count_parameters(const struct bb_arch *arch, int counted_experts)
{
    double sum = count_layer_parameters(arch, BB_ARCH_EMBEDDING, counted_experts) +
                 count_layer_parameters(arch, BB_ARCH_HEAD, counted_experts) +
                 arch->mtp * count_layer_parameters(arch, BB_ARCH_MTP, counted_experts);
    double count = 0;

    for (int layer = 0; layer < arch->layers; layer++) {
        if (layer == 0 || !bb_arch_equal_layers(arch, layer - 1, layer))
            count = count_layer_parameters(arch, layer, counted_experts);
        sum += count;
    }
    return sum;
}

double bb_arch_parameters(const struct bb_arch *arch)
{
    return count_parameters(arch, arch->experts);
}

double bb_arch_active(const struct bb_arch *arch)
{
    return count_parameters(arch, arch->top_k);
}
