/* layers.c - sizes of a rank's share, what cannot be divided, FLOPs (see layer.h). */
#include "proxies/transformer/layer/block.h"

#include "bootstrap/base/grow.h"

#include <limits.h>
#include <stdlib.h>

/* ---- sizes ---- */

static int at_least_1(int value)
{
    return value > 1 ? value : 1;
}

static void settle_attention(struct bb_layer_sizes *s, const struct bb_layers_config *c)
{
    const struct bb_arch *a = c->arch;
    bool latent = a->kv_lora > 0, by_heads = c->context == BB_CONTEXT_ALL_TO_ALL;

    s->heads = a->heads / c->tp;
    s->kv_heads = latent ? s->heads : at_least_1(a->kv_heads / c->tp);
    s->key_dim = latent ? a->nope_dim + a->rope_dim : a->head_dim;
    s->value_dim = latent ? a->v_dim : a->head_dim;
    s->q_lora = a->q_lora;
    s->kv_lora = a->kv_lora;
    s->nope_dim = a->nope_dim;
    s->rope_dim = a->rope_dim;
    s->keys = c->sequence;
    s->block_keys = c->sequence / c->cp;
    s->queries = by_heads ? c->sequence : c->sequence / c->cp;
    s->core_heads = by_heads ? s->heads / c->cp : s->heads;
}

static void settle_sizes(struct bb_layers *l)
{
    const struct bb_layers_config *c = &l->config;
    const struct bb_arch *a = c->arch;
    struct bb_layer_sizes *s = &l->sizes;

    l->scattered = c->sequence_parallel && c->tp > 1;
    *s = (struct bb_layer_sizes){.dtype = c->dtype,
                                 .hidden = a->hidden,
                                 .tokens = (int64_t)c->micro_batch_size * c->sequence / c->cp,
                                 .batch = c->micro_batch_size,
                                 .ffn = a->ffn / c->tp,
                                 .vocab = (a->vocab + c->tp - 1) / c->tp,
                                 .experts = a->experts,
                                 .local_experts = a->experts / c->ep,
                                 .expert_ffn = a->expert_ffn / c->etp,
                                 .shared_ffn = a->shared_ffn / c->tp,
                                 .top_k = a->top_k,
                                 .gated = a->gated,
                                 .qkv_bias = a->qkv_bias,
                                 .out_bias = a->out_bias,
                                 .mlp_bias = a->mlp_bias};
    s->held = l->scattered ? s->tokens / c->tp : s->tokens;
    settle_attention(s, c);
    l->held = (size_t)(s->held * s->hidden);
    l->whole = (size_t)(s->tokens * s->hidden);
    l->key_block = (size_t)(s->tokens * s->kv_heads * (s->key_dim + s->value_dim));
}

/* ---- what cannot be ---- */

/* The divisor of `value` that is nearest to `wanted`. */
static int nearest_divisor(int value, int wanted)
{
    int best = 1;

    for (int d = 1; d <= value; d++)
        if (value % d == 0 && abs(d - wanted) < abs(best - wanted))
            best = d;
    return best;
}

/* Who is building, and what. */
struct asked {
    const struct bb_layers_config *config;
    const char *proxy;
};

static int must_divide(const struct asked *q, const char *axis, int size, const char *what, int value)
{
    if (value % size == 0)
        return 0;
    return bb_err(BB_EUSAGE, "%s: --%s %d does not divide %d %s; nearest: --%s %d", q->proxy, axis, size, value, what,
                  axis, nearest_divisor(value, size));
}

static int refuse_attention(const struct asked *q)
{
    const struct bb_layers_config *c = q->config;
    const struct bb_arch *a = c->arch;
    bool by_heads = c->cp > 1 && c->context == BB_CONTEXT_ALL_TO_ALL;
    int kv_heads = a->kv_lora ? a->heads : a->kv_heads, rc;

    TRY(must_divide(q, "tp", c->tp, "heads", a->heads));
    if (kv_heads % c->tp && c->tp % kv_heads)
        TRY(must_divide(q, "tp", c->tp, "key and value heads", kv_heads));
    TRY(must_divide(q, "cp", c->cp, "tokens of a sample", c->sequence));
    if (c->sequence_parallel)
        TRY(must_divide(q, "tp", c->tp, "tokens of a context-parallel rank",
                        c->sequence / c->cp * c->micro_batch_size));
    if (by_heads)
        TRY(must_divide(q, "cp", c->cp, "heads of a tensor-parallel rank", a->heads / c->tp));
    if (by_heads)
        TRY(must_divide(q, "cp", c->cp, "key and value heads of a tensor-parallel rank", at_least_1(kv_heads / c->tp)));
out:
    return rc;
}

