/*
 * expert_parallel.c - the MoE sublayer: router, dispatch, experts, combine, and shared experts that overlap dispatch
 * and combine. It has three kinds of dispatch (enum bb_dispatch_mode):
 *
 *   alltoall    forward: router; all-gather of the token counts per expert (dropless only: the receivers need the
 *               counts); tokens and probabilities to their experts; experts (sharded by etp: all_gather before,
 *               reduce_scatter after); outputs back to the ranks of the tokens. Backward: the output gradients are sent
 *               like the tokens of the forward pass; token and probability gradients are sent in the reverse direction.
 *   all_gather  every rank gets all tokens and computes its own experts for them.
 *   dedup       one copy of a token per node; see node_dispatch.c.
 *
 * Shared experts are sharded by tp like a dense MLP. With latent experts (moe_latent), which every tp rank projects to and
 * from, the exchanged rows have the width of the latent.
 */
#include "proxies/form/author/script_fork.h"
#include "proxies/workloads/transformer/layer/block.h"

static const struct bb_column_parallel shared_up = {.gemm = BB_KERNELS_SHARED_UP,
                                                    .gather = "shared expert input",
                                                    .sum = "shared expert gradient",
                                                    .data = "shared expert gradient",
                                                    .weights = "shared expert weights"};

static bool has_shared(const struct bb_block *b)
{
    return b->layers->sizes.shared_ffn > 0;
}

/* ---- exchange of token copies between the ep ranks ---- */

/* One exchange of rows over the ep ranks: to the ranks of their experts, or (reversed) back to the ranks of their
 * tokens. A row is the activations, or their gradients, of one token for one expert. */
struct row_exchange {
    const char *what;
    enum bb_block_buffer src, dst;
    size_t width; /* elements per row */
    bool reversed;
};

/* Starts an all-to-all; if the ep ranks exchange different numbers of rows (token copies), an alltoallv with one row
 * count per pair of ranks, in which rows for experts on the sending rank are not sent. */
static int start_exchange(struct bb_block *b, int layer, const struct row_exchange *w)
{
    int uniform_rows = b->layers->routing.uniform_rows;

    if (!bb_lane_is_used(b->lanes.ep))
        return BB_NONE;
    if (uniform_rows >= 0)
        return bb_block_collective(b, b->lanes.ep, w->what, BB_ALLTOALL, (size_t)uniform_rows * w->width, w->src,
                                   w->dst);
    return bb_script_alltoallv(
        b->script, b->lanes.ep, w->what,
        &(struct bb_script_rows){
            .table = b->layers->row_counts[layer], .rank = b->ep_rank, .width = w->width, .reversed = w->reversed},
        bb_block_buffer(b, w->src), bb_block_buffer(b, w->dst));
}

static int start_row_exchange(struct bb_block *b, int layer, const char *what, enum bb_block_buffer src,
                              enum bb_block_buffer dst, bool reversed)
{
    return start_exchange(b, layer, &(struct row_exchange){what, src, dst, bb_block_row_width(b, src), reversed});
}

/* Starts to send rows (one token for one expert) to their experts. With dedup dispatch, starts only the sends to
 * other nodes; finish_dispatch waits for these sends and distributes the rows inside the node. */
static int start_dispatch(struct bb_block *b, int layer, const char *what, enum bb_block_buffer src,
                          enum bb_block_buffer dst)
{
    if (!bb_uses_node_dispatch(b))
        return start_row_exchange(b, layer, what, src, dst, false);
    bb_node_dispatch_start(b, what, src);
    return BB_NONE;
}

static int start_return(struct bb_block *b, int layer, const char *what, enum bb_kernels_pass pass,
                        enum bb_block_buffer src, enum bb_block_buffer dst)
{
    return bb_uses_node_dispatch(b) ? bb_node_return_start(b, what, pass, src, dst)
                                    : start_row_exchange(b, layer, what, src, dst, true);
}

static int start_probabilities(struct bb_block *b, int layer, bool reversed)
{
    struct row_exchange dispatch = {"probabilities", BB_BLOCK_BUFFER_PROBABILITIES,
                                    BB_BLOCK_BUFFER_EXPERT_PROBABILITIES, 1, false};
    struct row_exchange gradients = {"probability gradients", BB_BLOCK_BUFFER_EXPERT_PROBABILITIES,
                                     BB_BLOCK_BUFFER_PROBABILITIES, 1, true};

    if (!bb_uses_node_dispatch(b))
        return start_exchange(b, layer, reversed ? &gradients : &dispatch);
    if (reversed)
        return bb_node_return_start_probabilities(b, gradients.what);
    bb_node_dispatch_start_probabilities(b, dispatch.what);
    return BB_NONE;
}

