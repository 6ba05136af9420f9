/* layer_kernels.c - GEMMs and memory-bound kernels of the sublayers of a layer (see layer_kernels.h). */
#include "proxies/workloads/transformer/layer/layer_kernels.h"

#define MAX_GEMMS 16 /* maximum number of GEMMs in the forward pass of one kind of computation (enum bb_kernels_kind) */

struct gemm {
    const char *name;
    struct bb_gemm_shape shape;
    int64_t experts;       /* number of experts whose rows the GEMM has; 1: no experts */
    bool activations_only; /* true: both operands are activations, so there is no weight gradient */
    bool frozen;           /* no weight gradient (LoRA) */
    bool wide;             /* one kernel, in the data type of the activations also with --gemm-precision */
    bool dense;            /* scores of the indexer, for all keys */
    double share;          /* fraction of the FLOPs that are model FLOPs; 0: all */
};

void bb_kernel_groups_add(struct bb_kernel_groups *c, enum bb_kernels_kind kind, enum bb_kernels_pass pass)
{
    if (c->n < BB_KERNEL_GROUPS)
        c->list[c->n++] = (struct bb_kernels){kind, pass, 1};
}

void bb_kernel_groups_add_backward(struct bb_kernel_groups *c, enum bb_kernels_kind kind, bool with_weights)
{
    bb_kernel_groups_add(c, kind, BB_KERNELS_DATA);
    if (with_weights)
        bb_kernel_groups_add(c, kind, BB_KERNELS_WEIGHTS);
}

/* ---- GEMMs ---- */

/* Returns the GEMM of a linear layer: (rows x in) to (rows x out). With several experts, returns a batched GEMM with
 * `rows` rows per expert. */
static struct gemm linear_gemm(const struct bb_layer_sizes *s, const char *name, int64_t rows, int64_t in, int64_t out,
                               int64_t experts)
{
    return (struct gemm){.name = name, .shape = {rows, out, in, experts, false, false, s->dtype}, .experts = experts};
}

/* A GEMM of which both operands are activations. */
static struct gemm product(const char *name, struct bb_gemm_shape shape)
{
    return (struct gemm){.name = name, .shape = shape, .activations_only = true};
}

/* A linear layer whose weights tp does not shard: each rank of tp runs it on the same tokens, or on its own 1 / tp. */
static struct gemm whole_gemm(const struct bb_layer_sizes *s, const char *name, int64_t rows, int64_t in, int64_t out)
{
    struct gemm gemm = linear_gemm(s, name, rows, in, out, 1);

    gemm.share = rows == s->tokens ? s->repeated_share : 0;
    return gemm;
}

/* A GEMM that Megatron-LM runs in 16 bits (csa.py and deepseek_v4_hybrid_attention.py). */
static struct gemm wide_gemm(const struct bb_layer_sizes *s, const char *name, int64_t in, int64_t out, int64_t groups,
                             double share)
{
    struct gemm gemm = linear_gemm(s, name, s->tokens, in, out, groups);

    gemm.wide = true;
    gemm.share = share;
    return gemm;
}

/* Width of queries, keys and values together. In a scan layer (state-space model or linear attention), each
 * key-value group has its own query and key, and each head its own value; in a selective scan, only values. */
static int64_t qkv_width(const struct bb_layer_sizes *s)
{
    if (s->step_rank)
        return s->heads;
    if (s->chunk)
        return 2 * s->kv_heads * s->key_dim + s->heads * s->value_dim;
    return s->heads * s->key_dim + s->kv_heads * (s->key_dim + s->value_dim);
}

static int latent_down_gemms(const struct bb_layer_sizes *s, int64_t rows, struct gemm *p)
{
    int n = 0;

    if (s->q_lora)
        p[n++] = whole_gemm(s, "query down", rows, s->hidden, s->q_lora);
    p[n++] = whole_gemm(s, "key value down", rows, s->hidden, s->kv_lora + (s->streams ? 0 : s->rope_dim));
    return n;
}

static int latent_up_gemms(const struct bb_layer_sizes *s, struct gemm *p)
{
    p[0] = linear_gemm(s, "query", s->tokens, s->q_lora ? s->q_lora : s->hidden, s->heads * s->key_dim, 1);
    p[1] = linear_gemm(s, "key value", s->tokens, s->kv_lora, s->heads * (s->nope_dim + s->value_dim), 1);
    return s->streams ? 1 : 2; /* DeepSeek-V4: the latent is key and value */
}

static int index_gemms(const struct bb_layer_sizes *s, struct gemm *p)
{
    if (s->index_heads == 0)
        return 0;
    p[0] = whole_gemm(s, "index query", s->tokens, s->q_lora, s->index_heads * s->index_dim);
    if (s->ratio) {
        p[1] = wide_gemm(s, "index weights", s->hidden, s->index_heads, 1, s->repeated_share);
        return 2;
    }
    p[1] = whole_gemm(s, "index key", s->tokens, s->hidden, s->index_dim);
    p[2] = whole_gemm(s, "index weights", s->tokens, s->hidden, s->index_heads);
    return 3;
}

