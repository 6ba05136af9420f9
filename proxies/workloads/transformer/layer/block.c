/* block.c - buffers, compute operations and the collectives of tensor parallelism (see block.h). */
#include "proxies/workloads/transformer/layer/block.h"

#include "bootstrap/base/alloc.h"

#include <stdlib.h>
#include <string.h>

/* ---- buffers ---- */

#define ROW(buffer, text, elements, type) [BB_BLOCK_BUFFER_##buffer] = {text, type},

static const struct buffer_spec {
    const char *name;
    int dtype; /* BB_NONE: data type of the activations */
} buffer_specs[BB_BLOCK_BUFFER_IDS] = {BB_BLOCK_BUFFERS(ROW)};

/* Returns the number of elements per row (one copy of one token). The elements of an FP8 row are bytes: one per
 * value, and a float scale per 128 values. */
size_t bb_block_row_width(const struct bb_block *b, enum bb_block_buffer id)
{
    size_t width = (size_t)bb_expert_width(&b->layers->sizes);

    return buffer_specs[id].dtype == BB_INT8 ? width + (width + 127) / 128 * 4 : width;
}

#define ELEMENTS(buffer, text, elements, type) [BB_BLOCK_BUFFER_##buffer] = elements,

/* The local variables are the numbers of elements in the list of buffers (BB_BLOCK_BUFFERS). */
size_t bb_block_buffer_elements(const struct bb_block *b, enum bb_block_buffer id)
{
    const struct bb_layers *l = b->layers;
    const struct bb_layers_config *c = &l->config;
    const struct bb_layer_sizes *s = &l->sizes;
    const struct bb_routing *r = &l->routing;
    const size_t row = bb_block_row_width(b, id);
    /* number of ranks in an all-gather over the etp x ep ranks (expert tensor parallelism x expert parallelism) */
    const size_t gathered_ranks = (size_t)c->ep * (size_t)c->etp;

    const size_t boundary = l->boundary_elements, full = l->full_elements;
    const size_t all_boundaries = (size_t)(s->local_tokens * bb_expert_width(s)) * gathered_ranks;
    const size_t kv_block = l->kv_block, all_kv_blocks = kv_block * (size_t)c->cp;
    const size_t queries = (size_t)(s->tokens * s->heads * s->key_dim);
    const size_t keys = (size_t)(s->tokens * s->kv_heads * s->key_dim);
    const size_t values = (size_t)(s->tokens * s->kv_heads * s->value_dim);
    const size_t context = (size_t)(s->tokens * s->heads * s->value_dim);
    const size_t query_latents = (size_t)(s->local_tokens * (s->q_lora ? s->q_lora : s->hidden));
    const size_t key_latents = (size_t)(s->local_tokens * s->kv_lora);
    const size_t key_positions = (size_t)(s->local_tokens * s->rope_dim), tp = (size_t)c->tp;
    const size_t all_query_latents = query_latents * tp, all_key_latents = key_latents * tp;
    const size_t all_key_positions = key_positions * tp;
    const size_t tokens = (size_t)(l->decoder_sizes.tokens > s->tokens ? l->decoder_sizes.tokens : s->tokens);
    const size_t experts = (size_t)s->experts, all_experts = experts * gathered_ranks;
    /* probabilities, one per pair of a token and an expert: tokens x top_k, or with a capacity factor the capacity of
     * all experts */
    const size_t pairs_sent = r->uniform_rows >= 0 ? (size_t)r->uniform_rows * (size_t)r->config.ranks
                                                   : (size_t)r->config.tokens * (size_t)r->config.top_k;
    const size_t pairs_received = (size_t)b->rows_received;
    /* token copies: one per pair; with dedup dispatch a rank sends one per token and destination node */
    const size_t copies_sent = c->dispatch == BB_DISPATCH_DEDUP ? (size_t)s->rows_sent : pairs_sent;
    const size_t rows_sent = copies_sent * row, rows_routed = pairs_sent * row, rows_received = pairs_received * row;
    const size_t rows_of_etp = pairs_received * (size_t)bb_expert_width(s) * (size_t)c->etp;
    const size_t elements[] = {BB_BLOCK_BUFFERS(ELEMENTS)};

    return elements[id];
}