static void finish_dispatch(struct bb_block *b, const char *what, enum bb_kernels_pass pass, enum bb_block_buffer dst)
{
    if (bb_uses_node_dispatch(b))
        bb_node_dispatch_finish(b, what, pass, dst);
}

/* Adds an all-gather of the number of tokens per expert, from which each rank computes how many rows it receives
 * (dropless experts only). */
static void gather_counts(struct bb_block *b)
{
    const struct bb_layers *l = b->layers;
    int op;

    if (l->config.capacity_factor > 0)
        return;
    op = bb_block_collective(b, b->lanes.etp_ep, "tokens per expert", BB_ALL_GATHER, (size_t)l->sizes.experts,
                             BB_BLOCK_BUFFER_COUNTS, BB_BLOCK_BUFFER_ALL_COUNTS);
    if (op != BB_NONE)
        bb_script_op_at(b->script, op)->host_reads = true;
    bb_script_wait(b->script, op);
}

/* ---- routed experts ---- */

static int64_t rows_received(const struct bb_block *b, int layer)
{
    return bb_routing_received(&b->layers->routing, layer, b->ep_rank);
}

static void add_experts(const struct bb_block *b, int layer, struct bb_kernel_groups *c, enum bb_kernels_pass pass)
{
    c->rows = rows_received(b, layer) * b->layers->config.etp;
    if (c->rows > 0)
        bb_kernel_groups_add(c, BB_KERNELS_EXPERTS, pass);
}

static void run_etp_collective(struct bb_block *b, int layer, enum bb_coll_kind kind, enum bb_block_buffer src,
                               enum bb_block_buffer dst)
{
    size_t count = (size_t)(rows_received(b, layer) * bb_expert_width(&b->layers->sizes));

    if (count)
        bb_script_wait(b->script,
                       bb_block_collective(b, b->lanes.etp, "expert-tensor-parallel tokens", kind, count, src, dst));
}

/* Adds the computation of the experts on the rows (token copies) in `src`, with output in `dst`. With etp > 1,
 * all-gathers the rows over etp before the computation and reduce-scatters the output after it. */
static void run_experts(struct bb_block *b, int layer, const struct bb_kernel_groups *c, enum bb_block_buffer src,
                        enum bb_block_buffer dst)
{
    if (!bb_lane_is_used(b->lanes.etp)) {
        bb_block_compute(b, "experts", c, bb_block_buffer(b, src), bb_block_buffer(b, dst));
        return;
    }
    run_etp_collective(b, layer, BB_ALL_GATHER, src, BB_BLOCK_BUFFER_ETP_ROWS);
    bb_block_compute(b, "experts", c, bb_block_buffer(b, BB_BLOCK_BUFFER_ETP_ROWS),
                     bb_block_buffer(b, BB_BLOCK_BUFFER_ETP_OUTPUT));
    run_etp_collective(b, layer, BB_REDUCE_SCATTER, BB_BLOCK_BUFFER_ETP_OUTPUT, dst);
}

/* ---- shared experts ---- */

static void gather_shared(struct bb_block *b, const char *what, int src, enum bb_block_buffer dst)
{
    if (has_shared(b) && b->layers->sequence_sharded)
        bb_block_gather(b, what, src, dst);
}

static void shared_up_forward(struct bb_block *b)
{
    if (has_shared(b))
        bb_block_kernels(b, "shared expert", BB_KERNELS_SHARED_UP, BB_KERNELS_FORWARD, BB_NONE, BB_NONE);
}

/* Adds the down GEMM of the shared experts and starts the sum of its output over tp. Returns the program index of
 * the sum. */
static int shared_down_forward(struct bb_block *b)
{
    bool tp_sharded = bb_lane_is_used(b->lanes.tp);

    if (!has_shared(b))
        return BB_NONE;
    bb_block_kernels(b, "shared expert", BB_KERNELS_SHARED_DOWN, BB_KERNELS_FORWARD, BB_NONE,
                     bb_block_buffer(b, tp_sharded ? BB_BLOCK_BUFFER_PARTIAL : BB_BLOCK_BUFFER_SHARED));
    return tp_sharded ? bb_block_sum(b, "shared expert", bb_block_buffer(b, BB_BLOCK_BUFFER_SHARED)) : BB_NONE;
}