static int qkv_gemms(const struct bb_layer_sizes *s, struct gemm *p)
{
    int64_t gate = s->out_gate ? s->heads * s->value_dim : 0, steps = s->chunk ? (s->delta ? 2 : 1) * s->heads : 0;
    int n;

    if (s->step_rank) {
        p[0] = linear_gemm(s, "scan input", s->tokens, s->hidden, 2 * s->heads, 1);
        p[1] = linear_gemm(s, "scan parameters", s->tokens, s->heads, s->step_rank + 2 * s->key_dim, 1);
        p[2] = linear_gemm(s, "scan steps", s->tokens, s->step_rank, s->heads, 1);
        return 3;
    }
    if (s->kv_lora == 0) {
        p[0] = linear_gemm(s, s->chunk ? "scan input" : "qkv", s->tokens, s->hidden, qkv_width(s) + gate + steps, 1);
        return 1;
    }
    n = latent_down_gemms(s, s->tokens, p);
    n += latent_up_gemms(s, p + n);
    if (s->ratio)
        p[n++] = wide_gemm(s, "compressor", s->hidden, 2 * (s->compressor + s->index_compressor), 1, s->repeated_share);
    return n + index_gemms(s, p + n);
}

/* Lists the GEMMs of a scan layer (state-space or linear attention), one chunk of tokens at a time (see
 * bb_arch_core_flops). As in attention, all operands are activations. */
static int scan_gemms(const struct bb_layer_sizes *s, struct gemm *p)
{
    int64_t c = s->queries < s->chunk ? s->queries : s->chunk, chunks = s->batch * ((s->queries + c - 1) / c);
    int64_t head_batch = chunks * s->heads, key_batch = s->delta ? head_batch : chunks * s->kv_heads;
    int64_t n = s->key_dim, v = s->value_dim;
    int at = 0;

    if (s->step_rank)
        return 0;
    if (s->delta) {
        p[at++] = product("key scores", (struct bb_gemm_shape){c, c, n, head_batch, false, true, s->dtype});
        p[at++] = product("corrections", (struct bb_gemm_shape){c, n + v, c, head_batch, false, false, s->dtype});
        p[at++] = product("stored values", (struct bb_gemm_shape){c, v, n, head_batch, false, false, s->dtype});
    }
    p[at++] = product("scores", (struct bb_gemm_shape){c, c, n, key_batch, false, true, s->dtype});
    p[at++] = product("context", (struct bb_gemm_shape){c, v, c, head_batch, false, false, s->dtype});
    p[at++] = product("state update", (struct bb_gemm_shape){n, v, c, head_batch, true, false, s->dtype});
    p[at++] = product("state read", (struct bb_gemm_shape){c, v, n, head_batch, false, false, s->dtype});
    return at;
}

/* index_keys: number of tokens whose keys the indexer scores */
static int core_gemms(const struct bb_layer_sizes *s, int64_t keys, int64_t index_keys, struct gemm *p)
{
    int64_t pairs = s->batch * s->attention_heads;

    if (s->chunk)
        return scan_gemms(s, p);

    p[0] = product("scores", (struct bb_gemm_shape){s->queries, keys, s->key_dim, pairs, false, true, s->dtype});
    p[1] = product("context", (struct bb_gemm_shape){s->queries, s->value_dim, keys, pairs, false, false, s->dtype});
    if (s->index_heads == 0)
        return 2;
    pairs = s->batch * s->index_heads;
    keys = s->ratio ? index_keys / s->ratio : index_keys;
    p[2] = product("index", (struct bb_gemm_shape){s->queries, keys, s->index_dim, pairs, false, true, s->dtype});
    p[2].dense = true;
    p[2].share = s->index_share;
    return 3;
}

/* Sets the up and the down GEMM of an MLP, or of all experts of a rank. width: input and output. If the number of rows
 * (tokens) is divisible by the number of experts, each GEMM is batched with one GEMM per expert; else it is one GEMM with
 * the rows of all experts that have any. Returns the number of up GEMMs: 1, or 0 if there are no rows. */
static int mlp_gemms(const struct bb_layer_sizes *s, int64_t rows, int64_t width, int64_t ffn, int64_t experts,
                     struct gemm *up, struct gemm *down)
{
    const int64_t batch = rows % experts ? 1 : experts;

    *up = linear_gemm(s, "up", rows / batch, width, (s->gated ? 2 : 1) * ffn, batch);
    *down = linear_gemm(s, "down", rows / batch, ffn, width, batch);
    up->experts = down->experts = rows < experts ? rows : experts;
    return rows > 0;
}

static int out_gemms(const struct bb_layer_sizes *s, struct gemm *p)
{
    const int64_t width = s->out_groups ? s->out_groups * s->out_lora : s->heads * s->value_dim;

    if (s->out_groups > 0)
        *p++ = wide_gemm(s, "out groups", s->heads * s->value_dim / s->out_groups, s->out_lora, s->out_groups, 0);
    *p = linear_gemm(s, "out", s->tokens, width, s->hidden, 1);
    return s->out_groups > 0 ? 2 : 1;
}

static int put_linear(const struct bb_layer_sizes *s, const char *name, int64_t rows, int64_t in, int64_t out,
                      struct gemm *p)
{
    *p = linear_gemm(s, name, rows, in, out, 1);
    return 1;
}