static int refuse_experts(const struct asked *q)
{
    const struct bb_layers_config *c = q->config;
    const struct bb_arch *a = c->arch;
    int rc = 0;

    if (a->experts == 0 && c->ep > 1)
        return bb_err(BB_EUSAGE, "%s: --ep %d: model '%s' has no experts; nearest: --ep 1", q->proxy, c->ep, a->name);
    if (a->experts == 0)
        return 0;
    if (c->tp > 1 && !c->sequence_parallel)
        return bb_err(BB_EUSAGE,
                      "%s: experts with --tp %d: every tensor-parallel rank would send the same tokens; "
                      "nearest: --sequence-parallel",
                      q->proxy, c->tp);
    TRY(must_divide(q, "ep", c->ep, "experts", a->experts));
    TRY(must_divide(q, "etp", c->etp, "columns of an expert", a->expert_ffn));
    TRY(must_divide(q, "tp", c->tp, "columns of the shared experts", a->shared_ffn));
out:
    return rc;
}

/* Rows of a micro-batch are counted in int. */
static int refuse_tokens(const struct asked *q)
{
    const struct bb_layers_config *c = q->config;
    long long tokens = (long long)c->micro_batch_size * c->sequence, most = INT_MAX / at_least_1(c->arch->top_k);
    bool too_long = c->sequence > most;

    if (tokens <= most)
        return 0;
    return bb_err(BB_EUSAGE, "%s: a micro-batch of %lld tokens, expected at most %lld; nearest: --%s %lld", q->proxy,
                  tokens, most, too_long ? "seq-length" : "micro-batch-size", too_long ? most : most / c->sequence);
}

static bool has_dense_layers(const struct bb_arch *a)
{
    for (int layer = 0; layer < a->layers; layer++)
        if (!bb_arch_has_experts(a, layer))
            return true;
    return false;
}

static int refuse_config(const struct asked *q)
{
    const struct bb_layers_config *c = q->config;
    int rc;

    TRY(refuse_tokens(q));
    TRY(refuse_attention(q));
    if (has_dense_layers(c->arch))
        TRY(must_divide(q, "tp", c->tp, "columns of the perceptron", c->arch->ffn));
    TRY(refuse_experts(q));
out:
    return rc;
}

/* ---- life ---- */

static int settle_routing(struct bb_layers *l)
{
    const struct bb_layers_config *c = &l->config;
    const struct bb_routing_config routing = {.tokens = (int)l->sizes.held,
                                              .top_k = c->arch->top_k,
                                              .experts = c->arch->experts,
                                              .ranks = c->ep,
                                              .layers = c->arch->layers,
                                              .capacity_factor = c->capacity_factor,
                                              .imbalance = c->imbalance,
                                              .seed = c->seed};

    return c->arch->experts ? bb_routing_init(&l->routing, &routing) : 0;
}

int bb_layers_new(struct bb_layers **layers, const struct bb_layers_config *config, struct bb_step *step)
{
    struct bb_layers *l;
    int rc;

    *layers = NULL;
    TRY(refuse_config(&(struct asked){config, step->proxy}));
    TRY(BB_NEW(l, 1));
    *layers = l;
    *l = (struct bb_layers){.config = *config, .step = step};
    settle_sizes(l);
    TRY(settle_routing(l));
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
        free(layers->listed);
    }
    free(layers);
}

/* ---- figures ---- */

/* Of all_gather dispatch, too, the computing of the experts differs between them. */
int bb_layers_variants(const struct bb_layers *l)
{
    return l->routing.rows ? l->config.ep : 1;
}

size_t bb_layers_message(const struct bb_layers *l)
{
    return l->held;
}

size_t bb_layers_replicated(const struct bb_layers *l, int layer)
{
    const struct bb_layers_config *c = &l->config;

    if (layer == BB_ARCH_EMBEDDING) /* its gradient is gathered first, so positions see that of every token */
        return 0;
    return l->scattered ? bb_arch_layer_share(c->arch, layer, c->tp, c->etp, c->ep).replicated : 0;
}

int64_t bb_layers_fair_rows(const struct bb_layers *l)
{
    return l->sizes.held * l->sizes.top_k * l->config.etp;
}

double bb_layers_flops(const struct bb_layers *l, int layer)
{
    struct bb_kernel_groups c = {.rows = bb_layers_fair_rows(l)};

    bb_kernel_groups_add(&c, BB_KERNELS_QKV, BB_KERNELS_FORWARD);
    bb_kernel_groups_add(&c, BB_KERNELS_CORE, BB_KERNELS_FORWARD);
    bb_kernel_groups_add(&c, BB_KERNELS_OUT, BB_KERNELS_FORWARD);
    if (!bb_arch_has_experts(l->config.arch, layer)) {
        bb_kernel_groups_add(&c, BB_KERNELS_UP, BB_KERNELS_FORWARD);
        bb_kernel_groups_add(&c, BB_KERNELS_DOWN, BB_KERNELS_FORWARD);
        return bb_kernel_groups_flops(&l->sizes, &c);
    }
    bb_kernel_groups_add(&c, BB_KERNELS_ROUTER, BB_KERNELS_FORWARD);
    bb_kernel_groups_add(&c, BB_KERNELS_EXPERTS, BB_KERNELS_FORWARD);
    bb_kernel_groups_add(&c, BB_KERNELS_SHARED_UP, BB_KERNELS_FORWARD);
    bb_kernel_groups_add(&c, BB_KERNELS_SHARED_DOWN, BB_KERNELS_FORWARD);
    return bb_kernel_groups_flops(&l->sizes, &c);
}
