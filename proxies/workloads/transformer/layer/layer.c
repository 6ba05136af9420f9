/* layer.c - layers, embedding, head, and the communication at the end of a step (see layer.h). */
#include "proxies/workloads/transformer/layer/block.h"

void bb_block_init(struct bb_block *b, struct bb_layers *layers, struct bb_script *script,
                   const struct bb_block_lanes *lanes, int ep_rank)
{
    _Static_assert(sizeof(b->buffers) / sizeof(b->buffers[0]) >= BB_BLOCK_BUFFER_IDS,
                   "buffers[] must hold all buffers");
    *b = (struct bb_block){.layers = layers, .script = script, .lanes = *lanes, .ep_rank = ep_rank};
    for (int layer = 0; layer < (layers->routing.rows ? layers->routing.config.layers : 1); layer++) {
        long rows = bb_routing_received(&layers->routing, layer, ep_rank);

        b->rows_received = rows > b->rows_received ? rows : b->rows_received;
    }
    for (int id = 0; id < BB_BLOCK_BUFFER_IDS; id++)
        b->buffers[id] = BB_NONE;
}

/* ---- sublayers: attention and MLP ---- */

/* Attention or MLP: norm, column-parallel GEMM, (attention only) scores and context, and row-parallel GEMM. */
struct sublayer {
    struct bb_column_parallel column;
    enum bb_kernels_kind row;
    bool attention;
    const char *what, *sum, *gradient; /* labels of the forward compute operation, of the forward sum over tp, and of
                                          the backward all-gather of the output gradient */
};

static const struct sublayer attention = {.column = {.gemm = BB_KERNELS_QKV,
                                                     .gather = "attention input",
                                                     .sum = "attention gradients",
                                                     .data = "attention gradients",
                                                     .weights = "attention weights"},
                                          .row = BB_KERNELS_OUT,
                                          .attention = true,
                                          .what = "attention",
                                          .sum = "attention",
                                          .gradient = "attention output gradients"};

static const struct sublayer mlp = {.column = {.gemm = BB_KERNELS_UP,
                                               .gather = "MLP input",
                                               .sum = "MLP gradients",
                                               .data = "MLP gradients",
                                               .weights = "MLP weights"},
                                    .row = BB_KERNELS_DOWN,
                                    .what = "MLP",
                                    .sum = "MLP",
                                    .gradient = "MLP output gradients"};

static void sublayer_forward(struct bb_block *b, const struct sublayer *sublayer, int in, int out)
{
    struct bb_kernel_groups c = {0};
    int src = bb_block_column_forward(b, &sublayer->column, sublayer->what, &c, in);

    if (sublayer->attention && bb_lane_is_used(b->lanes.cp)) {
        bb_context_forward(b, &c, src);
        c.n = 0;
        src = BB_NONE;
    } else if (sublayer->attention) {
        bb_kernel_groups_add(&c, BB_KERNELS_CORE, BB_KERNELS_FORWARD);
    }
    bb_block_row_forward(b, sublayer->row, sublayer->what, sublayer->sum, &c, src, out);
}

/* Selective recomputation of a sublayer: the parts of attention whose outputs are not stored, or the whole MLP with its
 * communication. */
static void recompute_sublayer(struct bb_block *b, const struct sublayer *sublayer)
{
    static const struct bb_kernel_groups empty;
    const struct bb_layers_config *c = &b->layers->config;
    const int state = bb_block_buffer(b, BB_BLOCK_BUFFER_STATE);

    if (sublayer->attention && c->arch->kv_lora > 0) {
        bb_block_recompute(b, BB_MODULE_NORM, "norm", BB_KERNELS_NORM_AGAIN, 0);
        bb_latents_recompute(b);
        bb_block_recompute(b, BB_MODULE_LATENT_UP, "latent projections", BB_KERNELS_LATENT_UP, 0);
    }
    if (!sublayer->attention && bb_layers_recomputes(c, BB_MODULE_MLP)) {
        b->recomputing = true;
        sublayer_forward(b, sublayer, state, state);
    } else if (sublayer->attention && bb_layers_recomputes(c, BB_MODULE_CORE) && bb_lane_is_used(b->lanes.cp)) {
        b->recomputing = true;
        bb_context_forward(b, &empty, BB_NONE);
    } else if (sublayer->attention) {
        bb_block_recompute(b, BB_MODULE_CORE, "attention", BB_KERNELS_CORE, 0);
    }
    b->recomputing = false;
}