static int base_gemms(const struct bb_layer_sizes *s, enum bb_kernels_kind kind, int64_t rows, struct gemm *p)
{
    struct gemm other;

    switch (kind) {
    case BB_KERNELS_QKV:
        return qkv_gemms(s, p);
    case BB_KERNELS_KEY:
        return put_linear(s, "key", s->tokens, s->hidden, s->kv_heads * s->key_dim, p);
    case BB_KERNELS_LATENT_DOWN:
        return latent_down_gemms(s, s->local_tokens, p);
    case BB_KERNELS_LATENT_UP:
        return latent_up_gemms(s, p);
    case BB_KERNELS_INDEX:
        return index_gemms(s, p);
    case BB_KERNELS_CORE:
        return core_gemms(s, s->keys, s->sequence, p);
    case BB_KERNELS_CORE_BLOCK:
        return core_gemms(s, s->block_keys, s->block_keys, p);
    case BB_KERNELS_CROSS_QUERY:
        return put_linear(s, "cross query", s->tokens, s->hidden, s->heads * s->key_dim, p);
    case BB_KERNELS_CROSS_KEYS:
        return put_linear(s, "cross keys", s->encoder_tokens, s->hidden, s->kv_heads * (s->key_dim + s->value_dim), p);
    case BB_KERNELS_CROSS_CORE:
        return core_gemms(s, s->encoder_sequence, s->encoder_sequence, p);
    case BB_KERNELS_OUT:
        return out_gemms(s, p);
    case BB_KERNELS_UP:
        return mlp_gemms(s, s->tokens, s->hidden, s->ffn, 1, &p[0], &other);
    case BB_KERNELS_SECOND_UP:
        p[0] = linear_gemm(s, "up", s->tokens, s->hidden, s->ffn, 1);
        return s->gated;
    case BB_KERNELS_DOWN:
        return mlp_gemms(s, s->tokens, s->hidden, s->ffn, 1, &other, &p[0]);
    case BB_KERNELS_SHARED_UP:
        return mlp_gemms(s, s->tokens, s->hidden, s->shared_ffn, 1, &p[0], &other);
    case BB_KERNELS_SHARED_DOWN:
        return mlp_gemms(s, s->tokens, s->hidden, s->shared_ffn, 1, &other, &p[0]);
    case BB_KERNELS_EXPERTS:
        return 2 * mlp_gemms(s, rows, bb_expert_width(s), s->expert_ffn, s->local_experts, &p[0], &p[1]);
    case BB_KERNELS_ROUTER:
        return put_linear(s, "router", s->local_tokens, s->hidden, s->experts, p);
    case BB_KERNELS_LATENT_IN:
        p[0] = linear_gemm(s, "latent", s->local_tokens, s->hidden, s->moe_latent, 1);
        return s->moe_latent > 0;
    case BB_KERNELS_LATENT_OUT:
        p[0] = linear_gemm(s, "latent", s->local_tokens, s->moe_latent, s->hidden, 1);
        return s->moe_latent > 0;
    case BB_KERNELS_MTP:
        p[0] = linear_gemm(s, "MTP projection", s->streams ? s->tokens * (s->streams + 1) / 2 : s->tokens, s->hidden,
                           s->mtp_width, 1); /* the hidden state has `streams` vectors per token, the embedding one */
        return 1;
    case BB_KERNELS_HEAD:
        p[0] = linear_gemm(s, "logits", s->tokens, s->hidden, s->vocab, 1);
        p[0].share = s->vocab_share;
        return 1;
    default:
        return 0;
    }
}

/* Lists the GEMMs of the forward pass; with LoRA those of the adapters too, which alone have weight gradients. An adapter
 * replaces the weight of a GEMM of width k to n by two, of width k to rank to n. All experts of a rank may share one. */
static int forward_gemms(const struct bb_layer_sizes *s, enum bb_kernels_kind kind, int64_t rows, struct gemm *p)
{
    const bool up = kind == BB_KERNELS_UP || kind == BB_KERNELS_SHARED_UP || kind == BB_KERNELS_EXPERTS;
    const bool mlp = up || kind == BB_KERNELS_DOWN || kind == BB_KERNELS_SHARED_DOWN, qkv = kind == BB_KERNELS_QKV;
    const bool row = kind == BB_KERNELS_OUT || kind == BB_KERNELS_DOWN || kind == BB_KERNELS_SHARED_DOWN;
    const bool down = kind == BB_KERNELS_LATENT_DOWN, latent = down || kind == BB_KERNELS_LATENT_UP;
    const bool adapts = qkv || latent || kind == BB_KERNELS_OUT || (mlp && !s->lora_attention);
    const int n = base_gemms(s, kind, rows, p);
    int at = n;

    for (int i = 0; i < n && s->lora_rank > 0; i++) {
        const bool is_index = qkv && s->kv_lora && i >= s->qkv_adapters;
        const int64_t adapters = qkv && !s->kv_lora ? s->qkv_adapters : up && i == 0 ? s->up_adapters : 1;
        const struct bb_gemm_shape *weight = &p[i].shape;
        const int64_t each = s->shared_adapters ? 1 : weight->batch, m = weight->m * weight->batch / each;

        p[i].frozen = true;
        if (!adapts || is_index)
            continue;
        p[at++] = linear_gemm(s, "adapter in", m, weight->k, s->lora_rank * adapters, each);
        p[at++] = linear_gemm(s, "adapter out", m, s->lora_rank, weight->n, each);
        p[at - 1].experts = p[at - 2].experts = s->shared_adapters ? 1 : p[i].experts;
        /* each rank of tp has the matrix of the side that tp does not shard of the weight */
        p[at - 2].share = row || down || kind == BB_KERNELS_EXPERTS ? p[i].share : s->repeated_share;
        p[at - 1].share = row ? s->repeated_share : p[i].share;
    }
    return at;
}

/* Lists the GEMMs of a pass (forward, data gradient, weight gradient) that follow from one GEMM of the forward pass.
 * The data-gradient pass of attention contains the gradients of both operands. Returns the number of GEMMs: 0, 1 or
 * 2. */