static enum bb_dtype_id buffer_dtype(const struct bb_block *b, enum bb_block_buffer id)
{
    int dtype = buffer_specs[id].dtype;

    return dtype == BB_NONE ? b->layers->config.dtype : (enum bb_dtype_id)dtype;
}

int bb_block_buffer(struct bb_block *b, enum bb_block_buffer id)
{
    struct bb_script *s = b->script;
    enum bb_dtype_id saved_dtype = s->dtype;

    if (b->buffers[id] == BB_NONE) {
        s->dtype = buffer_dtype(b, id);
        b->buffers[id] =
            bb_script_buffer(s, buffer_specs[id].name, BB_USE_COMMUNICATION, bb_block_buffer_elements(b, id));
        s->dtype = saved_dtype;
    }
    return b->buffers[id];
}

int bb_block_collective(struct bb_block *b, struct bb_script_lane lane, const char *what, enum bb_coll_kind kind,
                        size_t count, enum bb_block_buffer src, enum bb_block_buffer dst)
{
    enum bb_dtype_id saved_dtype = b->script->dtype;
    int from, to, op;

    if (!bb_lane_is_used(lane))
        return BB_NONE;
    from = bb_block_buffer(b, src);
    to = bb_block_buffer(b, dst);
    b->script->dtype = buffer_dtype(b, src);
    op = bb_script_collective(b->script, lane, what, kind, count, from, to);
    b->script->dtype = saved_dtype;
    return op;
}

/* ---- compute ---- */

/* Returns the sizes of the layer for which operations are currently added to the program. */
static const struct bb_layer_sizes *current_sizes(const struct bb_block *b)
{
    return b->in_decoder ? &b->layers->decoder_sizes : bb_layers_sizes(b->layers, b->script->layer);
}

/* Returns the sizes that determine how many activations a collective over tp moves: those of the layer whose operations
 * are currently added; while reads_encoder is set, those of the encoder output. */
static const struct bb_layer_sizes *moved_sizes(const struct bb_block *b)
{
    return b->reads_encoder ? &b->layers->sizes : current_sizes(b);
}

/* Returns this rank's part of the model FLOPs of kernel groups, which exclude, with a capacity factor, the rows beyond the
 * balanced load of the experts. */
static double needed_flops(const struct bb_layers *l, const struct bb_layer_sizes *sizes,
                           const struct bb_kernel_groups *c)
{
    struct bb_kernel_groups needed = *c;
    int64_t balanced = bb_layers_balanced_rows(l);

    if (l->config.capacity_factor > 0 && needed.rows > balanced)
        needed.rows = balanced;
    return bb_kernel_groups_model_flops(sizes, &needed);
}

/* first: in and out: 1 + index of the first list with the hash of the new one */
static const struct bb_cached_kernel_list *add_kernel_list(struct bb_layers *l, const struct bb_layer_sizes *sizes,
                                                           const struct bb_kernel_groups *c, int *first)
{
    struct bb_kernel_list *made = bb_resize(NULL, 1, sizeof(*made)); /* too large for a small stack */

    bb_kernel_list_clear(made);
    bb_kernel_groups_append(sizes, c, made);
    BB_GROW(l->kernel_lists, l->n_kernel_lists);
    l->kernel_lists[l->n_kernel_lists] = (struct bb_cached_kernel_list){
        *c, sizes, bb_step_copy_kernel_list(l->step, made), needed_flops(l, sizes, c), *first};
    *first = l->n_kernel_lists + 1;
    free(made);
    return &l->kernel_lists[l->n_kernel_lists++];
}

/* Lists of expert kernels (c->rows > 0) differ between ep ranks and layers: there may be many thousand lists. */
static size_t hash_of(const struct bb_layer_sizes *sizes, const struct bb_kernel_groups *c)
{
    uint64_t hash = (uint64_t)c->rows * 31 + (uint64_t)(uintptr_t)sizes / sizeof(*sizes);

    for (int i = 0; i < c->n; i++)
        hash = hash * 31 + (uint64_t)c->list[i].kind * 4 + (uint64_t)c->list[i].pass;
    return (hash * 0x9e3779b97f4a7c15u >> 32) % BB_KERNEL_LIST_HASHES; /* Fibonacci hashing */
}