/* Returns whether the weights of a sublayer, or of the head (NULL), have gradients. */
static bool is_trained(const struct bb_block *b, const struct sublayer *sublayer)
{
    const struct bb_arch *a = b->layers->config.arch;

    return a->lora_rank == 0 || (sublayer && (sublayer->attention || !a->lora_attention));
}

static void sublayer_backward(struct bb_block *b, const struct sublayer *sublayer, int in, int out, bool with_weights)
{
    struct bb_kernel_groups c = {0};
    int src;

    with_weights = with_weights && is_trained(b, sublayer);
    src = bb_block_row_backward(b, sublayer->row, sublayer->column.data, sublayer->gradient, &c, in, with_weights);

    recompute_sublayer(b, sublayer);
    if (sublayer->attention && bb_lane_is_used(b->lanes.cp)) {
        bb_context_backward(b, &c, src);
        c.n = 0;
        src = BB_NONE;
    } else if (sublayer->attention) {
        bb_kernel_groups_add(&c, BB_KERNELS_CORE, BB_KERNELS_DATA);
    }
    bb_block_column_backward(b, &sublayer->column, &c, src, out, with_weights, true);
}

static void sublayer_weights(struct bb_block *b, const struct sublayer *sublayer)
{
    struct bb_kernel_groups c = {0};

    if (!is_trained(b, sublayer))
        return;
    bb_kernel_groups_add(&c, sublayer->row, BB_KERNELS_WEIGHTS);
    bb_block_column_weights(b, &sublayer->column, &c);
}

/* ---- layers ---- */

static int default_buffer(struct bb_block *b, int buffer, enum bb_block_buffer id)
{
    return buffer == BB_NONE ? bb_block_buffer(b, id) : buffer;
}

static void begin_layer(struct bb_block *b, enum bb_phase phase, int layer)
{
    b->script->phase = phase;
    b->script->layer = layer;
}

static void layer_forward(struct bb_block *b, int layer, int in, int out)
{
    const struct bb_arch *a = b->layers->config.arch;
    const bool ends_mixed = !bb_arch_has_mlp(a, layer);
    int between = bb_arch_has_mixer(a, layer) ? bb_block_buffer(b, BB_BLOCK_BUFFER_STATE) : in;

    b->deferred = a->parallel_attention;
    if (bb_arch_has_mixer(a, layer))
        sublayer_forward(b, &attention, in, ends_mixed ? out : between);
    b->deferred = false;
    if (ends_mixed)
        return;
    if (bb_arch_is_decoder(a, layer))
        bb_cross_forward(b, between, between);
    if (bb_arch_has_experts(a, layer))
        bb_experts_forward(b, layer, between, out);
    else {
        b->gathered = a->parallel_attention;
        sublayer_forward(b, &mlp, a->parallel_attention ? in : between, out);
        b->gathered = false;
    }
}

void bb_block_forward(struct bb_block *b, int layer, int in, int out)
{
    if (layer > 0 && layer == b->layers->config.arch->encoder_layers)
        bb_decoder_begin(b);
    begin_layer(b, BB_PHASE_FORWARD, layer);
    layer_forward(b, layer, default_buffer(b, in, BB_BLOCK_BUFFER_STATE),
                  default_buffer(b, out, BB_BLOCK_BUFFER_STATE));
    b->script->layer = BB_NONE;
}

