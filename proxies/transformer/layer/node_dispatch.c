/*
 * node_dispatch.c - tokens that cross to a node once (DeepSeek-V3's report, arXiv 2412.19437, 3.2.2): each token goes
 * to a limited number of nodes, there to the rank that stands where its own stands, and from it to the ranks of its
 * experts. Back, the answers of a node's experts are summed on that rank, and one row for each node goes home.
 *
 *   between nodes   T M rows of a rank's T tokens that go to M nodes each, as many to each of N nodes
 *   inside a node   T K rows for K experts of each token, as many to each rank
 *
 * Every row has the probabilities of its experts with it, K of a token on both ways.
 *
 * Rows go in parts, so that one part is spread inside the node while the next crosses. There a token that arrives is
 * "instantaneously forwarded via NVLink", so that "communications via IB and NVLink are fully overlapped" (same
 * section), and on the way back the hops have warps of their own, too. So no kernel stands between them: rows are put in
 * their experts' order behind both, and answers are summed before both. How many parts is ours: with four, 4,096 tokens
 * take 2.6 ms there and 4.9 ms back among 64 H800; DeepEP's first README has 46 and 45 GB/s for that, which is 2.3 and
 * 4.7 ms for the tokens of its test (to 3.63 nodes each, their own counted).
 */
#include "proxies/transformer/layer/block.h"

bool bb_uses_node_dispatch(const struct bb_block *b)
{
    return b->layers->config.dispatch == BB_DISPATCH_DEDUP && bb_lane_is_used(b->lanes.ep);
}

/* Elements for each node: of rows; of the numbers that go with them. */
static size_t elements_per_node(const struct bb_block *b, size_t all)
{
    return all / (size_t)b->layers->config.nodes;
}

/* Elements for each rank of the node: what goes to its experts from all nodes. */
static size_t elements_per_local_rank(const struct bb_block *b, size_t width)
{
    return (size_t)b->layers->routing.uniform_rows * (size_t)b->layers->config.nodes * width;
}

/* One of so many parts. */
static int exchange_between_nodes(struct bb_block *b, const char *what, int chunks, enum bb_block_buffer src, enum bb_block_buffer dst)
{
    return bb_block_collective(b, b->lanes.ep_cross, what, BB_ALLTOALL,
                               elements_per_node(b, bb_block_buffer_elements(b, src)) / (size_t)chunks, src, dst);
}

static int exchange_inside_node(struct bb_block *b, const char *what, int chunks, size_t width, enum bb_block_buffer src,
                  enum bb_block_buffer dst)
{
    return bb_block_collective(b, b->lanes.ep_local, what, BB_ALLTOALL, elements_per_local_rank(b, width) / (size_t)chunks,
                               src, dst);
}

/* As many parts as both hops' rows can be divided into. */
static int count_chunks(const struct bb_block *b)
{
    const struct bb_layers *l = b->layers;
    const int64_t inter_node_rows = l->sizes.local_tokens * l->config.node_limit / l->config.nodes;
    int chunks = BB_NODE_DISPATCH_CHUNKS;

    while (inter_node_rows % chunks != 0 || elements_per_local_rank(b, 1) % (size_t)chunks != 0)
        chunks /= 2;
    return chunks;
}

/* Of rows on their way to the experts: in 16 bits, or in 8. */
static enum bb_block_buffer select_precision(const struct bb_block *b, enum bb_block_buffer unquantized, enum bb_block_buffer quantized)
{
    return b->layers->config.float8_dispatch ? quantized : unquantized;
}

void bb_node_dispatch_start(struct bb_block *b, const char *what, enum bb_block_buffer src)
{
    const int chunks = count_chunks(b);

    for (int i = 0; i < chunks; i++)
        b->inter_node_ops[i] = exchange_between_nodes(b, what, chunks, src, select_precision(b, BB_BLOCK_BUFFER_NODE_ROWS, BB_BLOCK_BUFFER_NODE_ROWS_8));
}

void bb_node_dispatch_start_probabilities(struct bb_block *b, const char *what)
{
    b->inter_node_probabilities = exchange_between_nodes(b, what, 1, BB_BLOCK_BUFFER_PROBABILITIES, BB_BLOCK_BUFFER_NODE_PROBABILITIES);
}

void bb_node_dispatch_finish(struct bb_block *b, const char *what, enum bb_kernels_pass pass, enum bb_block_buffer dst)
{
    enum bb_block_buffer copies = select_precision(b, BB_BLOCK_BUFFER_NODE_COPIES, BB_BLOCK_BUFFER_NODE_COPIES_8);
    const bool forward = pass == BB_KERNELS_FORWARD;
    const int chunks = count_chunks(b);
    int last = BB_NONE;

    for (int i = 0; i < chunks; i++) {
        bb_script_wait(b->script, b->inter_node_ops[i]);
        last = exchange_inside_node(b, what, chunks, bb_block_row_width(b, copies), copies, dst);
    }
    if (forward) {
        bb_script_wait(b->script, b->inter_node_probabilities);
        last =
            exchange_inside_node(b, "probabilities", 1, 1, BB_BLOCK_BUFFER_NODE_PROBABILITIES, BB_BLOCK_BUFFER_EXPERT_PROBABILITIES);
    }
    bb_script_wait(b->script, last);
    bb_block_kernels(b, "permute in the node", forward ? BB_KERNELS_NODE_PERMUTE : BB_KERNELS_NODE_UNPERMUTE, pass,
                     bb_block_buffer(b, dst), bb_block_buffer(b, dst));
}

int bb_node_return_start(struct bb_block *b, const char *what, enum bb_kernels_pass pass, enum bb_block_buffer src,
                    enum bb_block_buffer dst)
{
    const bool forward = pass == BB_KERNELS_FORWARD;
    const int chunks = count_chunks(b);
    int intra_node_ops[BB_NODE_DISPATCH_CHUNKS], last = BB_NONE;

    bb_block_kernels(b, "sum in the node", forward ? BB_KERNELS_NODE_UNPERMUTE : BB_KERNELS_NODE_PERMUTE, pass,
                     bb_block_buffer(b, src), bb_block_buffer(b, src));
    for (int i = 0; i < chunks; i++)
        intra_node_ops[i] = exchange_inside_node(b, what, chunks, bb_block_row_width(b, src), src, BB_BLOCK_BUFFER_NODE_COPIES);
    for (int i = 0; i < chunks; i++) {
        bb_script_wait(b->script, intra_node_ops[i]);
        last = exchange_between_nodes(b, what, chunks, BB_BLOCK_BUFFER_NODE_ROWS, dst);
    }
    return last;
}

int bb_node_return_start_probabilities(struct bb_block *b, const char *what)
{
    bb_script_wait(b->script,
                   exchange_inside_node(b, what, 1, 1, BB_BLOCK_BUFFER_EXPERT_PROBABILITIES, BB_BLOCK_BUFFER_NODE_PROBABILITIES));
    return exchange_between_nodes(b, what, 1, BB_BLOCK_BUFFER_NODE_PROBABILITIES, BB_BLOCK_BUFFER_PROBABILITIES);
}