/* Returns the kernel list for the kernel groups c and the current layer's sizes; builds the list if it does not
 * exist yet. Operations with equal kernel groups and sizes share one list. */
static const struct bb_cached_kernel_list *get_kernel_list(struct bb_block *b, const struct bb_kernel_groups *c)
{
    const struct bb_layer_sizes *sizes = current_sizes(b);
    struct bb_layers *l = b->layers;
    int *first = &l->kernel_list_of[hash_of(sizes, c)];

    for (int k = *first; k > 0; k = l->kernel_lists[k - 1].next) {
        const struct bb_cached_kernel_list *cached = &l->kernel_lists[k - 1];

        if (cached->sizes == sizes && cached->groups.n == c->n && cached->groups.rows == c->rows &&
            memcmp(cached->groups.list, c->list, sizeof(c->list[0]) * (size_t)c->n) == 0)
            return cached;
    }
    return add_kernel_list(l, sizes, c, first);
}

/* Returns the duration of a compute operation in microseconds: its FLOPs divided by the rate config->tflops or, if
 * the user gave the time of a layer, the operation's fraction of the layer's FLOPs times that time. */
static double time_us(const struct bb_block *b, const struct bb_kernel_groups *c, double flops)
{
    const struct bb_layers_config *config = &b->layers->config;
    bool forward = c->list[0].pass == BB_KERNELS_FORWARD;
    double given = forward || config->backward_us <= 0 ? config->forward_us : config->backward_us / 2;

    if (b->script->layer == BB_NONE || given <= 0)
        return flops / config->tflops / 1e6;
    return flops * given / bb_layers_flops(b->layers, b->script->layer);
}

void bb_block_compute(struct bb_block *b, const char *what, const struct bb_kernel_groups *c, int src, int dst)
{
    const int times = c->times ? c->times : 1;
    const struct bb_layer_sizes *sizes = current_sizes(b);
    const struct bb_cached_kernel_list *cached;

    if (!b->layers->config.gemm || c->n == 0) {
        const double flops = times * bb_kernel_groups_flops(sizes, c);

        if (flops > 0)
            bb_script_compute(b->script, what, time_us(b, c, flops),
                              b->recomputing ? 0 : times * needed_flops(b->layers, sizes, c), src, dst);
        return;
    }
    cached = get_kernel_list(b, c);
    if (cached->work->n == 0)
        return;
    bb_script_work(b->script, what, cached->work, times, src, dst);
    if (!bb_script_result(b->script))
        bb_script_newest_op(b->script)->flops = b->recomputing ? 0 : times * cached->flops;
}

void bb_block_kernels(struct bb_block *b, const char *what, enum bb_kernels_kind kind, enum bb_kernels_pass pass,
                      int src, int dst)
{
    struct bb_kernel_groups c = {0};

    bb_kernel_groups_add(&c, kind, pass);
    bb_block_compute(b, what, &c, src, dst);
}

void bb_block_recompute(struct bb_block *b, enum bb_recompute_module module, const char *what,
                        enum bb_kernels_kind kind, int64_t rows)
{
    struct bb_kernel_groups c = {.rows = rows};

    if (!bb_layers_recomputes(&b->layers->config, module))
        return;
    bb_kernel_groups_add(&c, kind, BB_KERNELS_FORWARD);
    b->recomputing = true;
    bb_block_compute(b, what, &c, BB_NONE, BB_NONE);
    b->recomputing = false;
}

int bb_block_wait_if_serial(struct bb_block *b, int op)
{
    if (!b->layers->config.serial)
        return op;
    bb_script_wait(b->script, op);
    return BB_NONE;
}

/* ---- tensor-parallel GEMMs ---- */

int bb_block_start_gather(struct bb_block *b, const char *what, int src, enum bb_block_buffer dst, int64_t count,
                          bool quantized)
{
    const enum bb_gemm_precision precision = quantized ? moved_sizes(b)->precision : BB_GEMM_DTYPE;
    const enum bb_dtype_id saved_dtype = b->script->dtype;
    const int to = bb_block_buffer(b, dst);
    double elements = (double)count;
    int op;

    if (precision != BB_GEMM_DTYPE) {
        b->script->dtype = BB_INT8;
        elements *= bb_gemm_formats[precision].bytes;
    }
    op = bb_script_collective(b->script, b->lanes.tp, what, BB_ALL_GATHER, (size_t)elements, src, to);
    b->script->dtype = saved_dtype;
    return op;
}