static int list_pass_shapes(const struct gemm *forward, enum bb_kernels_pass pass, struct bb_gemm_shape out[2])
{
    struct bb_gemm_shape dgrad, wgrad;

    out[0] = forward->shape;
    if (pass == BB_KERNELS_FORWARD)
        return 1;
    if (pass == BB_KERNELS_WEIGHTS && (forward->activations_only || forward->frozen))
        return 0;
    bb_gemm_backward(&forward->shape, &dgrad, &wgrad);
    out[0] = pass == BB_KERNELS_DATA ? dgrad : wgrad;
    out[1] = wgrad;
    return forward->activations_only ? 2 : 1;
}

static struct bb_layer_sizes sizes_of_chunk(const struct bb_layer_sizes *s, int chunks)
{
    struct bb_layer_sizes part = *s;

    part.tokens /= chunks;
    return part;
}

static double groups_flops(const struct bb_layer_sizes *s, const struct bb_kernel_groups *c, bool of_model)
{
    struct gemm p[MAX_GEMMS];
    struct bb_gemm_shape shapes[2];
    double flops = 0;

    for (int i = 0; i < c->n; i++) {
        const struct bb_layer_sizes part = sizes_of_chunk(s, c->list[i].chunks);
        int n = forward_gemms(&part, c->list[i].kind, c->rows, p);

        for (int j = 0; j < n; j++)
            for (int k = list_pass_shapes(&p[j], c->list[i].pass, shapes) - 1; k >= 0; k--)
                flops += bb_gemm_flops(&shapes[k]) * (of_model && p[j].share > 0 ? p[j].share : 1);
    }
    return flops;
}

double bb_kernel_groups_flops(const struct bb_layer_sizes *s, const struct bb_kernel_groups *c)
{
    return groups_flops(s, c, false);
}

double bb_kernel_groups_model_flops(const struct bb_layer_sizes *s, const struct bb_kernel_groups *c)
{
    return groups_flops(s, c, true);
}

/* ---- memory-bound kernels ---- */

/* Adds the cast kernels of a GEMM in FP8, MXFP8 or NVFP4. Each operand is needed row-wise for the GEMM and transposed for
 * the gradients. FP8, input: the kernel that produces it also casts it to FP8, so only the transposition is a separate
 * kernel, which reads FP8. Output gradient, and input of several experts, which Transformer Engine's GroupedLinear takes in
 * 16 bits only: one kernel reads it in 16 bits and writes it row-wise and transposed. MXFP8
 * counts as FP8: the scales of both directions come from the same kernel. NVFP4: a kernel reads the tensor for the maxima
 * (of 2 bytes an element), another for both directions, as Transformer Engine's Hadamard transform and cast. */
static void add_cast(const struct bb_layer_sizes *s, struct bb_kernel_list *w, const struct gemm *p,
                     enum bb_kernels_pass pass)
{
    const struct bb_gemm_shape *g = &p->shape;
    const bool from_dtype = pass == BB_KERNELS_DATA || s->precision == BB_GEMM_NVFP4 || p->experts > 1;
    struct bb_memory_kernel kernel = {.kind = BB_MEMORY_KERNEL_COPY,
                                      .dtype = BB_F8E4M3,
                                      .rows = (uint64_t)(g->m * g->batch),
                                      .cols = (uint64_t)(pass == BB_KERNELS_FORWARD ? g->k : g->n)};

    if (pass == BB_KERNELS_WEIGHTS)
        return;
    if (s->precision == BB_GEMM_NVFP4) {
        bb_kernel_list_add_memory_kernel(w, "maxima", &kernel);
        bb_kernel_list_last(w)->experts = (int)p->experts;
    }
    kernel.dtype = from_dtype ? s->dtype : BB_F8E4M3;
    bb_kernel_list_add_memory_kernel(w, "cast", &kernel);
    bb_kernel_list_last(w)->experts = (int)p->experts;
}

static void add_memory_kernel(const struct bb_layer_sizes *s, struct bb_kernel_list *w, const char *name,
                              enum bb_memory_kernel_kind kind, enum bb_activation act, int64_t rows, int64_t cols)
{
    const struct bb_memory_kernel kernel = {
        .kind = kind, .dtype = s->dtype, .act = act, .rows = (uint64_t)rows, .cols = (uint64_t)cols};

    if (rows > 0 && cols > 0)
        bb_kernel_list_add_memory_kernel(w, name, &kernel);
}

/* Adds the kernels of the activation function. A gated activation reads gate and up and writes their product; its
 * backward pass writes the gradients of gate and up. */
static void add_activation(const struct bb_layer_sizes *s, struct bb_kernel_list *w, bool backward, int64_t rows,
                           int64_t ffn)
{
    bool three = backward || s->gated;

    add_memory_kernel(s, w, "activation", three ? BB_MEMORY_KERNEL_BIAS_ACT_GRAD : BB_MEMORY_KERNEL_BIAS_ACT,
                      BB_ACT_GELU, rows, ffn);
    if (backward && s->gated)
        add_memory_kernel(s, w, "gate", BB_MEMORY_KERNEL_BIAS_ACT, BB_ACT_NONE, rows, ffn);
}

/* Kernels of experts with biases (gpt-oss), as in Megatron-LM: clamping of gate and up
 * (fusions/fused_bias_geglu.py), and the bias of the down projection, scaled by the router's float probability
 * (_apply_bias in transformer/moe/experts.py). Each array element is one kernel. wide: true: the kernel operates on
 * gate and up; false: on the output of the expert, in float. each: true: training launches one kernel per expert. */
