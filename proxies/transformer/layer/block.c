/* block.c - buffers, compute operations and the collectives of tensor parallelism (see block.h). */
#include "proxies/transformer/layer/block.h"

#include "bootstrap/base/grow.h"

#include <stdlib.h>
#include <string.h>

/* ---- buffers ---- */

static long rows_received(const struct bb_block *b)
{
    const struct bb_routing *r = &b->layers->routing;
    long most = 0;

    for (int layer = 0; layer < (r->rows ? r->config.layers : 1); layer++) {
        long rows = bb_routing_received(r, layer, b->variant);

        most = rows > most ? rows : most;
    }
    return most;
}

/* Rows that a rank's own tokens make: with a capacity, as many as go out. */
static long rows_sent(const struct bb_block *b)
{
    const struct bb_routing *r = &b->layers->routing;

    return r->even >= 0 ? (long)r->even * r->config.ranks : (long)r->config.tokens * r->config.top_k;
}

/* Places that a gather over tp and ep fills. */
static size_t gathered_ranks(const struct bb_block *b)
{
    return (size_t)b->layers->config.ep * (size_t)b->layers->config.etp;
}

static size_t expert_room(const struct bb_block *b, enum bb_block_buffer room)
{
    size_t hidden = (size_t)b->layers->sizes.hidden, experts = (size_t)b->layers->sizes.experts;

    switch (room) {
    case BB_BLOCK_BUFFER_COUNTS:
        return experts;
    case BB_BLOCK_BUFFER_ALL_COUNTS:
        return experts * gathered_ranks(b);
    case BB_BLOCK_BUFFER_ROWS:
    case BB_BLOCK_BUFFER_OWN_ANSWERS:
        return (size_t)rows_sent(b) * hidden;
    case BB_BLOCK_BUFFER_EXPERT_ROWS:
    case BB_BLOCK_BUFFER_ANSWERS:
        return (size_t)rows_received(b) * hidden;
    case BB_BLOCK_BUFFER_PROBABILITIES:
        return (size_t)rows_sent(b);
    case BB_BLOCK_BUFFER_EXPERT_PROBABILITIES:
        return (size_t)rows_received(b);
    case BB_BLOCK_BUFFER_SHARED_ROWS:
    case BB_BLOCK_BUFFER_SHARED_ANSWERS:
        return (size_t)rows_received(b) * hidden * (size_t)b->layers->config.etp;
    case BB_BLOCK_BUFFER_ALL_TOKENS:
    case BB_BLOCK_BUFFER_ALL_ANSWERS:
        return b->layers->held * gathered_ranks(b);
    default:
        return 1;
    }
}

size_t bb_block_room_count(const struct bb_block *b, enum bb_block_buffer room)
{
    const struct bb_layers *l = b->layers;
    const struct bb_layer_sizes *s = &l->sizes;

    switch (room) {
    case BB_BLOCK_BUFFER_STATE:
    case BB_BLOCK_BUFFER_NORMED:
    case BB_BLOCK_BUFFER_GRADIENT:
    case BB_BLOCK_BUFFER_SHARED:
        return l->held;
    case BB_BLOCK_BUFFER_FULL:
    case BB_BLOCK_BUFFER_PARTIAL:
    case BB_BLOCK_BUFFER_GRADIENT_FULL:
        return l->whole;
    case BB_BLOCK_BUFFER_KEYS:
    case BB_BLOCK_BUFFER_NEXT_KEYS:
    case BB_BLOCK_BUFFER_KEY_GRADIENTS:
    case BB_BLOCK_BUFFER_NEXT_KEY_GRADIENTS:
        return l->key_block;
    case BB_BLOCK_BUFFER_ALL_KEYS:
    case BB_BLOCK_BUFFER_ALL_KEY_GRADIENTS:
        return l->key_block * (size_t)l->config.cp;
    case BB_BLOCK_BUFFER_QUERY:
    case BB_BLOCK_BUFFER_QUERY_HEADS:
        return (size_t)(s->tokens * s->heads * s->key_dim);
    case BB_BLOCK_BUFFER_KEY:
    case BB_BLOCK_BUFFER_KEY_HEADS:
        return (size_t)(s->tokens * s->kv_heads * s->key_dim);
    case BB_BLOCK_BUFFER_VALUE:
    case BB_BLOCK_BUFFER_VALUE_HEADS:
        return (size_t)(s->tokens * s->kv_heads * s->value_dim);
    case BB_BLOCK_BUFFER_OUT:
    case BB_BLOCK_BUFFER_OUT_HEADS:
        return (size_t)(s->tokens * s->heads * s->value_dim);
    case BB_BLOCK_BUFFER_STATISTIC:
    case BB_BLOCK_BUFFER_TOTAL:
        return (size_t)s->tokens;
    default:
        return expert_room(b, room);
    }
}

