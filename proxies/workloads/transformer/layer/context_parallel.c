/*
 * context_parallel.c - attention with the sequence sharded over the ranks of cp: the queries of each rank attend to the
 * keys and values of all ranks.
 *
 * Ring attention has as many steps ("rounds") as cp has ranks. In each round a rank computes attention with one block
 * of keys and values (those of one rank's tokens) and, except in the last round, sends this block to the next rank. In
 * the backward pass the blocks go around the ring a second time. The gradients of a block start at the rank after the
 * block's owner; each rank adds its contribution and sends the sum on, until the last transfer returns the sum to the
 * owner. If keys and values and their gradients are sent in one round, one NCCL group call contains both transfers.
 */
#include "proxies/workloads/transformer/layer/block.h"

/* Data that one ring round sends: the current block of keys and values and, in the backward pass, the gradients
 * accumulated in the previous round. */
struct hop {
    bool keys, gradients;
    int round; /* index of the ring round (0 to cp - 1); even rounds send the buffer KEYS and receive into NEXT_KEYS,
                  odd rounds vice versa */
};

static int start_hop(struct bb_block *b, const struct hop *hop)
{
    static const enum bb_block_buffer keys[] = {BB_BLOCK_BUFFER_KEYS, BB_BLOCK_BUFFER_NEXT_KEYS};
    static const enum bb_block_buffer gradients[] = {BB_BLOCK_BUFFER_KEY_GRADIENTS, BB_BLOCK_BUFFER_NEXT_KEY_GRADIENTS};
    size_t count = b->layers->kv_block;
    struct bb_script *s = b->script;
    int at = hop->round % 2, last = BB_NONE;

    bb_script_group_start(s);
    if (hop->keys) {
        bb_script_send(s, b->lanes.cp, "keys and values", 1, count, bb_block_buffer(b, keys[at]));
        last = bb_script_recv(s, b->lanes.cp, "keys and values", -1, count, bb_block_buffer(b, keys[1 - at]));
    }
    if (hop->gradients) {
        bb_script_send(s, b->lanes.cp, "key and value gradients", 1, count, bb_block_buffer(b, gradients[at]));
        last =
            bb_script_recv(s, b->lanes.cp, "key and value gradients", -1, count, bb_block_buffer(b, gradients[1 - at]));
    }
    bb_script_group_end(s);
    return last;
}

static int keys_at_work(struct bb_block *b, int round)
{
    return bb_block_buffer(b, round % 2 ? BB_BLOCK_BUFFER_NEXT_KEYS : BB_BLOCK_BUFFER_KEYS);
}

static void ring_forward(struct bb_block *b, const struct bb_kernel_groups *before, int src)
{
    int ranks = b->layers->config.cp;

    bb_block_compute(b, "projections", before, src, bb_block_buffer(b, BB_BLOCK_BUFFER_KEYS));
    for (int round = 0; round < ranks; round++) {
        int hop = round < ranks - 1 ? start_hop(b, &(struct hop){.keys = true, .round = round}) : BB_NONE;

        hop = bb_block_wait_if_serial(b, hop);
        bb_block_kernels(b, "attention block", BB_KERNELS_CORE_BLOCK, BB_KERNELS_FORWARD, keys_at_work(b, round),
                         BB_NONE);
        bb_script_wait(b->script, hop);
    }
}

/* Backward pass of ring attention. In ring round 0 a rank uses its own block of keys and values, whose gradients
 * stay on the rank. The gradients that round i accumulates are sent in round i + 1. */
static void ring_backward(struct bb_block *b, const struct bb_kernel_groups *before, int src)
{
    int ranks = b->layers->config.cp;

    bb_block_compute(b, "attention output", before, src, BB_NONE);
    for (int round = 0; round < ranks; round++) {
        struct hop next = {round < ranks - 1, round >= 2, round};
        int hop = next.keys || next.gradients ? start_hop(b, &next) : BB_NONE;
        int made = round == 1 ? bb_block_buffer(b, BB_BLOCK_BUFFER_KEY_GRADIENTS) : BB_NONE;

        hop = bb_block_wait_if_serial(b, hop);
        bb_block_kernels(b, "attention block", BB_KERNELS_CORE_BLOCK, BB_KERNELS_DATA, keys_at_work(b, round), made);
        bb_script_wait(b->script, hop);
    }
    bb_script_wait(b->script, start_hop(b, &(struct hop){.gradients = true, .round = ranks}));
}

static int gather_keys(struct bb_block *b)
{
    return bb_block_collective(b, b->lanes.cp, "keys and values", BB_ALL_GATHER, b->layers->kv_block,
                               BB_BLOCK_BUFFER_KEYS, BB_BLOCK_BUFFER_ALL_KEYS);
}

static void gather_forward(struct bb_block *b, const struct bb_kernel_groups *before, int src)
{
    bb_block_compute(b, "projections", before, src, bb_block_buffer(b, BB_BLOCK_BUFFER_KEYS));
    bb_script_wait(b->script, gather_keys(b));
    bb_block_kernels(b, "attention", BB_KERNELS_CORE, BB_KERNELS_FORWARD, bb_block_buffer(b, BB_BLOCK_BUFFER_ALL_KEYS),
                     BB_NONE);
}