static const struct bias_kernel {
    const char *name;
    bool backward, wide;
    enum bb_memory_kernel_kind kind;
    bool each;
} bias_kernels[] = {
    {"clamp", false, true, BB_MEMORY_KERNEL_BIAS_ACT, false},
    {"join", false, true, BB_MEMORY_KERNEL_COPY, false},
    {"bias", false, false, BB_MEMORY_KERNEL_BIAS_ACT_GRAD, true},
    {"join", false, false, BB_MEMORY_KERNEL_COPY, false},
    {"cast", false, false, BB_MEMORY_KERNEL_COPY, false},
    {"clamp", true, true, BB_MEMORY_KERNEL_BIAS_ACT_GRAD, false},
    {"join", true, true, BB_MEMORY_KERNEL_COPY, false},
    {"bias", true, false, BB_MEMORY_KERNEL_BIAS_ACT_GRAD, true},
    {"bias", true, false, BB_MEMORY_KERNEL_BIAS_ACT_GRAD, true},
    {"join", true, false, BB_MEMORY_KERNEL_COPY, false},
    {"cast", true, false, BB_MEMORY_KERNEL_COPY, false},
};

static void add_expert_biases(const struct bb_layer_sizes *s, struct bb_kernel_list *w, bool backward, int64_t rows)
{
    struct bb_layer_sizes in_float = *s;

    in_float.dtype = BB_FLOAT;
    for (size_t i = 0; s->expert_bias && i < sizeof(bias_kernels) / sizeof(bias_kernels[0]); i++) {
        const struct bias_kernel *p = &bias_kernels[i];

        if (p->backward != backward || rows == 0)
            continue;
        add_memory_kernel(p->wide ? s : &in_float, w, p->name, p->kind, BB_ACT_NONE, rows,
                          p->wide ? 2 * s->expert_ffn : bb_expert_width(s));
        bb_kernel_list_last(w)->experts = p->each ? (int)s->local_experts : 0;
    }
}

/* Adds the copies that sort the rows of several ranks by expert, before and after the experts. With a capacity factor,
 * Megatron-LM requires the dispatcher that needs them (MoEAlltoAllTokenDispatcher in moe/token_dispatcher.py). */
static void add_sorting(const struct bb_layer_sizes *s, struct bb_kernel_list *w, int64_t rows)
{
    for (int i = 0; i < 2 && s->sorts_rows; i++)
        add_memory_kernel(s, w, "sort", BB_MEMORY_KERNEL_COPY, BB_ACT_NONE, rows, bb_expert_width(s));
}

/* Kernels of hyper-connections (DeepSeek-V4), as in Megatron-LM with use_fused_mhc (fusions/fused_mhc_kernels.py). Each reads
 * and writes, for each token, `per_stream` vectors per residual stream and `ones` vectors. Those of the weights take as long
 * as this traffic, which is more than theirs: 0.49 ms forward and 1.67 ms backward for 32,768 tokens of four streams of 7,168
 * (proj_rms and sinkhorn on GB200, NVIDIA/Megatron-LM, pull request 3828). */
static const struct stream_kernel {
    const char *name;
    bool backward;
    int per_stream, ones;
} stream_kernels[] = {
    {"stream weights", false, 1, 3}, /* projection of all streams, and their norm */
    {"stream sum", false, 1, 1},     /* input of attention or MLP */
    {"stream mix", false, 2, 1},     /* of all streams with the output */
    {"stream mix", true, 4, 2},      /* gradients of streams and output; then those of the weights */
    {"stream sum", true, 2, 1},       {"stream weights", true, 6, 0}, /* gradients of streams and projection */
    {"stream gradients", true, 4, 0},                                 /* sum of the three gradients of the streams */
};

static void add_streams(const struct bb_layer_sizes *s, struct bb_kernel_list *w, bool backward)
{
    for (size_t i = 0; i < sizeof(stream_kernels) / sizeof(stream_kernels[0]); i++) {
        const struct stream_kernel *p = &stream_kernels[i];

        if (p->backward == backward) /* a copy reads one half of what the kernel moves, and writes the other */
            add_memory_kernel(s, w, p->name, BB_MEMORY_KERNEL_COPY, BB_ACT_NONE, s->local_tokens,
                              (p->per_stream * s->streams + p->ones) * s->hidden / 2);
    }
}

/* Adds the kernels of the residual sum and of the norm. In the forward pass the residual kernel includes the dropout
 * mask; `again`: the recomputed norm has none. In the backward pass the residual kernel adds the gradients of the residual and of the sublayer (attention
 * or MLP), and dropout has a separate kernel. */
static void add_norm(const struct bb_layer_sizes *s, struct bb_kernel_list *w, bool backward, bool again)
{
    if (!again && s->streams)
        add_streams(s, w, backward);
    else if (!again)
        add_memory_kernel(s, w, "residual", BB_MEMORY_KERNEL_BIAS_ACT_GRAD, BB_ACT_NONE, s->local_tokens, s->hidden);
    if (backward && s->dropout)
        add_memory_kernel(s, w, "dropout", BB_MEMORY_KERNEL_BIAS_ACT, BB_ACT_NONE, s->local_tokens, s->hidden);
    add_memory_kernel(s, w, "norm", backward ? BB_MEMORY_KERNEL_LAYER_NORM_GRAD : BB_MEMORY_KERNEL_LAYER_NORM,
                      BB_ACT_NONE, s->local_tokens, s->hidden);
}

/* Adds kernels with the bytes of the selective scan, which reads input, gate and step sizes of all channels and writes its
 * output; backward: it reads these and the gradient of the output, and writes the gradients of the three and the output. */