/* Adds the kernels that add the gradients of a layer (or of BB_ARCH_HEAD; of BB_ARCH_MTP without its
 * layer) to those of earlier micro-batches. */
static void accumulate_gradients(struct bb_block *b, int layer)
{
    const struct bb_layers_config *c = &b->layers->config;
    const struct bb_arch trained = bb_arch_trained(c->arch);
    struct bb_arch_rank_parameters share;
    struct bb_kernel_groups groups = {0};
    int first, n = bb_arch_mtp_layers(c->arch, &first);

    if (!c->accumulates || !c->gemm)
        return;
    share = bb_arch_layer_share(&trained, layer, c->tp, c->etp, c->ep);
    groups.rows = (int64_t)(share.dense + share.expert);
    for (int i = first; layer == BB_ARCH_MTP && i < first + n; i++) {
        share = bb_arch_layer_share(c->arch, i, c->tp, c->etp, c->ep);
        groups.rows -= (int64_t)(share.dense + share.expert);
    }
    if (groups.rows > 0)
        bb_kernel_groups_add(&groups, BB_KERNELS_ACCUMULATE, BB_KERNELS_WEIGHTS);
    bb_block_compute(b, "accumulate gradients", &groups, BB_NONE, BB_NONE);
}

/* In a layer with parallel attention and MLP, the sum of the input gradients follows the backward of attention. */
static void mlp_backward(struct bb_block *b, int in, int out, bool with_weights)
{
    b->deferred = b->layers->config.arch->parallel_attention;
    sublayer_backward(b, &mlp, in, out, with_weights);
    b->deferred = false;
}

/* Recomputes a layer whose larger operations are stored (BB_RECOMPUTE_OPS): every second GEMM (keys, attention output, second
 * GEMM of a gated MLP) and all memory-bound kernels. The output of reduce-scatters is stored, that of all-reduces is not. */
static void recompute_operations(struct bb_block *b)
{
    const int state = bb_block_buffer(b, BB_BLOCK_BUFFER_STATE);
    struct bb_kernel_groups c = {0};
    int src;

    b->recomputing = true;
    src = bb_block_column_input(b, &attention.column, &c, state);
    bb_kernel_groups_add(&c, BB_KERNELS_KEY, BB_KERNELS_FORWARD);
    bb_kernel_groups_add(&c, attention.row, BB_KERNELS_FORWARD);
    if (b->layers->sequence_sharded)
        bb_block_compute(b, attention.what, &c, src, bb_block_buffer(b, BB_BLOCK_BUFFER_PARTIAL));
    else
        bb_block_row(b, attention.what, attention.sum, &c, src, state);
    c.n = 0;
    src = bb_block_column_input(b, &mlp.column, &c, state);
    bb_kernel_groups_add(&c, BB_KERNELS_SECOND_UP, BB_KERNELS_FORWARD);
    bb_block_compute(b, mlp.what, &c, src, BB_NONE);
    b->recomputing = false;
}

void bb_block_backward(struct bb_block *b, int layer, int in, int out, bool with_weights)
{
    const struct bb_arch *a = b->layers->config.arch;
    const int state = bb_block_buffer(b, BB_BLOCK_BUFFER_STATE),
              last = default_buffer(b, out, BB_BLOCK_BUFFER_GRADIENT);
    int between = bb_arch_has_mixer(a, layer) ? bb_block_buffer(b, BB_BLOCK_BUFFER_GRADIENT) : last;

    begin_layer(b, BB_PHASE_BACKWARD, layer);
    b->recomputing = b->layers->config.recompute == BB_RECOMPUTE_FULL && !b->skip_recompute;
    if (b->recomputing)
        layer_forward(b, layer, state, state);
    b->recomputing = false;
    if (b->layers->config.recompute == BB_RECOMPUTE_OPS)
        recompute_operations(b);
    in = default_buffer(b, in, BB_BLOCK_BUFFER_GRADIENT);
    if (bb_arch_has_experts(a, layer))
        bb_experts_backward(b, layer, in, between, with_weights && is_trained(b, &mlp));
    else if (bb_arch_has_mlp(a, layer))
        mlp_backward(b, in, between, with_weights);
    else
        between = in;
    if (bb_arch_is_decoder(a, layer))
        bb_cross_backward(b, between, between, with_weights);
    b->gathered = a->parallel_attention;
    if (bb_arch_has_mixer(a, layer))
        sublayer_backward(b, &attention, b->gathered ? in : between, last, with_weights);
    b->gathered = false;
    if (with_weights)
        accumulate_gradients(b, layer);
    b->script->layer = BB_NONE;
    if (layer > 0 && layer == a->encoder_layers)
        bb_decoder_begin_backward(b);
}