static void shared_down_backward(struct bb_block *b, bool with_weights)
{
    struct bb_kernel_groups c = {0};

    if (!has_shared(b))
        return;
    if (bb_layers_recomputes(&b->layers->config, BB_MODULE_SHARED_EXPERTS)) {
        b->recomputing = true;
        gather_shared(b, "shared expert input", bb_block_buffer(b, BB_BLOCK_BUFFER_STATE), BB_BLOCK_BUFFER_FULL);
        shared_up_forward(b);
        bb_script_wait(b->script, shared_down_forward(b));
        b->recomputing = false;
    }
    bb_kernel_groups_add_backward(&c, BB_KERNELS_SHARED_DOWN, with_weights);
    bb_block_compute(b, "shared expert gradient", &c, BB_NONE, BB_NONE);
}

static void shared_up_backward(struct bb_block *b, bool with_weights)
{
    static const struct bb_kernel_groups empty;

    if (has_shared(b))
        bb_block_column_backward(b, &shared_up, &empty, BB_NONE, bb_block_buffer(b, BB_BLOCK_BUFFER_SHARED),
                                 with_weights, false);
}

/* ---- forward ---- */

static void route_tokens(struct bb_block *b, int in)
{
    struct bb_kernel_groups c = {0};
    bool counted = bb_lane_is_used(b->lanes.etp_ep) && b->layers->config.capacity_factor <= 0 &&
                   b->layers->config.dispatch == BB_DISPATCH_ALL_TO_ALL;

    bb_kernel_groups_add(&c, BB_KERNELS_NORM, BB_KERNELS_FORWARD);
    bb_kernel_groups_add(&c, BB_KERNELS_ROUTER, BB_KERNELS_FORWARD);
    bb_kernel_groups_add(&c, BB_KERNELS_LATENT_IN, BB_KERNELS_FORWARD);
    bb_block_compute(b, "router", &c, in, counted ? bb_block_buffer(b, BB_BLOCK_BUFFER_COUNTS) : BB_NONE);
}

/* Returns `far`, the buffer of rows received from other ranks, or, if ep is 1 and no rows are exchanged, `near`, the
 * buffer of this rank's own rows. */
static enum bb_block_buffer ep_buffer(const struct bb_block *b, enum bb_block_buffer far, enum bb_block_buffer near)
{
    return bb_lane_is_used(b->lanes.ep) ? far : near;
}

static void exchange_forward(struct bb_block *b, int layer, int in, int out)
{
    enum bb_block_buffer own = bb_sent_buffer(b, BB_BLOCK_BUFFER_ROWS, BB_BLOCK_BUFFER_ROWS_8);
    enum bb_block_buffer rows = bb_sent_buffer(b, ep_buffer(b, BB_BLOCK_BUFFER_EXPERT_ROWS, BB_BLOCK_BUFFER_ROWS),
                                               BB_BLOCK_BUFFER_EXPERT_ROWS_8);
    enum bb_block_buffer answers = ep_buffer(b, BB_BLOCK_BUFFER_EXPERT_OUTPUT, BB_BLOCK_BUFFER_COMBINED_ROWS);
    struct bb_kernel_groups c = {0};
    int tokens, probabilities, combined, shared;

    gather_counts(b);
    bb_block_kernels(b, "permute", BB_KERNELS_PERMUTE, BB_KERNELS_FORWARD, in, bb_block_buffer(b, own));
    tokens = start_dispatch(b, layer, "dispatch", own, rows);
    probabilities = start_probabilities(b, layer, false);
    shared_up_forward(b);
    bb_script_wait(b->script, tokens);
    bb_script_wait(b->script, probabilities);
    finish_dispatch(b, "dispatch", BB_KERNELS_FORWARD, rows);
    add_experts(b, layer, &c, BB_KERNELS_FORWARD);
    run_experts(b, layer, &c, rows, answers);
    combined = start_return(b, layer, "combine", BB_KERNELS_FORWARD, answers, BB_BLOCK_BUFFER_COMBINED_ROWS);
    shared = shared_down_forward(b);
    bb_script_wait(b->script, combined);
    bb_script_wait(b->script, shared);
    c.n = 0;
    bb_kernel_groups_add(&c, BB_KERNELS_UNPERMUTE, BB_KERNELS_FORWARD);
    bb_kernel_groups_add(&c, BB_KERNELS_LATENT_OUT, BB_KERNELS_FORWARD);
    bb_block_compute(b, "unpermute", &c, bb_block_buffer(b, BB_BLOCK_BUFFER_COMBINED_ROWS), out);
}

