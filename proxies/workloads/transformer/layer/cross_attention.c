/*
 * cross_attention.c - cross attention of decoder layers to the encoder output. Each decoder layer has its own key and
 * value projections of the encoder output, sharded over tp like the query projection. With sequence parallelism each
 * layer all-gathers the encoder output in the forward pass and a second time in the backward pass. Each layer sums its
 * gradients of the encoder output over tp.
 */
#include "proxies/workloads/transformer/layer/block.h"

static const struct bb_column_parallel queries = {.gemm = BB_KERNELS_CROSS_QUERY,
                                                  .gather = "cross attention input",
                                                  .sum = "cross attention gradients",
                                                  .data = "cross attention gradients",
                                                  .weights = "cross attention weights"};

static const struct bb_column_parallel keys = {.gemm = BB_KERNELS_CROSS_KEYS,
                                               .gather = "encoder output",
                                               .sum = "encoder output gradients",
                                               .data = "encoder output gradients",
                                               .weights = "cross key weights",
                                               .input = BB_BLOCK_BUFFER_ENCODER_OUTPUT};

void bb_decoder_begin(struct bb_block *b)
{
    struct bb_kernel_groups c = {0};

    b->script->phase = BB_PHASE_FORWARD;
    bb_block_kernels(b, "encoder norm", BB_KERNELS_NORM, BB_KERNELS_FORWARD, bb_block_buffer(b, BB_BLOCK_BUFFER_STATE),
                     bb_block_buffer(b, BB_BLOCK_BUFFER_ENCODER_OUTPUT));
    b->in_decoder = true;
    bb_kernel_groups_add(&c, BB_KERNELS_EMBEDDING, BB_KERNELS_FORWARD);
    bb_block_row(b, "decoder embedding", "decoder embedding", &c, BB_NONE, bb_block_buffer(b, BB_BLOCK_BUFFER_STATE));
    b->in_decoder = false;
}

void bb_decoder_begin_backward(struct bb_block *b)
{
    int gradient = bb_block_buffer(b, BB_BLOCK_BUFFER_GRADIENT);

    b->script->phase = BB_PHASE_BACKWARD;
    b->in_decoder = true;
    if (b->layers->sequence_sharded)
        bb_block_gather(b, "decoder embedding gradients", gradient, BB_BLOCK_BUFFER_GRADIENT_FULL);
    b->in_decoder = false;
    bb_block_kernels(b, "encoder norm", BB_KERNELS_NORM, BB_KERNELS_DATA,
                     bb_block_buffer(b, BB_BLOCK_BUFFER_ENCODER_GRADIENT), gradient);
}

/* Computes keys and values from the encoder output, for the heads of this tp rank. */
static void make_keys(struct bb_block *b)
{
    int encoder_output = bb_block_buffer(b, BB_BLOCK_BUFFER_ENCODER_OUTPUT);

    b->reads_encoder = true;
    if (b->layers->sequence_sharded)
        encoder_output = bb_block_gather(b, keys.gather, encoder_output, BB_BLOCK_BUFFER_FULL);
    b->reads_encoder = false;
    bb_block_kernels(b, "cross keys", BB_KERNELS_CROSS_KEYS, BB_KERNELS_FORWARD, encoder_output, BB_NONE);
}

void bb_cross_forward(struct bb_block *b, int in, int out)
{
    struct bb_kernel_groups c = {0};
    int src;

    make_keys(b);
    src = bb_block_column_input(b, &queries, &c, in);
    bb_kernel_groups_add(&c, BB_KERNELS_CROSS_QUERY, BB_KERNELS_FORWARD);
    bb_kernel_groups_add(&c, BB_KERNELS_CROSS_CORE, BB_KERNELS_FORWARD);
    bb_kernel_groups_add(&c, BB_KERNELS_OUT, BB_KERNELS_FORWARD);
    bb_block_row(b, "cross attention", "cross attention", &c, src, out);
}

void bb_cross_backward(struct bb_block *b, int in, int out, bool with_weights)
{
    static const struct bb_kernel_groups empty;
    struct bb_kernel_groups c = {0};
    int src = in;

    if (b->layers->sequence_sharded)
        src = bb_block_gather(b, "cross attention output gradients", in, BB_BLOCK_BUFFER_GRADIENT_FULL);
    if (b->layers->config.recompute == BB_RECOMPUTE_SELECTIVE) {
        b->recomputing = true;
        bb_block_kernels(b, "cross attention", BB_KERNELS_CROSS_CORE, BB_KERNELS_FORWARD, BB_NONE, BB_NONE);
        b->recomputing = false;
    }
    bb_kernel_groups_add_backward(&c, BB_KERNELS_OUT, with_weights);
    bb_kernel_groups_add(&c, BB_KERNELS_CROSS_CORE, BB_KERNELS_DATA);
    b->reads_encoder = true;
    bb_block_column_backward(b, &keys, &c, src, bb_block_buffer(b, BB_BLOCK_BUFFER_ENCODER_GRADIENT), with_weights,
                             false);
    b->reads_encoder = false;
    bb_block_column_backward(b, &queries, &empty, BB_NONE, out, with_weights, true);
}

void bb_cross_weights(struct bb_block *b)
{
    static const struct bb_kernel_groups empty;
    struct bb_kernel_groups c = {0};

    bb_kernel_groups_add(&c, BB_KERNELS_OUT, BB_KERNELS_WEIGHTS);
    b->reads_encoder = true;
    bb_block_column_weights(b, &keys, &c);
    b->reads_encoder = false;
    bb_block_column_weights(b, &queries, &empty);
}