void bb_block_weights(struct bb_block *b, int layer)
{
    const struct bb_arch *a = b->layers->config.arch;

    begin_layer(b, BB_PHASE_BACKWARD, layer);
    if (bb_arch_has_experts(a, layer) && is_trained(b, &mlp))
        bb_experts_weights(b, layer);
    else if (bb_arch_has_mlp(a, layer) && !bb_arch_has_experts(a, layer))
        sublayer_weights(b, &mlp);
    if (bb_arch_is_decoder(a, layer))
        bb_cross_weights(b);
    b->gathered = a->parallel_attention;
    if (bb_arch_has_mixer(a, layer))
        sublayer_weights(b, &attention);
    b->gathered = false;
    accumulate_gradients(b, layer);
    b->script->layer = BB_NONE;
}

/* ---- embedding ---- */

void bb_block_embedding_forward(struct bb_block *b, int out)
{
    struct bb_kernel_groups c = {0};

    begin_layer(b, BB_PHASE_FORWARD, BB_NONE);
    bb_kernel_groups_add(&c, BB_KERNELS_EMBEDDING, BB_KERNELS_FORWARD);
    bb_block_row(b, "embedding", "embedding", &c, BB_NONE, default_buffer(b, out, BB_BLOCK_BUFFER_STATE));
}

void bb_block_embedding_backward(struct bb_block *b, int in)
{
    begin_layer(b, BB_PHASE_BACKWARD, BB_NONE);
    if (b->layers->sequence_sharded && is_trained(b, NULL))
        bb_block_gather(b, "embedding gradients", default_buffer(b, in, BB_BLOCK_BUFFER_GRADIENT),
                        BB_BLOCK_BUFFER_GRADIENT_FULL);
}

/* ---- multi-token prediction ---- */

static const struct bb_column_parallel mtp = {.gemm = BB_KERNELS_MTP,
                                              .gather = "MTP input",
                                              .sum = "MTP input gradients",
                                              .data = "MTP gradients",
                                              .weights = "MTP weights"};

/* The output of the projection is sharded by its width: all-gather over tp, or (backward) reduce-scatter. */
static void exchange_mtp(struct bb_block *b, enum bb_coll_kind kind, enum bb_block_buffer src, enum bb_block_buffer dst)
{
    const struct bb_layer_sizes *s = &b->layers->sizes;

    bb_script_wait(b->script, bb_block_collective(b, b->lanes.tp, "MTP projection", kind,
                                                  (size_t)(s->tokens * s->mtp_width), src, dst));
}

