/*
 * node_dispatch.c - node-limited dispatch, which sends a token to each node at most once (DeepSeek-V3 technical report,
 * arXiv 2412.19437, section 3.2.2). Each token is sent to a limited number of nodes, on each node to the rank with the
 * same local index as the sender, and from there to the ranks of its experts in that node. On the way back, the rank
 * with the sender's local index sums the outputs of the experts of its node and returns one row per token and node.
 *
 *   between nodes   T D rows per rank: T tokens, each to the D nodes that hold its experts (the expected number with equal
 *                   load, at most --moe-node-limit), the same number of rows to each of N nodes
 *   inside a node   T K rows per rank: K experts per token, the same number of rows to each rank
 *
 * The probabilities of the experts are sent with the rows: K per token, both between nodes and inside a node.
 *
 * Rows are sent in chunks, so that one chunk is distributed inside the node while the next chunk is sent between nodes.
 * In DeepSeek's implementation a token that arrives is "instantaneously forwarded via NVLink", so that "communications
 * via IB and NVLink are fully overlapped" (same section), and both transfers have their own warps also on the way back.
 * No kernel therefore runs between the two transfers: rows are permuted into expert order after both, and outputs are
 * summed before both. The number of chunks is our choice: with four, busbar's cost model predicts 2.6 ms for dispatch
 * and 4.9 ms for combine (4,096 tokens per rank, 64 H800). DeepEP's first README measured 46 and 45 GB/s, which is 2.3
 * and 4.7 ms for the tokens of DeepEP's test (3.63 nodes per token, including the token's own node).
 */
#include "proxies/workloads/transformer/layer/block.h"

bool bb_uses_node_dispatch(const struct bb_block *b)
{
    return b->layers->config.dispatch == BB_DISPATCH_DEDUP && bb_lane_is_used(b->lanes.ep);
}

/* Number of elements that a rank sends to each rank inside its node: the rows (token copies) from all nodes for the
 * experts of the destination rank. width: elements per row. */
static size_t elements_per_local_rank(const struct bb_block *b, size_t width)
{
    return (size_t)b->layers->routing.uniform_rows * (size_t)b->layers->config.nodes * width;
}

/* Both functions start the exchange of one chunk of rows and return the operation's program index:
 * exchange_between_nodes between nodes, exchange_inside_node inside the node. chunks: number of chunks into which
 * the rows are divided. */
static int exchange_between_nodes(struct bb_block *b, const char *what, int chunks, enum bb_block_buffer src,
                                  enum bb_block_buffer dst)
{
    size_t per_node = bb_block_buffer_elements(b, src) / (size_t)b->layers->config.nodes;

    return bb_block_collective(b, b->lanes.ep_cross, what, BB_ALLTOALL, per_node / (size_t)chunks, src, dst);
}

static int exchange_inside_node(struct bb_block *b, const char *what, int chunks, size_t width,
                                enum bb_block_buffer src, enum bb_block_buffer dst)
{
    return bb_block_collective(b, b->lanes.ep_local, what, BB_ALLTOALL,
                               elements_per_local_rank(b, width) / (size_t)chunks, src, dst);
}

/* Returns the maximum number of chunks, a power of 2 up to BB_NODE_DISPATCH_CHUNKS, that divides both the rows
 * (token copies) sent between nodes and the rows sent inside the node. */
static int count_chunks(const struct bb_block *b)
{
    const struct bb_layers *l = b->layers;
    const int64_t inter_node_rows = l->sizes.rows_sent / l->config.nodes;
    int chunks = BB_NODE_DISPATCH_CHUNKS;

    while (inter_node_rows % chunks != 0 || elements_per_local_rank(b, 1) % (size_t)chunks != 0)
        chunks /= 2;
    return chunks;
}

enum bb_block_buffer bb_sent_buffer(const struct bb_block *b, enum bb_block_buffer unquantized,
                                    enum bb_block_buffer quantized)
{
    return b->layers->config.float8_dispatch ? quantized : unquantized;
}

void bb_node_dispatch_start(struct bb_block *b, const char *what, enum bb_block_buffer src)
{
    const int chunks = count_chunks(b);

    for (int i = 0; i < chunks; i++)
        b->inter_node_ops[i] = exchange_between_nodes(
            b, what, chunks, src, bb_sent_buffer(b, BB_BLOCK_BUFFER_NODE_ROWS, BB_BLOCK_BUFFER_NODE_ROWS_8));
}

void bb_node_dispatch_start_probabilities(struct bb_block *b, const char *what)
{
    b->inter_node_probabilities =
        exchange_between_nodes(b, what, 1, BB_BLOCK_BUFFER_PROBABILITIES, BB_BLOCK_BUFFER_NODE_PROBABILITIES);
}

void bb_node_dispatch_finish(struct bb_block *b, const char *what, enum bb_kernels_pass pass, enum bb_block_buffer dst)
{
    enum bb_block_buffer copies = bb_sent_buffer(b, BB_BLOCK_BUFFER_NODE_COPIES, BB_BLOCK_BUFFER_NODE_COPIES_8);
    const bool forward = pass == BB_KERNELS_FORWARD;
    const int chunks = count_chunks(b);
    int last = BB_NONE;

    for (int i = 0; i < chunks; i++) {
        bb_script_wait(b->script, b->inter_node_ops[i]);
        last = exchange_inside_node(b, what, chunks, bb_block_row_width(b, copies), copies, dst);
    }
    if (forward) {
        bb_script_wait(b->script, b->inter_node_probabilities);
        last = exchange_inside_node(b, "probabilities", 1, 1, BB_BLOCK_BUFFER_NODE_PROBABILITIES,
                                    BB_BLOCK_BUFFER_EXPERT_PROBABILITIES);
    }
    bb_script_wait(b->script, last);
    bb_block_kernels(b, "permute within node", forward ? BB_KERNELS_NODE_PERMUTE : BB_KERNELS_NODE_UNPERMUTE, pass,
                     bb_block_buffer(b, dst), bb_block_buffer(b, dst));
}

int bb_node_return_start(struct bb_block *b, const char *what, enum bb_kernels_pass pass, enum bb_block_buffer src,
                         enum bb_block_buffer dst)
{
    const bool forward = pass == BB_KERNELS_FORWARD;
    const int chunks = count_chunks(b);
    int intra_node_ops[BB_NODE_DISPATCH_CHUNKS], last = BB_NONE;

    bb_block_kernels(b, "sum within node", forward ? BB_KERNELS_NODE_UNPERMUTE : BB_KERNELS_NODE_PERMUTE, pass,
                     bb_block_buffer(b, src), bb_block_buffer(b, src));
    for (int i = 0; i < chunks; i++)
        intra_node_ops[i] =
            exchange_inside_node(b, what, chunks, bb_block_row_width(b, src), src, BB_BLOCK_BUFFER_NODE_COPIES);
    for (int i = 0; i < chunks; i++) {
        bb_script_wait(b->script, intra_node_ops[i]);
        last = exchange_between_nodes(b, what, chunks, BB_BLOCK_BUFFER_NODE_ROWS, dst);
    }
    return last;
}

int bb_node_return_start_probabilities(struct bb_block *b, const char *what)
{
    bb_script_wait(b->script, exchange_inside_node(b, what, 1, 1, BB_BLOCK_BUFFER_EXPERT_PROBABILITIES,
                                                   BB_BLOCK_BUFFER_NODE_PROBABILITIES));
    return exchange_between_nodes(b, what, 1, BB_BLOCK_BUFFER_NODE_PROBABILITIES, BB_BLOCK_BUFFER_PROBABILITIES);
}
