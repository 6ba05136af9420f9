/*
 * latent_attention.c - projections of latent attention (MLA) with sequence parallelism, as in Megatron-LM
 * (multi_latent_attention.py): every tp rank has the weights of the down projections and applies them to its own tokens. The
 * rotated part of the keys is gathered over tp by itself. The up projections are column-parallel: each gathers its latent,
 * in the backward pass a second time for the weight gradient, and sums the gradient of the latent over tp. The projections of
 * an indexer (dsa.py) read the tokens of all ranks and pass no gradient on.
 */
#include "proxies/workloads/transformer/layer/block.h"

enum { FIRST_UP = 1, LATENTS = 3 }; /* index of the first latent that is the input of an up projection; all latents */

static const struct latent {
    const char *gather, *sum;
    enum bb_block_buffer local, all;
} latents[LATENTS] = {
    {"key positions", "key position gradients", BB_BLOCK_BUFFER_KEY_POSITION, BB_BLOCK_BUFFER_ALL_KEY_POSITION},
    {"query latents", "query latent gradients", BB_BLOCK_BUFFER_QUERY_LATENT, BB_BLOCK_BUFFER_ALL_QUERY_LATENT},
    {"key and value latents", "key and value latent gradients", BB_BLOCK_BUFFER_KEY_LATENT,
     BB_BLOCK_BUFFER_ALL_KEY_LATENT},
};

/* Models without rotation have no key positions. */
static int gather_latent(struct bb_block *b, int i, bool quantized)
{
    if (bb_block_buffer_elements(b, latents[i].local) == 0)
        return BB_NONE;
    return bb_block_start_gather(b, latents[i].gather, bb_block_buffer(b, latents[i].local), latents[i].all,
                                 (int64_t)bb_block_buffer_elements(b, latents[i].local), quantized);
}

static int sum_gradient(struct bb_block *b, int i)
{
    const size_t count = bb_block_buffer_elements(b, latents[i].local);

    if (count == 0)
        return BB_NONE;
    return bb_block_collective(b, b->lanes.tp, latents[i].sum, BB_REDUCE_SCATTER, count, latents[i].all,
                               latents[i].local);
}

/* Starts the all-gathers of the inputs of the up projections. */
static void gather_up_inputs(struct bb_block *b, int ops[LATENTS])
{
    for (int i = FIRST_UP; i < LATENTS; i++)
        ops[i] = bb_block_wait_if_serial(b, gather_latent(b, i, true));
}

static void wait_for(struct bb_block *b, const int ops[LATENTS], int first)
{
    for (int i = first; i < LATENTS; i++)
        bb_script_wait(b->script, ops[i]);
}

int bb_latents_forward(struct bb_block *b, struct bb_kernel_groups *c, int in)
{
    const struct bb_layer_sizes *s = bb_layers_sizes(b->layers, b->script->layer);

    bb_block_kernels(b, "latents", BB_KERNELS_LATENT_DOWN, BB_KERNELS_FORWARD, in,
                     bb_block_buffer(b, BB_BLOCK_BUFFER_QUERY_LATENT));
    for (int i = 0; i < LATENTS; i++)
        bb_script_wait(b->script, gather_latent(b, i, i >= FIRST_UP));
    if (s->index_heads) {
        bb_script_wait(b->script, bb_block_start_gather(b, "indexer input", in, BB_BLOCK_BUFFER_FULL,
                                                        s->local_tokens * s->hidden, false));
        bb_script_wait(b->script, gather_latent(b, FIRST_UP, false));
    }
    bb_kernel_groups_add(c, BB_KERNELS_LATENT_UP, BB_KERNELS_FORWARD);
    bb_kernel_groups_add(c, BB_KERNELS_INDEX, BB_KERNELS_FORWARD);
    return bb_block_buffer(b, BB_BLOCK_BUFFER_ALL_KEY_LATENT);
}

void bb_latents_recompute(struct bb_block *b)
{
    int ops[LATENTS];

    if (!bb_layers_shards_latents(b->layers, b->script->layer) ||
        !bb_layers_recomputes(&b->layers->config, BB_MODULE_LATENT_UP))
        return;
    gather_up_inputs(b, ops);
    wait_for(b, ops, FIRST_UP);
}

/* The sum of the gradient of the key positions follows the weight gradients of the up projections. */
void bb_latents_backward(struct bb_block *b, const struct bb_column_parallel *column,
                         const struct bb_kernel_groups *before, int src, int out, bool with_weights)
{
    const int gradients = bb_block_buffer(b, BB_BLOCK_BUFFER_ALL_KEY_LATENT);
    struct bb_kernel_groups c = *before;
    int gathered[LATENTS] = {BB_NONE, BB_NONE, BB_NONE}, sums[LATENTS];

    if (with_weights) {
        bb_block_compute(b, column->data, &c, src, BB_NONE);
        c.n = 0;
        gather_up_inputs(b, gathered);
    }
    bb_kernel_groups_add(&c, BB_KERNELS_LATENT_UP, BB_KERNELS_DATA);
    bb_block_compute(b, column->data, &c, src, gradients);
    wait_for(b, gathered, FIRST_UP);
    for (int i = LATENTS - 1; i >= 0; i--)
        sums[i] = bb_block_wait_if_serial(b, sum_gradient(b, i));
    if (with_weights)
        bb_block_kernels(b, column->weights, BB_KERNELS_LATENT_UP, BB_KERNELS_WEIGHTS, gradients, BB_NONE);
    wait_for(b, sums, 0);
    c.n = 0;
    bb_kernel_groups_add_backward(&c, BB_KERNELS_INDEX, with_weights);
    bb_kernel_groups_add_backward(&c, BB_KERNELS_LATENT_DOWN, with_weights);
    bb_block_compute(b, "latent gradients", &c, bb_block_buffer(b, BB_BLOCK_BUFFER_QUERY_LATENT), out);
}

void bb_latents_weights(struct bb_block *b, const struct bb_column_parallel *column,
                        const struct bb_kernel_groups *before)
{
    static const enum bb_kernels_kind kinds[] = {BB_KERNELS_LATENT_UP, BB_KERNELS_INDEX, BB_KERNELS_LATENT_DOWN};
    struct bb_kernel_groups c = {0};
    int gathered[LATENTS];

    gather_up_inputs(b, gathered);
    bb_block_compute(b, column->weights, before, BB_NONE, BB_NONE);
    wait_for(b, gathered, FIRST_UP);
    for (size_t i = 0; i < sizeof(kinds) / sizeof(kinds[0]); i++)
        bb_kernel_groups_add(&c, kinds[i], BB_KERNELS_WEIGHTS);
    bb_block_compute(b, column->weights, &c, bb_block_buffer(b, BB_BLOCK_BUFFER_ALL_KEY_LATENT), BB_NONE);
}