void bb_block_mtp_forward(struct bb_block *b, int in, int out)
{
    const int last = b->layers->config.arch->layers - 1, state = bb_block_buffer(b, BB_BLOCK_BUFFER_STATE);
    int first, n = bb_arch_mtp_layers(b->layers->config.arch, &first);

    bb_block_embedding_forward(b, state);
    begin_layer(b, BB_PHASE_FORWARD, last);
    for (int half = 0; half < 2; half++) { /* of the hidden state, of the embedding */
        struct bb_kernel_groups c = {0};
        int src = bb_block_column_input(b, &mtp, &c, half == 0 && in != BB_NONE ? in : state);

        bb_kernel_groups_add(&c, BB_KERNELS_MTP, BB_KERNELS_FORWARD);
        bb_block_compute(b, "MTP projection", &c, src, BB_NONE);
    }
    exchange_mtp(b, BB_ALL_GATHER, BB_BLOCK_BUFFER_PARTIAL, BB_BLOCK_BUFFER_FULL);
    for (int layer = first; layer < first + n; layer++) {
        begin_layer(b, BB_PHASE_FORWARD, layer);
        layer_forward(b, layer, state, layer < first + n - 1 ? state : default_buffer(b, out, BB_BLOCK_BUFFER_STATE));
    }
    b->script->layer = BB_NONE;
}

void bb_block_mtp_backward(struct bb_block *b, int in, int out, bool with_weights)
{
    static const struct bb_kernel_groups empty;
    const int last = b->layers->config.arch->layers - 1, gradient = bb_block_buffer(b, BB_BLOCK_BUFFER_GRADIENT);
    int first, n = bb_arch_mtp_layers(b->layers->config.arch, &first);

    for (int i = n - 1; i >= 0; i--)
        bb_block_backward(b, first + i, i == n - 1 ? in : gradient, gradient, with_weights);
    begin_layer(b, BB_PHASE_BACKWARD, last);
    if (b->layers->sequence_sharded)
        bb_block_gather(b, "MTP gradients", gradient, BB_BLOCK_BUFFER_GRADIENT_FULL);
    exchange_mtp(b, BB_REDUCE_SCATTER, BB_BLOCK_BUFFER_GRADIENT_FULL, BB_BLOCK_BUFFER_PARTIAL);
    for (int half = 0; half < 2; half++)
        bb_block_column_backward(b, &mtp, &empty, BB_NONE,
                                 half == 0 ? default_buffer(b, out, BB_BLOCK_BUFFER_GRADIENT) : gradient, with_weights,
                                 true);
    if (with_weights)
        accumulate_gradients(b, BB_ARCH_MTP);
    bb_block_embedding_backward(b, gradient);
}

void bb_block_mtp_weights(struct bb_block *b)
{
    static const struct bb_kernel_groups empty;

    int first, n = bb_arch_mtp_layers(b->layers->config.arch, &first);

    for (int i = n - 1; i >= 0; i--)
        bb_block_weights(b, first + i);
    begin_layer(b, BB_PHASE_BACKWARD, b->layers->config.arch->layers - 1);
    for (int half = 0; half < 2; half++)
        bb_block_column_weights(b, &mtp, &empty);
    accumulate_gradients(b, BB_ARCH_MTP);
    b->script->layer = BB_NONE;
}

/* ---- head ---- */

static const struct bb_column_parallel head = {.gemm = BB_KERNELS_HEAD,
                                               .gather = "head input",
                                               .sum = "head gradients",
                                               .data = "head gradients",
                                               .weights = "head weights"};

/* Begins the head. In an encoder-decoder model the head belongs to the decoder. */
static void begin_head(struct bb_block *b, enum bb_phase phase)
{
    begin_layer(b, phase, BB_NONE);
    b->in_decoder = b->layers->config.arch->encoder_layers > 0;
}

static void reduce_statistic(struct bb_block *b, const char *what, enum bb_redop_id redop)
{
    struct bb_script *s = b->script;

    s->redop = redop;
    bb_script_wait(s, bb_block_collective(b, b->lanes.tp, what, BB_ALL_REDUCE, (size_t)b->layers->decoder_sizes.tokens,
                                          BB_BLOCK_BUFFER_STATISTIC, BB_BLOCK_BUFFER_TOTAL));
    s->redop = BB_SUM;
}