static int start_gather(struct bb_block *b, const char *what, int src, enum bb_block_buffer dst, bool quantized)
{
    const struct bb_layer_sizes *s = moved_sizes(b);

    return bb_block_start_gather(b, what, src, dst, s->local_tokens * s->hidden, quantized);
}

/* As bb_block_wait_if_serial, for collectives that run during a whole GEMM also with --tp-comm-overlap. */
static int wait_if_exposed(struct bb_block *b, int op)
{
    return b->layers->config.tp_overlap ? op : bb_block_wait_if_serial(b, op);
}

/* The head runs in 16 bits. */
static bool is_quantized(const struct bb_column_parallel *column)
{
    return column->gemm != BB_KERNELS_HEAD;
}

int bb_block_gather(struct bb_block *b, const char *what, int src, enum bb_block_buffer dst)
{
    bb_script_wait(b->script, start_gather(b, what, src, dst, false));
    return bb_block_buffer(b, dst);
}

int bb_block_sum(struct bb_block *b, const char *what, int dst)
{
    const struct bb_layer_sizes *s = moved_sizes(b);
    bool scattered = b->layers->sequence_sharded;

    return bb_script_collective(b->script, b->lanes.tp, what, scattered ? BB_REDUCE_SCATTER : BB_ALL_REDUCE,
                                (size_t)((scattered ? s->local_tokens : s->tokens) * s->hidden),
                                bb_block_buffer(b, BB_BLOCK_BUFFER_PARTIAL), dst);
}

static bool overlaps(const struct bb_block *b)
{
    return b->layers->sequence_sharded && b->layers->config.tp_overlap;
}

/* Adds a GEMM on the tokens of all ranks of tp but one, concurrent with the collective that was started last. */
static void compute_other_chunks(struct bb_block *b, const char *what, enum bb_kernels_kind kind,
                                 enum bb_kernels_pass pass, int src)
{
    const int chunks = b->layers->config.tp;
    const struct bb_kernel_groups c = {.list = {{kind, pass, chunks}}, .n = 1, .times = chunks - 1};

    bb_block_compute(b, what, &c, src, BB_NONE);
}

/* Appends a GEMM on the tokens of one rank of tp. */
static void add_chunk(struct bb_block *b, struct bb_kernel_groups *c, enum bb_kernels_kind kind,
                      enum bb_kernels_pass pass)
{
    bb_kernel_groups_add(c, kind, pass);
    c->list[c->n - 1].chunks = b->layers->config.tp;
}

/* Adds the norm with --compute gemm. Returns the buffer of its output. */
static int add_norm(struct bb_block *b, int in)
{
    const int normed = b->layers->config.gemm ? bb_block_buffer(b, BB_BLOCK_BUFFER_NORMED) : in;

    if (b->layers->config.gemm)
        bb_block_kernels(b, "norm", BB_KERNELS_NORM, BB_KERNELS_FORWARD, in, normed);
    return normed;
}

/* Whether attention and MLP, computed in parallel, have a norm each. */
static bool has_two_norms(const struct bb_block *b)
{
    const struct bb_arch *a = b->layers->config.arch;

    return a->parallel_attention && a->norms != 1 && b->script->layer != BB_NONE;
}

/* Two norms of one input: the input is gathered, once, instead of the outputs of both norms. */
static bool norm_follows_gather(const struct bb_block *b)
{
    return b->layers->sequence_sharded && has_two_norms(b);
}

/* Adds a norm of the tokens of all ranks of tp. */
static void add_full_norm(struct bb_block *b, enum bb_kernels_pass pass, enum bb_block_buffer id)
{
    struct bb_kernel_groups c = {.times = b->layers->sequence_sharded ? b->layers->config.tp : 1};

    bb_kernel_groups_add(&c, BB_KERNELS_NORM, pass);
    if (b->layers->config.gemm)
        bb_block_compute(b, "norm", &c, bb_block_buffer(b, id), bb_block_buffer(b, id));
}