static enum bb_dtype_id room_dtype(const struct bb_block *b, enum bb_block_buffer room)
{
    switch (room) {
    case BB_BLOCK_BUFFER_COUNTS:
    case BB_BLOCK_BUFFER_ALL_COUNTS:
        return BB_INT32;
    case BB_BLOCK_BUFFER_PROBABILITIES:
    case BB_BLOCK_BUFFER_EXPERT_PROBABILITIES:
    case BB_BLOCK_BUFFER_STATISTIC:
    case BB_BLOCK_BUFFER_TOTAL:
    case BB_BLOCK_BUFFER_NORM:
        return BB_FLOAT;
    default:
        return b->layers->config.dtype;
    }
}

static const char *const room_names[BB_ROOMS] = {
    [BB_BLOCK_BUFFER_STATE] = "activations",
    [BB_BLOCK_BUFFER_NORMED] = "normed activations",
    [BB_BLOCK_BUFFER_FULL] = "gathered activations",
    [BB_BLOCK_BUFFER_PARTIAL] = "partial sums",
    [BB_BLOCK_BUFFER_GRADIENT] = "activation gradients",
    [BB_BLOCK_BUFFER_GRADIENT_FULL] = "gathered gradients",
    [BB_BLOCK_BUFFER_KEYS] = "keys and values",
    [BB_BLOCK_BUFFER_NEXT_KEYS] = "next keys and values",
    [BB_BLOCK_BUFFER_KEY_GRADIENTS] = "key and value gradients",
    [BB_BLOCK_BUFFER_NEXT_KEY_GRADIENTS] = "next key and value gradients",
    [BB_BLOCK_BUFFER_ALL_KEYS] = "all keys and values",
    [BB_BLOCK_BUFFER_ALL_KEY_GRADIENTS] = "all key and value gradients",
    [BB_BLOCK_BUFFER_QUERY] = "queries",
    [BB_BLOCK_BUFFER_QUERY_HEADS] = "queries by head",
    [BB_BLOCK_BUFFER_KEY] = "keys",
    [BB_BLOCK_BUFFER_KEY_HEADS] = "keys by head",
    [BB_BLOCK_BUFFER_VALUE] = "values",
    [BB_BLOCK_BUFFER_VALUE_HEADS] = "values by head",
    [BB_BLOCK_BUFFER_OUT] = "attention",
    [BB_BLOCK_BUFFER_OUT_HEADS] = "attention by head",
    [BB_BLOCK_BUFFER_COUNTS] = "tokens per expert",
    [BB_BLOCK_BUFFER_ALL_COUNTS] = "all tokens per expert",
    [BB_BLOCK_BUFFER_ROWS] = "dispatched tokens",
    [BB_BLOCK_BUFFER_EXPERT_ROWS] = "received tokens",
    [BB_BLOCK_BUFFER_ANSWERS] = "expert output",
    [BB_BLOCK_BUFFER_OWN_ANSWERS] = "combined tokens",
    [BB_BLOCK_BUFFER_PROBABILITIES] = "probabilities",
    [BB_BLOCK_BUFFER_EXPERT_PROBABILITIES] = "received probabilities",
    [BB_BLOCK_BUFFER_SHARED_ROWS] = "tokens of divided experts",
    [BB_BLOCK_BUFFER_SHARED_ANSWERS] = "output of divided experts",
    [BB_BLOCK_BUFFER_ALL_TOKENS] = "all tokens",
    [BB_BLOCK_BUFFER_ALL_ANSWERS] = "output for all tokens",
    [BB_BLOCK_BUFFER_SHARED] = "shared expert output",
    [BB_BLOCK_BUFFER_STATISTIC] = "loss statistics",
    [BB_BLOCK_BUFFER_TOTAL] = "reduced loss statistics",
    [BB_BLOCK_BUFFER_NORM] = "gradient norm",
};