static size_t exchanged_elements(const struct bb_block *b)
{
    return (size_t)(b->layers->sizes.local_tokens * bb_expert_width(&b->layers->sizes));
}

static int gather_tokens(struct bb_block *b, const char *what, int src)
{
    return bb_script_collective(b->script, b->lanes.etp_ep, what, BB_ALL_GATHER, exchanged_elements(b), src,
                                bb_block_buffer(b, BB_BLOCK_BUFFER_ALL_TOKENS));
}

static int scatter_answers(struct bb_block *b, const char *what, int dst)
{
    return bb_script_collective(b->script, b->lanes.etp_ep, what, BB_REDUCE_SCATTER, exchanged_elements(b),
                                bb_block_buffer(b, BB_BLOCK_BUFFER_ALL_OUTPUT), dst);
}

static void gather_forward(struct bb_block *b, int layer, int in, int out)
{
    struct bb_kernel_groups c = {0};
    int tokens = gather_tokens(b, "dispatch", in), combined, shared;

    shared_up_forward(b);
    bb_script_wait(b->script, tokens);
    bb_kernel_groups_add(&c, BB_KERNELS_PERMUTE, BB_KERNELS_FORWARD);
    add_experts(b, layer, &c, BB_KERNELS_FORWARD);
    bb_kernel_groups_add(&c, BB_KERNELS_UNPERMUTE, BB_KERNELS_FORWARD);
    bb_block_compute(b, "experts", &c, bb_block_buffer(b, BB_BLOCK_BUFFER_ALL_TOKENS),
                     bb_block_buffer(b, BB_BLOCK_BUFFER_ALL_OUTPUT));
    combined = scatter_answers(b, "combine", out);
    shared = shared_down_forward(b);
    bb_script_wait(b->script, combined);
    bb_script_wait(b->script, shared);
    bb_block_kernels(b, "latent", BB_KERNELS_LATENT_OUT, BB_KERNELS_FORWARD, out, out);
}

/* Returns whether the experts use all_gather dispatch with more than one rank. With etp x ep = 1 a rank has all
 * experts and gathers nothing. */
static bool gathers_tokens(const struct bb_block *b)
{
    return b->layers->config.dispatch == BB_DISPATCH_ALL_GATHER && bb_lane_is_used(b->lanes.etp_ep);
}

void bb_experts_forward(struct bb_block *b, int layer, int in, int out)
{
    route_tokens(b, in);
    gather_shared(b, "shared expert input", in, BB_BLOCK_BUFFER_FULL);
    (gathers_tokens(b) ? gather_forward : exchange_forward)(b, layer, in, out);
}

/* ---- backward ---- */

static void add_expert_gradients(const struct bb_block *b, int layer, struct bb_kernel_groups *c, bool with_weights)
{
    add_experts(b, layer, c, BB_KERNELS_DATA);
    if (with_weights)
        add_experts(b, layer, c, BB_KERNELS_WEIGHTS);
}

static void router_backward(struct bb_block *b, bool permuted, int src, int out, bool with_weights)
{
    struct bb_kernel_groups c = {0};

    if (permuted)
        bb_kernel_groups_add(&c, BB_KERNELS_PERMUTE, BB_KERNELS_DATA);
    bb_kernel_groups_add_backward(&c, BB_KERNELS_LATENT_IN, with_weights);
    bb_kernel_groups_add_backward(&c, BB_KERNELS_ROUTER, with_weights);
    bb_kernel_groups_add(&c, BB_KERNELS_NORM, BB_KERNELS_DATA);
    bb_block_compute(b, "router gradient", &c, src, out);
}