int bb_block_column_input(struct bb_block *b, const struct bb_column_parallel *column, struct bb_kernel_groups *c,
                          int in)
{
    const bool late_norm = norm_follows_gather(b);

    if (!b->layers->sequence_sharded) {
        if (!b->gathered || has_two_norms(b))
            bb_kernel_groups_add(c, BB_KERNELS_NORM, BB_KERNELS_FORWARD);
        return in;
    }
    if (!b->gathered)
        bb_script_wait(b->script, start_gather(b, column->gather, late_norm ? in : add_norm(b, in),
                                               BB_BLOCK_BUFFER_FULL, is_quantized(column)));
    if (late_norm)
        add_full_norm(b, BB_KERNELS_FORWARD, BB_BLOCK_BUFFER_FULL);
    return bb_block_buffer(b, BB_BLOCK_BUFFER_FULL);
}

static bool has_sharded_latents(const struct bb_block *b, const struct bb_column_parallel *column)
{
    return column->gemm == BB_KERNELS_QKV && bb_layers_shards_latents(b->layers, b->script->layer);
}

int bb_block_column_forward(struct bb_block *b, const struct bb_column_parallel *column, const char *what,
                            struct bb_kernel_groups *c, int in)
{
    int op;

    if (has_sharded_latents(b, column))
        return bb_latents_forward(b, c, add_norm(b, in));
    if (!overlaps(b) || b->gathered || norm_follows_gather(b)) {
        in = bb_block_column_input(b, column, c, in);
        bb_kernel_groups_add(c, column->gemm, BB_KERNELS_FORWARD);
        return in;
    }
    in = add_norm(b, in);
    op = start_gather(b, column->gather, in, BB_BLOCK_BUFFER_FULL, true);
    compute_other_chunks(b, what, column->gemm, BB_KERNELS_FORWARD, in);
    bb_script_wait(b->script, op);
    add_chunk(b, c, column->gemm, BB_KERNELS_FORWARD);
    return bb_block_buffer(b, BB_BLOCK_BUFFER_FULL);
}

void bb_block_row(struct bb_block *b, const char *what, const char *sum, const struct bb_kernel_groups *c, int src,
                  int out)
{
    if (!bb_lane_is_used(b->lanes.tp)) {
        bb_block_compute(b, what, c, src, out);
        return;
    }
    if (b->deferred) {
        bb_block_compute(b, what, c, src, bb_block_buffer(b, BB_BLOCK_BUFFER_PARTIAL));
        return;
    }
    bb_block_compute(b, what, c, src, bb_block_buffer(b, BB_BLOCK_BUFFER_PARTIAL));
    bb_script_wait(b->script, bb_block_sum(b, sum, out));
}

void bb_block_row_forward(struct bb_block *b, enum bb_kernels_kind kind, const char *what, const char *sum,
                          struct bb_kernel_groups *c, int src, int out)
{
    int op;

    if (!overlaps(b) || b->deferred) {
        bb_kernel_groups_add(c, kind, BB_KERNELS_FORWARD);
        bb_block_row(b, what, sum, c, src, out);
        return;
    }
    add_chunk(b, c, kind, BB_KERNELS_FORWARD);
    bb_block_compute(b, what, c, src, bb_block_buffer(b, BB_BLOCK_BUFFER_PARTIAL));
    op = bb_block_sum(b, sum, out);
    compute_other_chunks(b, what, kind, BB_KERNELS_FORWARD, BB_NONE);
    bb_script_wait(b->script, op);
}

int bb_block_row_backward(struct bb_block *b, enum bb_kernels_kind kind, const char *what, const char *gather,
                          struct bb_kernel_groups *c, int in, bool with_weights)
{
    int op;