static void add_selective_scan(const struct bb_layer_sizes *s, struct bb_kernel_list *w, bool backward)
{
    for (int i = 0; i < (backward ? 4 : 2); i++)
        add_memory_kernel(s, w, "selective scan", BB_MEMORY_KERNEL_BIAS_ACT, BB_ACT_NONE, s->tokens, s->heads);
}

/* Adds kernels with the traffic of the states of Mamba 2's scan beyond that of its GEMMs in 16 bits, by mamba_ssm/ops/triton/
 * ssd_combined.py: one state per chunk and head is written as float, read again and passed on in 16 bits. Backward: states are
 * computed and passed on again, in float, their gradients too; so is the convolution. */
static void add_states(const struct bb_layer_sizes *s, struct bb_kernel_list *w, bool backward)
{
    const int64_t c = s->queries < s->chunk ? s->queries : s->chunk, chunks = s->batch * ((s->queries + c - 1) / c);

    add_memory_kernel(s, w, "states", BB_MEMORY_KERNEL_BIAS_ACT, BB_ACT_NONE,
                      (backward ? 6 : 2) * chunks * s->attention_heads, s->key_dim * s->value_dim);
    if (backward)
        add_memory_kernel(s, w, "convolution", BB_MEMORY_KERNEL_BIAS_ACT, BB_ACT_NONE, s->tokens, qkv_width(s));
}

/* Unfused attention: adds the kernels of softmax and dropout over all scores in memory. */
static void add_softmax(const struct bb_layer_sizes *s, struct bb_kernel_list *w, bool backward, int64_t keys)
{
    int64_t rows = s->batch * s->attention_heads * s->queries;

    if (s->step_rank)
        add_selective_scan(s, w, backward);
    else if (s->chunk && !s->delta)
        add_states(s, w, backward);
    if (!s->unfused || s->chunk)
        return;
    if (s->dropout)
        add_memory_kernel(s, w, "dropout", BB_MEMORY_KERNEL_BIAS_ACT, BB_ACT_NONE, rows, keys);
    add_memory_kernel(s, w, "softmax", backward ? BB_MEMORY_KERNEL_BIAS_ACT_GRAD : BB_MEMORY_KERNEL_BIAS_ACT,
                      BB_ACT_NONE, rows, keys);
}

/* Adds the kernels of the gate on the output of attention or of a scan (state-space or linear attention); the gate
 * kernel of a scan includes its norm. */
static void add_out_gate(const struct bb_layer_sizes *s, struct bb_kernel_list *w, bool backward)
{
    const int64_t width = s->heads * s->value_dim;

    if (!s->out_gate)
        return;
    add_memory_kernel(s, w, "gate", BB_MEMORY_KERNEL_BIAS_ACT_GRAD, BB_ACT_NONE, s->tokens, width);
    if (backward)
        add_memory_kernel(s, w, "gate", BB_MEMORY_KERNEL_BIAS_ACT, BB_ACT_NONE, s->tokens, width);
}

/* Adds the kernel that permutes tokens into the order of their experts, or the kernel that returns the expert
 * outputs to token order and sums them per token. The backward pass of the first kernel is the second kernel, and
 * vice versa. All rows are counted; a fractional mean number of rows per token (dedup dispatch) is rounded. */
static void add_permutation(const struct bb_layer_sizes *s, enum bb_kernels_kind kind, bool backward,
                            struct bb_kernel_list *w)
{
    bool in_node = kind == BB_KERNELS_NODE_PERMUTE || kind == BB_KERNELS_NODE_UNPERMUTE;
    bool spreads = (kind == BB_KERNELS_PERMUTE || kind == BB_KERNELS_NODE_PERMUTE) != backward;
    const int64_t tokens = in_node ? s->rows_sent : s->local_tokens, rows = in_node ? s->rows_routed : s->rows_sent;
    const int64_t mean = (rows + tokens / 2) / tokens, copies = mean > 1 ? mean : 1;

    (spreads ? bb_kernel_list_permute : bb_kernel_list_unpermute)(w, (uint64_t)(rows / copies),
                                                                  (uint64_t)bb_expert_width(s), (int)copies, s->dtype);
}

/* If `biased`, appends the kernel that adds the bias of QKV, of the attention output or of the MLP output. width:
 * number of features per token. */
static void add_bias(const struct bb_layer_sizes *s, struct bb_kernel_list *w, bool biased, int64_t width)
{
    if (biased)
        add_memory_kernel(s, w, "bias", BB_MEMORY_KERNEL_BIAS_ACT, BB_ACT_NONE, s->tokens, width);
}

/* Adds the kernels between the QKV projections and attention: in a scan layer (state-space or linear attention) the
 * short causal convolution over queries, keys and values; else the rotary position embedding of queries and keys, or
 * the inverse rotation of their gradients. The bias has its own kernel only if neither of them follows. */
static void add_qkv(const struct bb_layer_sizes *s, struct bb_kernel_list *w, bool backward)
{
    int64_t rotated = s->kv_lora ? s->heads * s->rope_dim : (s->heads + s->kv_heads) * s->key_dim;

    if (s->chunk)
        add_memory_kernel(s, w, "convolution", backward ? BB_MEMORY_KERNEL_BIAS_ACT_GRAD : BB_MEMORY_KERNEL_BIAS_ACT,
                          BB_ACT_NONE, s->tokens, qkv_width(s));
    else if (s->rotary)
        add_memory_kernel(s, w, "positions", BB_MEMORY_KERNEL_BIAS_ACT, BB_ACT_NONE, s->tokens, rotated);
    else
        add_bias(s, w, s->qkv_bias && !backward, qkv_width(s));
    if (s->streams)
        add_memory_kernel(s, w, "query norm", backward ? BB_MEMORY_KERNEL_LAYER_NORM_GRAD : BB_MEMORY_KERNEL_LAYER_NORM,
                          BB_ACT_NONE, s->tokens * s->heads, s->key_dim);
}