int bb_block_room(struct bb_block *b, enum bb_block_buffer room)
{
    struct bb_script *s = b->script;
    enum bb_dtype_id usual = s->dtype;

    if (b->room.index[room] == BB_NONE) {
        s->dtype = room_dtype(b, room);
        b->room.index[room] = bb_script_buffer(s, room_names[room], BB_USE_COMMUNICATION, bb_block_room_count(b, room));
        s->dtype = usual;
    }
    return b->room.index[room];
}

/* ---- compute ---- */

static bool same_chores(const struct bb_kernel_groups *a, const struct bb_kernel_groups *b)
{
    return a->n == b->n && a->rows == b->rows && memcmp(a->list, b->list, sizeof(a->list[0]) * (size_t)a->n) == 0;
}

/* The work list of these chores, made once for all operations of the step. NULL without memory. */
static const struct bb_kernel_list *get_work_list(struct bb_layers *l, const struct bb_kernel_groups *c)
{
    struct bb_kernel_list *work;

    for (int i = 0; i < l->n_listed; i++)
        if (same_chores(&l->listed[i].chores, c))
            return l->listed[i].work;
    work = bb_step_work(l->step);
    if (!work || BB_GROW(l->listed, l->n_listed))
        return NULL;
    bb_kernel_groups_work(&l->sizes, c, work);
    l->listed[l->n_listed++] = (struct bb_listed){*c, work};
    return work;
}

/* Microseconds by the rate of FLOPs, or what the user says that a layer takes, shared by its FLOPs. */
static double time_us(const struct bb_block *b, const struct bb_kernel_groups *c, double flops)
{
    const struct bb_layers_config *config = &b->layers->config;
    bool forward = c->list[0].pass == BB_KERNELS_FORWARD;
    double given = forward || config->backward_us <= 0 ? config->forward_us : config->backward_us / 2;

    if (b->script->layer == BB_NONE || given <= 0)
        return flops / config->tflops / 1e6;
    return flops * given / bb_layers_flops(b->layers, b->script->layer);
}

/* What the model needs of it: nothing that is done again, none of the rows that only fill up a capacity. */
static double needed_flops(const struct bb_block *b, const struct bb_kernel_groups *c)
{
    struct bb_kernel_groups needed = *c;
    int64_t fair = bb_layers_fair_rows(b->layers);

    if (b->layers->config.capacity_factor > 0 && needed.rows > fair)
        needed.rows = fair;
    return b->again ? 0 : bb_kernel_groups_flops(&b->layers->sizes, &needed);
}

static void compute_listed(struct bb_block *b, const char *what, const struct bb_kernel_groups *c, int src, int dst)
{
    const struct bb_kernel_list *work = get_work_list(b->layers, c);
    struct bb_script *s = b->script;

    s->failed |= !work;
    if (s->failed || work->n == 0)
        return;
    bb_script_work(s, what, work, 1, src, dst);
    if (!s->failed)
        s->program->ops[s->program->n_ops - 1].flops = needed_flops(b, c);
}

void bb_block_compute(struct bb_block *b, const char *what, const struct bb_kernel_groups *c, int src, int dst)
{
    double flops = bb_kernel_groups_flops(&b->layers->sizes, c);

    if (b->layers->config.gemm && c->n > 0)
        compute_listed(b, what, c, src, dst);
    else if (flops > 0)
        bb_script_compute(b->script, what, time_us(b, c, flops), needed_flops(b, c), src, dst);
}

void bb_block_chore(struct bb_block *b, const char *what, enum bb_kernels_kind kind, enum bb_kernels_pass pass, int src,
                    int dst)
{
    struct bb_kernel_groups c = {0};

    bb_kernel_groups_add(&c, kind, pass);
    bb_block_compute(b, what, &c, src, dst);
}

/* ---- products that tp divides ---- */

static int start_gather(struct bb_block *b, const char *what, int src, enum bb_block_buffer dst)
{
    return bb_script_collective(b->script, b->lanes.tp, what, BB_ALL_GATHER, b->layers->held, src,
                                bb_block_room(b, dst));
}

int bb_block_gather(struct bb_block *b, const char *what, int src, enum bb_block_buffer dst)
{
    bb_script_wait(b->script, start_gather(b, what, src, dst));
    return bb_block_room(b, dst);
}