    if (!b->layers->sequence_sharded || b->gathered) {
        bb_kernel_groups_add_backward(c, kind, with_weights);
        return b->gathered && b->layers->sequence_sharded ? bb_block_buffer(b, BB_BLOCK_BUFFER_GRADIENT_FULL) : in;
    }
    op = start_gather(b, gather, in, BB_BLOCK_BUFFER_GRADIENT_FULL, true);
    if (overlaps(b))
        compute_other_chunks(b, what, kind, BB_KERNELS_DATA, in);
    bb_script_wait(b->script, op);
    bb_kernel_groups_add_backward(c, kind, with_weights);
    c->list[c->n - (with_weights ? 2 : 1)].chunks = overlaps(b) ? b->layers->config.tp : 1;
    return bb_block_buffer(b, BB_BLOCK_BUFFER_GRADIENT_FULL);
}

/* Gathers the input of a column-parallel GEMM for its weight gradient, unless the MLP of a parallel layer has gathered it.
 * Returns the operation to wait for. */
static int gather_input_again(struct bb_block *b, const struct bb_column_parallel *column)
{
    if (b->gathered && !b->layers->config.arch->lora_attention)
        return BB_NONE;
    return wait_if_exposed(b, start_gather(b, column->gather, bb_block_buffer(b, column->input), BB_BLOCK_BUFFER_FULL,
                                           is_quantized(column)));
}

void bb_block_column_backward(struct bb_block *b, const struct bb_column_parallel *column,
                              const struct bb_kernel_groups *before, int src, int out, bool with_weights, bool normed)
{
    int gathered = BB_NONE, sum, input = BB_NONE;
    struct bb_kernel_groups c = *before;

    normed = normed && (!b->deferred || has_two_norms(b));
    if (!bb_lane_is_used(b->lanes.tp)) { /* data gradient, weight gradient and gradient of the norm in one operation */
        bb_kernel_groups_add_backward(&c, column->gemm, with_weights);
        if (normed)
            bb_kernel_groups_add(&c, BB_KERNELS_NORM, BB_KERNELS_DATA);
        bb_block_compute(b, column->data, &c, src, out);
        return;
    }
    if (has_sharded_latents(b, column)) {
        bb_latents_backward(b, column, before, src, out, with_weights);
        if (normed)
            bb_block_kernels(b, "norm", BB_KERNELS_NORM, BB_KERNELS_DATA, out, out);
        return;
    }
    if (b->layers->sequence_sharded && with_weights) {
        bb_block_compute(b, column->data, &c, src, BB_NONE);
        c.n = 0;
        gathered = gather_input_again(b, column);
        input = bb_block_buffer(b, BB_BLOCK_BUFFER_FULL);
    }
    bb_kernel_groups_add(&c, column->gemm, BB_KERNELS_DATA);
    bb_block_compute(b, column->data, &c, src, bb_block_buffer(b, BB_BLOCK_BUFFER_PARTIAL));
    if (normed && (b->deferred || norm_follows_gather(b))) {
        add_full_norm(b, BB_KERNELS_DATA, BB_BLOCK_BUFFER_PARTIAL);
        normed = false;
    }
    bb_script_wait(b->script, gathered);
    sum = b->deferred ? BB_NONE : wait_if_exposed(b, bb_block_sum(b, column->sum, out));
    if (with_weights)
        bb_block_kernels(b, column->weights, column->gemm, BB_KERNELS_WEIGHTS, input, BB_NONE);
    bb_script_wait(b->script, sum);
    if (normed)
        bb_block_kernels(b, "norm", BB_KERNELS_NORM, BB_KERNELS_DATA, out, out);
}

void bb_block_column_weights(struct bb_block *b, const struct bb_column_parallel *column,
                             const struct bb_kernel_groups *before)
{
    struct bb_kernel_groups c = *before;
    int gathered = BB_NONE, input = BB_NONE;

    if (has_sharded_latents(b, column)) {
        bb_latents_weights(b, column, before);
        return;
    }
    if (b->layers->sequence_sharded) {
        gathered = gather_input_again(b, column);
        input = bb_block_buffer(b, BB_BLOCK_BUFFER_FULL);
        bb_block_compute(b, column->weights, &c, BB_NONE, BB_NONE);
        bb_script_wait(b->script, gathered);
        c.n = 0;
    }
    bb_kernel_groups_add(&c, column->gemm, BB_KERNELS_WEIGHTS);
    bb_block_compute(b, column->weights, &c, input, BB_NONE);
}