/* Adds the memory-bound kernels that follow the GEMMs of a kind of computation (enum bb_kernels_kind), for example of
 * the MLP's up projection, in the forward pass or in the data-gradient pass (backward). The gradient of the MLP's
 * activation function belongs to the down GEMM, whose data gradient it reads. The gradient of a permuted token is the
 * sum of the gradients of its copies for different experts. rows: number of token copies for the rank's experts. */
static void add_memory_kernels(const struct bb_layer_sizes *s, enum bb_kernels_kind kind, bool backward, int64_t rows,
                               struct bb_kernel_list *w)
{
    if (kind == BB_KERNELS_NORM || kind == BB_KERNELS_NORM_AGAIN)
        add_norm(s, w, backward, kind == BB_KERNELS_NORM_AGAIN);
    else if (kind == BB_KERNELS_OUT) {
        add_out_gate(s, w, backward);
        if (s->streams) /* inverse rotation of the output, which is a sum of rotated keys, to another buffer */
            add_memory_kernel(s, w, "positions", BB_MEMORY_KERNEL_COPY, BB_ACT_NONE, s->tokens,
                              s->heads * s->value_dim);
        add_bias(s, w, s->out_bias && !backward, s->hidden);
    } else if (kind == BB_KERNELS_CORE) {
        add_softmax(s, w, backward, s->keys);
        /* compressed keys: sums of a projection, with weights from a second one; backward writes both gradients, too */
        add_memory_kernel(s, w, "compressor", BB_MEMORY_KERNEL_COPY, BB_ACT_NONE, s->tokens,
                          (s->compressor + s->index_compressor) * (backward ? 2 : 1));
    } else if (kind == BB_KERNELS_CORE_BLOCK)
        add_softmax(s, w, backward, s->block_keys);
    else if (kind == BB_KERNELS_CROSS_CORE)
        add_softmax(s, w, backward, s->encoder_sequence);
    else if (kind == BB_KERNELS_QKV || kind == BB_KERNELS_KEY || kind == BB_KERNELS_LATENT_UP)
        add_qkv(s, w, backward);
    else if (kind == (backward ? BB_KERNELS_DOWN : BB_KERNELS_UP) || kind == BB_KERNELS_SECOND_UP)
        add_activation(s, w, backward, s->tokens, s->ffn);
    else if (kind == BB_KERNELS_DOWN)
        add_bias(s, w, s->mlp_bias, s->hidden);
    else if (kind == (backward ? BB_KERNELS_SHARED_DOWN : BB_KERNELS_SHARED_UP))
        add_activation(s, w, backward, s->tokens, s->shared_ffn);
    else if (kind == BB_KERNELS_EXPERT_ACTIVATION)
        add_activation(s, w, backward, rows, s->expert_ffn);
    else if (kind == BB_KERNELS_EXPERTS) {
        add_activation(s, w, backward, rows, s->expert_ffn);
        add_expert_biases(s, w, backward, rows);
        add_sorting(s, w, rows);
    } else if (kind == BB_KERNELS_PERMUTE || kind == BB_KERNELS_UNPERMUTE || kind == BB_KERNELS_NODE_PERMUTE ||
               kind == BB_KERNELS_NODE_UNPERMUTE)
        add_permutation(s, kind, backward, w);
    else if (kind == BB_KERNELS_EMBEDDING && !backward)
        bb_kernel_list_embedding(w, (uint64_t)s->tokens, (uint64_t)s->hidden, (uint64_t)s->vocab, s->dtype);
    else if (kind == BB_KERNELS_LOSS)
        add_memory_kernel(s, w, "softmax", backward ? BB_MEMORY_KERNEL_BIAS_ACT_GRAD : BB_MEMORY_KERNEL_BIAS_ACT,
                          BB_ACT_NONE, s->tokens, s->vocab);
}

static void add_gemm(const struct bb_layer_sizes *s, const struct bb_kernels *group, const struct gemm *p,
                     const struct bb_gemm_shape *shape, struct bb_kernel_list *w)
{
    bool cross = group->kind == BB_KERNELS_CROSS_CORE; /* cross attention has no mask: the decoder attends to all
                                                          encoder tokens */
    bool core = cross || group->kind == BB_KERNELS_CORE || group->kind == BB_KERNELS_CORE_BLOCK;
    bool dense = group->kind != BB_KERNELS_CORE || p->dense;
    double compressed = dense ? 0 : (double)s->compressed, keys = (double)(dense ? s->sequence : s->keys);
    struct bb_kernel_list_item *item;

    bb_kernel_list_add_gemm(w, p->name, shape);
    item = bb_kernel_list_last(w);
    /* also of a GEMM with the rows of all experts, because training runs a separate GEMM for each expert; 0: a GEMM
     * without weights */
    item->experts = p->activations_only || p->wide ? 0 : (int)p->experts;
    if (!p->activations_only && !p->wide && group->kind != BB_KERNELS_HEAD && group->kind != BB_KERNELS_ROUTER)
        item->precision = s->precision;
    if (!core || s->unfused || s->chunk) /* only fused attention keeps intermediate results on chip; the kernels of a
                                            scan (s->chunk > 0) store them in memory */
        return;
    item->fusion = group->pass == BB_KERNELS_FORWARD ? BB_KERNEL_IN_ATTENTION : BB_KERNEL_IN_ATTENTION_BACKWARD;
    /* Fraction of the attention score matrix that is unmasked. A causal mask leaves half of the full matrix. With a
     * sliding window, only the first `keys` queries have masked keys, half of them on average; see bb_arch_masked_flops. */
    item->share = 1;
    if (!cross && s->causal)
        item->share = 1 - 0.5 *
                              ((keys - compressed) * (keys - compressed) + compressed * compressed * (double)s->ratio) /
                              (keys * (double)s->sequence);
    item->gathered = s->streams && !dense ? keys * item->share : 0;
}