static void exchange_backward(struct bb_block *b, int layer, int in, int out, bool with_weights)
{
    enum bb_block_buffer rows = ep_buffer(b, BB_BLOCK_BUFFER_EXPERT_ROWS, BB_BLOCK_BUFFER_ROWS);
    enum bb_block_buffer answers = ep_buffer(b, BB_BLOCK_BUFFER_EXPERT_OUTPUT, BB_BLOCK_BUFFER_COMBINED_ROWS);
    enum bb_block_buffer own = bb_sent_buffer(b, BB_BLOCK_BUFFER_COMBINED_ROWS, BB_BLOCK_BUFFER_ROWS_8);
    struct bb_kernel_groups c = {0}, first = {0};
    int combined, tokens, probabilities;

    answers = bb_sent_buffer(b, answers, BB_BLOCK_BUFFER_EXPERT_ROWS_8);
    add_expert_gradients(b, layer, &c, with_weights);
    bb_kernel_groups_add_backward(&first, BB_KERNELS_LATENT_OUT, with_weights);
    bb_kernel_groups_add(&first, BB_KERNELS_UNPERMUTE, BB_KERNELS_DATA);
    bb_block_compute(b, "unpermute", &first, in, bb_block_buffer(b, own));
    combined = start_dispatch(b, layer, "combine gradients", own, answers);
    shared_down_backward(b, with_weights);
    bb_script_wait(b->script, combined);
    finish_dispatch(b, "combine gradients", BB_KERNELS_DATA, answers);
    run_experts(b, layer, &c, answers, rows);
    tokens = start_return(b, layer, "dispatch gradients", BB_KERNELS_DATA, rows, BB_BLOCK_BUFFER_ROWS);
    probabilities = start_probabilities(b, layer, true);
    shared_up_backward(b, with_weights);
    bb_script_wait(b->script, tokens);
    bb_script_wait(b->script, probabilities);
    router_backward(b, true, bb_block_buffer(b, BB_BLOCK_BUFFER_ROWS), out, with_weights);
}

static void gather_backward(struct bb_block *b, int layer, int in, int out, bool with_weights)
{
    struct bb_kernel_groups c = {0}, first = {0};
    int combined, tokens;

    bb_kernel_groups_add_backward(&first, BB_KERNELS_LATENT_OUT, with_weights);
    bb_block_compute(b, "latent", &first, in, in);
    combined = gather_tokens(b, "combine gradients", in);
    shared_down_backward(b, with_weights);
    bb_script_wait(b->script, combined);
    bb_kernel_groups_add(&c, BB_KERNELS_UNPERMUTE, BB_KERNELS_DATA);
    add_expert_gradients(b, layer, &c, with_weights);
    bb_kernel_groups_add(&c, BB_KERNELS_PERMUTE, BB_KERNELS_DATA);
    bb_block_compute(b, "experts", &c, bb_block_buffer(b, BB_BLOCK_BUFFER_ALL_TOKENS),
                     bb_block_buffer(b, BB_BLOCK_BUFFER_ALL_OUTPUT));
    tokens = scatter_answers(b, "dispatch gradients", out);
    shared_up_backward(b, with_weights);
    bb_script_wait(b->script, tokens);
    router_backward(b, false, out, out, with_weights);
}

void bb_experts_backward(struct bb_block *b, int layer, int in, int out, bool with_weights)
{
    const int state = bb_block_buffer(b, BB_BLOCK_BUFFER_STATE);

    bb_block_recompute(b, BB_MODULE_NORM, "norm", BB_KERNELS_NORM_AGAIN, 0);
    if (bb_layers_recomputes(&b->layers->config, BB_MODULE_MOE)) {
        b->recomputing = true;
        bb_experts_forward(b, layer, state, state);
        b->recomputing = false;
    }
    bb_block_recompute(b, BB_MODULE_EXPERT_ACTIVATION, "activation", BB_KERNELS_EXPERT_ACTIVATION,
                       rows_received(b, layer) * b->layers->config.etp);
    gather_shared(b, "shared expert gradient", in, BB_BLOCK_BUFFER_GRADIENT_FULL);
    (gathers_tokens(b) ? gather_backward : exchange_backward)(b, layer, in, out, with_weights);
}

void bb_experts_weights(struct bb_block *b, int layer)
{
    struct bb_kernel_groups c = {0};

    add_experts(b, layer, &c, BB_KERNELS_WEIGHTS);
    bb_kernel_groups_add(&c, BB_KERNELS_ROUTER, BB_KERNELS_WEIGHTS);
    bb_kernel_groups_add(&c, BB_KERNELS_LATENT_IN, BB_KERNELS_WEIGHTS);
    bb_kernel_groups_add(&c, BB_KERNELS_LATENT_OUT, BB_KERNELS_WEIGHTS);
    if (!has_shared(b)) {
        bb_block_compute(b, "expert weights", &c, BB_NONE, BB_NONE);
        return;
    }
    bb_kernel_groups_add(&c, BB_KERNELS_SHARED_DOWN, BB_KERNELS_WEIGHTS);
    bb_block_column_weights(b, &shared_up, &c);
}