int bb_block_sum(struct bb_block *b, const char *what, int dst)
{
    const struct bb_layers *l = b->layers;
    enum bb_coll_kind kind = l->scattered ? BB_REDUCE_SCATTER : BB_ALL_REDUCE;

    return bb_script_collective(b->script, b->lanes.tp, what, kind, l->scattered ? l->held : l->whole,
                                bb_block_room(b, BB_BLOCK_BUFFER_PARTIAL), dst);
}

int bb_block_column_input(struct bb_block *b, const struct bb_column_parallel *column, struct bb_kernel_groups *c,
                          int in)
{
    if (!b->layers->scattered) {
        bb_kernel_groups_add(c, BB_KERNELS_NORM, BB_KERNELS_FORWARD);
        return in;
    }
    if (b->layers->config.gemm) {
        bb_block_chore(b, "norm", BB_KERNELS_NORM, BB_KERNELS_FORWARD, in, bb_block_room(b, BB_BLOCK_BUFFER_NORMED));
        in = bb_block_room(b, BB_BLOCK_BUFFER_NORMED);
    }
    return bb_block_gather(b, column->gather, in, BB_BLOCK_BUFFER_FULL);
}

void bb_block_row(struct bb_block *b, const char *what, const char *sum, const struct bb_kernel_groups *c, int src,
                  int out)
{
    if (!bb_has_lane(b->lanes.tp)) {
        bb_block_compute(b, what, c, src, out);
        return;
    }
    bb_block_compute(b, what, c, src, bb_block_room(b, BB_BLOCK_BUFFER_PARTIAL));
    bb_script_wait(b->script, bb_block_sum(b, sum, out));
}

/* Of one rank: all in one operation. */
static void whole_backward(struct bb_block *b, const struct bb_column_parallel *column, struct bb_kernel_groups *c,
                           int src, int out, bool with_weights, bool normed)
{
    bb_kernel_groups_add(c, column->product, BB_KERNELS_DATA);
    if (with_weights)
        bb_kernel_groups_add(c, column->product, BB_KERNELS_WEIGHTS);
    if (normed)
        bb_kernel_groups_add(c, BB_KERNELS_NORM, BB_KERNELS_DATA);
    bb_block_compute(b, column->data, c, src, out);
}

void bb_block_column_backward(struct bb_block *b, const struct bb_column_parallel *column,
                              const struct bb_kernel_groups *before, int src, int out, bool with_weights, bool normed)
{
    int gathered = BB_NONE, sum, input = BB_NONE;
    struct bb_kernel_groups c = *before;

    if (!bb_has_lane(b->lanes.tp)) {
        whole_backward(b, column, &c, src, out, with_weights, normed);
        return;
    }
    if (b->layers->scattered && with_weights) {
        bb_block_compute(b, column->data, &c, src, BB_NONE);
        c.n = 0;
        gathered = start_gather(b, column->gather, bb_block_room(b, BB_BLOCK_BUFFER_STATE), BB_BLOCK_BUFFER_FULL);
        input = bb_block_room(b, BB_BLOCK_BUFFER_FULL);
    }
    bb_kernel_groups_add(&c, column->product, BB_KERNELS_DATA);
    bb_block_compute(b, column->data, &c, src, bb_block_room(b, BB_BLOCK_BUFFER_PARTIAL));
    bb_script_wait(b->script, gathered);
    sum = bb_block_sum(b, column->sum, out);
    if (with_weights)
        bb_block_chore(b, column->weights, column->product, BB_KERNELS_WEIGHTS, input, BB_NONE);
    bb_script_wait(b->script, sum);
    if (normed)
        bb_block_chore(b, "norm", BB_KERNELS_NORM, BB_KERNELS_DATA, out, out);
}

void bb_block_column_weights(struct bb_block *b, const struct bb_column_parallel *column,
                             const struct bb_kernel_groups *before)
{
    struct bb_kernel_groups c = *before;
    int gathered = BB_NONE, input = BB_NONE;

    if (b->layers->scattered) {
        gathered = start_gather(b, column->gather, bb_block_room(b, BB_BLOCK_BUFFER_STATE), BB_BLOCK_BUFFER_FULL);
        input = bb_block_room(b, BB_BLOCK_BUFFER_FULL);
        bb_block_compute(b, column->weights, &c, BB_NONE, BB_NONE);
        bb_script_wait(b->script, gathered);
        c.n = 0;
    }
    bb_kernel_groups_add(&c, column->product, BB_KERNELS_WEIGHTS);
    bb_block_compute(b, column->weights, &c, input, BB_NONE);
}