/* Adds the kernels of one kind of computation and one pass (forward, data gradient, weight gradient). In the
 * backward pass the GEMMs run in reverse order. */
static void add_kernels(const struct bb_layer_sizes *s, const struct bb_kernels *group, int64_t rows,
                        struct bb_kernel_list *w)
{
    struct gemm p[MAX_GEMMS];
    struct bb_gemm_shape shapes[2];
    int n = forward_gemms(s, group->kind, rows, p);
    bool forward = group->pass == BB_KERNELS_FORWARD;

    for (int j = 0; j < n; j++) {
        const struct gemm *gemm = &p[forward ? j : n - 1 - j];
        int n_shapes = list_pass_shapes(gemm, group->pass, shapes);

        for (int k = 0; k < n_shapes; k++)
            add_gemm(s, group, gemm, &shapes[k], w);
        if (n_shapes > 0 && bb_kernel_list_last(w)->precision)
            add_cast(s, w, gemm, group->pass);
    }
    if (group->pass != BB_KERNELS_WEIGHTS)
        add_memory_kernels(s, group->kind, !forward, rows, w);
    else if (group->kind == BB_KERNELS_ACCUMULATE) {
        bb_kernel_list_accumulate(w, (uint64_t)rows, s->dtype);
        bb_kernel_list_last(w)->fusion = s->fuses_sums ? BB_KERNEL_IN_GEMM : BB_KERNEL_SEPARATE;
    }
}

const char *const bb_graph_module_names[BB_GRAPH_MODULES] = {"attn",           "mlp",  "moe", "moe_router",
                                                             "moe_preprocess", "mamba"};

/* The modules whose graph contains the kernels of a kind other than a norm, as a bit mask (Megatron-LM,
 * transformer_layer.py, _get_submodules_under_cudagraphs, and moe_layer.py, preprocess). */
static unsigned graph_modules_of(const struct bb_layer_sizes *s, enum bb_kernels_kind kind)
{
    const unsigned experts = 1u << BB_GRAPH_EXPERTS;

    if (kind <= BB_KERNELS_CROSS_CORE)
        return 1u << (s->chunk && !s->delta ? BB_GRAPH_MAMBA : BB_GRAPH_ATTENTION);
    if (kind <= BB_KERNELS_DOWN)
        return 1u << BB_GRAPH_MLP;
    if (kind == BB_KERNELS_ROUTER || kind == BB_KERNELS_SHARED_UP || kind == BB_KERNELS_SHARED_DOWN)
        return experts | 1u << BB_GRAPH_ROUTER;
    if (kind == BB_KERNELS_LATENT_IN || kind == BB_KERNELS_PERMUTE)
        return experts | 1u << BB_GRAPH_PREPROCESS;
    return kind < BB_KERNELS_EMBEDDING ? experts : 0;
}

static bool is_norm(enum bb_kernels_kind kind)
{
    return kind == BB_KERNELS_NORM || kind == BB_KERNELS_NORM_AGAIN;
}

/* Returns whether graphs capture the norms of an operation: with one of its other kernels; a norm alone with any module. */
static bool captures_norms(const struct bb_layer_sizes *s, const struct bb_kernel_groups *c)
{
    unsigned modules = 0;
    bool alone = true;

    for (int i = 0; i < c->n; i++)
        if (!is_norm(c->list[i].kind)) {
            modules |= graph_modules_of(s, c->list[i].kind);
            alone = false;
        }
    return s->graph_modules & (alone ? ~0u : modules);
}

/* Returns whether the router decides how many rows the kernels of a kind have. */
static bool is_routed(enum bb_kernels_kind kind)
{
    return kind >= BB_KERNELS_PERMUTE && kind <= BB_KERNELS_NODE_UNPERMUTE;
}

void bb_kernel_groups_append(const struct bb_layer_sizes *s, const struct bb_kernel_groups *c, struct bb_kernel_list *w)
{
    const bool norms = captures_norms(s, c);

    for (int i = 0; i < c->n; i++) {
        const struct bb_layer_sizes part = sizes_of_chunk(s, c->list[i].chunks);
        const int first = w->n;

        add_kernels(&part, &c->list[i], c->rows, w);
        for (int j = first; j < w->n; j++) {
            w->items[j].captured =
                is_norm(c->list[i].kind) ? norms : (s->graph_modules & graph_modules_of(s, c->list[i].kind)) != 0;
            w->items[j].routed = is_routed(c->list[i].kind);
            w->items[j].dropless = s->dropless && is_routed(c->list[i].kind);
            w->items[j].scan = s->chunk && !s->delta && !s->step_rank && c->list[i].kind == BB_KERNELS_CORE;
        }
    }
}
