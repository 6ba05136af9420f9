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
static size_t for_each_node(const struct bb_block *b, size_t all)
{
    return all / (size_t)b->layers->config.nodes;
}

/* Elements for each rank of the node: what goes to its experts from all nodes. */
static size_t for_each_neighbour(const struct bb_block *b, size_t width)
{
    return (size_t)b->layers->routing.even * (size_t)b->layers->config.nodes * width;
}

/* One of so many parts. */
static int cross(struct bb_block *b, const char *what, int parts, enum bb_block_buffer src, enum bb_block_buffer dst)
{
    return bb_block_collective(b, b->lanes.ep_cross, what, BB_ALLTOALL,
                               for_each_node(b, bb_block_buffer_elements(b, src)) / (size_t)parts, src, dst);
}

static int spread(struct bb_block *b, const char *what, int parts, size_t width, enum bb_block_buffer src,
                  enum bb_block_buffer dst)
{
    return bb_block_collective(b, b->lanes.ep_local, what, BB_ALLTOALL, for_each_neighbour(b, width) / (size_t)parts,
                               src, dst);
}

/* As many parts as both hops' rows can be divided into. */
static int count_parts(const struct bb_block *b)
{
    const struct bb_layers *l = b->layers;
    const int64_t crossing = l->sizes.local_tokens * l->config.node_limit / l->config.nodes;
    int parts = BB_NODE_DISPATCH_CHUNKS;

    while (crossing % parts != 0 || for_each_neighbour(b, 1) % (size_t)parts != 0)
        parts /= 2;
    return parts;
}

/* Of rows on their way to the experts: in 16 bits, or in 8. */
static enum bb_block_buffer of_bits(const struct bb_block *b, enum bb_block_buffer usual, enum bb_block_buffer short8)
{
    return b->layers->config.float8_dispatch ? short8 : usual;
}

void bb_node_dispatch_start(struct bb_block *b, const char *what, enum bb_block_buffer src)
{
    const int parts = count_parts(b);

    for (int i = 0; i < parts; i++)
        b->crossing[i] = cross(b, what, parts, src, of_bits(b, BB_BLOCK_BUFFER_NODE_ROWS, BB_BLOCK_BUFFER_NODE_ROWS_8));
}

void bb_node_dispatch_start_probabilities(struct bb_block *b, const char *what)
{
    b->crossing_probabilities = cross(b, what, 1, BB_BLOCK_BUFFER_PROBABILITIES, BB_BLOCK_BUFFER_NODE_PROBABILITIES);
}

void bb_node_dispatch_finish(struct bb_block *b, const char *what, enum bb_kernels_pass pass, enum bb_block_buffer dst)
{
    enum bb_block_buffer copies = of_bits(b, BB_BLOCK_BUFFER_NODE_COPIES, BB_BLOCK_BUFFER_NODE_COPIES_8);
    const bool forward = pass == BB_KERNELS_FORWARD;
    const int parts = count_parts(b);
    int last = BB_NONE;

    for (int i = 0; i < parts; i++) {
        bb_script_wait(b->script, b->crossing[i]);
        last = spread(b, what, parts, bb_block_row_width(b, copies), copies, dst);
    }
    if (forward) {
        bb_script_wait(b->script, b->crossing_probabilities);
        last =
            spread(b, "probabilities", 1, 1, BB_BLOCK_BUFFER_NODE_PROBABILITIES, BB_BLOCK_BUFFER_EXPERT_PROBABILITIES);
    }
    bb_script_wait(b->script, last);
    bb_block_kernels(b, "permute in the node", forward ? BB_KERNELS_NODE_PERMUTE : BB_KERNELS_NODE_UNPERMUTE, pass,
                     bb_block_buffer(b, dst), bb_block_buffer(b, dst));
}

int bb_node_return_start(struct bb_block *b, const char *what, enum bb_kernels_pass pass, enum bb_block_buffer src,
                    enum bb_block_buffer dst)
{
    const bool forward = pass == BB_KERNELS_FORWARD;
    const int parts = count_parts(b);
    int spreading[BB_NODE_DISPATCH_CHUNKS], last = BB_NONE;

    bb_block_kernels(b, "sum in the node", forward ? BB_KERNELS_NODE_UNPERMUTE : BB_KERNELS_NODE_PERMUTE, pass,
                     bb_block_buffer(b, src), bb_block_buffer(b, src));
    for (int i = 0; i < parts; i++)
        spreading[i] = spread(b, what, parts, bb_block_row_width(b, src), src, BB_BLOCK_BUFFER_NODE_COPIES);
    for (int i = 0; i < parts; i++) {
        bb_script_wait(b->script, spreading[i]);
        last = cross(b, what, parts, BB_BLOCK_BUFFER_NODE_ROWS, dst);
    }
    return last;
}

int bb_node_return_start_probabilities(struct bb_block *b, const char *what)
{
    bb_script_wait(b->script,
                   spread(b, what, 1, 1, BB_BLOCK_BUFFER_EXPERT_PROBABILITIES, BB_BLOCK_BUFFER_NODE_PROBABILITIES));
    return cross(b, what, 1, BB_BLOCK_BUFFER_NODE_PROBABILITIES, BB_BLOCK_BUFFER_PROBABILITIES);
}