/* Backward pass with all_gather context parallelism. The all-gather of keys and values overlaps the kernels of
 * `before`, which precede the backward pass of attention. */
static void gather_backward(struct bb_block *b, const struct bb_kernel_groups *before, int src)
{
    int keys = gather_keys(b);

    bb_block_compute(b, "attention output", before, src, BB_NONE);
    bb_script_wait(b->script, keys);
    bb_block_kernels(b, "attention", BB_KERNELS_CORE, BB_KERNELS_DATA, bb_block_buffer(b, BB_BLOCK_BUFFER_ALL_KEYS),
                     bb_block_buffer(b, BB_BLOCK_BUFFER_ALL_KEY_GRADIENTS));
    bb_script_wait(b->script, bb_block_collective(b, b->lanes.cp, "key and value gradients", BB_REDUCE_SCATTER,
                                                  b->layers->kv_block, BB_BLOCK_BUFFER_ALL_KEY_GRADIENTS,
                                                  BB_BLOCK_BUFFER_KEY_GRADIENTS));
}

static int exchange_heads(struct bb_block *b, const char *what, enum bb_block_buffer src, enum bb_block_buffer dst)
{
    size_t count = bb_block_buffer_elements(b, src) / (size_t)b->layers->config.cp;

    return bb_block_collective(b, b->lanes.cp, what, BB_ALLTOALL, count, src, dst);
}

/* All-to-all context parallelism: starts the all-to-alls that convert queries, keys and values from sharding by
 * tokens to sharding by heads (back: in the opposite direction), then waits for all three. */
static void exchange_inputs(struct bb_block *b, const char *const what[3], bool back)
{
    static const enum bb_block_buffer tokens[] = {BB_BLOCK_BUFFER_QUERY, BB_BLOCK_BUFFER_KEY, BB_BLOCK_BUFFER_VALUE};
    static const enum bb_block_buffer heads[] = {BB_BLOCK_BUFFER_QUERY_HEADS, BB_BLOCK_BUFFER_KEY_HEADS,
                                                 BB_BLOCK_BUFFER_VALUE_HEADS};
    int started[3];

    for (int i = 0; i < 3; i++)
        started[i] = exchange_heads(b, what[i], back ? heads[i] : tokens[i], back ? tokens[i] : heads[i]);
    for (int i = 0; i < 3; i++)
        bb_script_wait(b->script, started[i]);
}

static void heads_forward(struct bb_block *b, const struct bb_kernel_groups *before, int src)
{
    static const char *const what[] = {"queries", "keys", "values"};

    bb_block_compute(b, "projections", before, src, bb_block_buffer(b, BB_BLOCK_BUFFER_QUERY));
    exchange_inputs(b, what, false);
    bb_block_kernels(b, "attention", BB_KERNELS_CORE, BB_KERNELS_FORWARD,
                     bb_block_buffer(b, BB_BLOCK_BUFFER_QUERY_HEADS), bb_block_buffer(b, BB_BLOCK_BUFFER_OUT_HEADS));
    bb_script_wait(b->script, exchange_heads(b, "attention", BB_BLOCK_BUFFER_OUT_HEADS, BB_BLOCK_BUFFER_OUT));
}

static void heads_backward(struct bb_block *b, const struct bb_kernel_groups *before, int src)
{
    static const char *const what[] = {"query gradients", "key gradients", "value gradients"};

    bb_block_compute(b, "attention output", before, src, bb_block_buffer(b, BB_BLOCK_BUFFER_OUT));
    bb_script_wait(b->script, exchange_heads(b, "attention gradients", BB_BLOCK_BUFFER_OUT, BB_BLOCK_BUFFER_OUT_HEADS));
    bb_block_kernels(b, "attention", BB_KERNELS_CORE, BB_KERNELS_DATA, bb_block_buffer(b, BB_BLOCK_BUFFER_OUT_HEADS),
                     bb_block_buffer(b, BB_BLOCK_BUFFER_QUERY_HEADS));
    exchange_inputs(b, what, true);
}

typedef void attention_fn(struct bb_block *, const struct bb_kernel_groups *before, int src);

static const struct {
    attention_fn *forward, *backward;
} modes[] = {
    [BB_CONTEXT_RING] = {ring_forward, ring_backward},
    [BB_CONTEXT_ALL_GATHER] = {gather_forward, gather_backward},
    [BB_CONTEXT_ALL_TO_ALL] = {heads_forward, heads_backward},
};

void bb_context_forward(struct bb_block *b, const struct bb_kernel_groups *before, int src)
{
    modes[b->layers->config.context].forward(b, before, src);
}

void bb_context_backward(struct bb_block *b, const struct bb_kernel_groups *before, int src)
{
    modes[b->layers->config.context].backward(b, before, src);
}