void bb_block_head_forward(struct bb_block *b, int in)
{
    struct bb_kernel_groups c = {0};
    bool tp_sharded = bb_lane_is_used(b->lanes.tp);
    int src;

    begin_head(b, BB_PHASE_FORWARD);
    src = bb_block_column_input(b, &head, &c, default_buffer(b, in, BB_BLOCK_BUFFER_STATE));
    bb_kernel_groups_add(&c, BB_KERNELS_HEAD, BB_KERNELS_FORWARD);
    bb_block_compute(b, "logits", &c, src, tp_sharded ? bb_block_buffer(b, BB_BLOCK_BUFFER_STATISTIC) : BB_NONE);
    reduce_statistic(b, "maximum logit", BB_MAX);
    bb_block_kernels(b, "cross entropy", BB_KERNELS_LOSS, BB_KERNELS_FORWARD, BB_NONE,
                     tp_sharded ? bb_block_buffer(b, BB_BLOCK_BUFFER_STATISTIC) : BB_NONE);
    reduce_statistic(b, "target logit", BB_SUM);
    reduce_statistic(b, "sum of exponentials", BB_SUM);
    b->in_decoder = false;
}

void bb_block_head_backward(struct bb_block *b, int out, bool with_weights)
{
    struct bb_kernel_groups c = {0};

    with_weights = with_weights && is_trained(b, NULL);
    begin_head(b, BB_PHASE_BACKWARD);
    bb_kernel_groups_add(&c, BB_KERNELS_LOSS, BB_KERNELS_DATA);
    bb_block_column_backward(b, &head, &c, BB_NONE, default_buffer(b, out, BB_BLOCK_BUFFER_GRADIENT), with_weights,
                             true);
    if (with_weights)
        accumulate_gradients(b, BB_ARCH_HEAD);
    b->in_decoder = false;
}

void bb_block_head_weights(struct bb_block *b)
{
    static const struct bb_kernel_groups empty;

    if (!is_trained(b, NULL))
        return;
    begin_head(b, BB_PHASE_BACKWARD);
    bb_block_column_weights(b, &head, &empty);
    accumulate_gradients(b, BB_ARCH_HEAD);
    b->in_decoder = false;
}

/* ---- end of a step ---- */

static void reduce_in_place(struct bb_block *b, struct bb_script_lane lane, const char *what, size_t count)
{
    struct bb_script *s = b->script;
    enum bb_dtype_id saved_dtype = s->dtype;
    int buffer;

    if (count == 0 || !bb_lane_is_used(lane))
        return;
    begin_layer(b, BB_PHASE_GRADIENTS, BB_NONE);
    s->dtype = b->layers->config.grad_dtype;
    buffer = bb_script_buffer(s, what, BB_USE_GRADIENTS, count);
    bb_script_wait(s, bb_script_collective(s, lane, what, BB_ALL_REDUCE, count, buffer, buffer));
    s->dtype = saved_dtype;
}

void bb_block_reduce_replicated(struct bb_block *b, size_t replicated)
{
    reduce_in_place(b, b->lanes.tp, "replicated gradients", replicated);
}

void bb_block_reduce_tied(struct bb_block *b, int shards)
{
    const struct bb_layer_sizes *s = &b->layers->sizes;
    size_t count = (size_t)(s->vocab * s->hidden), each = (count + (size_t)shards - 1) / (size_t)shards;

    if (b->layers->config.arch->tied || b->layers->config.arch->mtp > 0)
        reduce_in_place(b, b->lanes.embedding, "tied embedding gradients", each);
}

void bb_block_gradient_norm(struct bb_block *b)
{
    int lanes = (int)(sizeof(b->lanes.norm) / sizeof(b->lanes.norm[0]));

    begin_layer(b, BB_PHASE_OPTIMIZER, BB_NONE);
    for (int i = 0; i < lanes; i++)
        bb_script_wait(b->script, bb_block_collective(b, b->lanes.norm[i], "gradient norm", BB_ALL_REDUCE, 1,
                                                      BB_BLOCK_BUFFER_NORM, BB_BLOCK_BUFFER_NORM));
}
