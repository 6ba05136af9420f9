/*
 * node_dispatch.c - tokens that cross to a node once (DeepSeek-V3, section 3.2.2): each token goes to a limited number
 * of nodes, there to the rank that stands where its own stands, and from it to the ranks of its experts. Back, the
 * answers of a node's experts are summed on that rank, and one row for each node goes home.
 *
 *   between nodes   T M rows of a rank's T tokens that go to M nodes each, as many to each of N nodes
 *   inside a node   T K rows for K experts of each token, as many to each rank
 *
 * Every row has the probabilities of its experts with it, K of a token on both ways.
 */
#include "proxies/transformer/layer/block.h"

bool bb_goes_by_nodes(const struct bb_block *b)
{
    return b->layers->config.dispatch == BB_DISPATCH_DEDUP && bb_has_lane(b->lanes.ep);
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

static int cross(struct bb_block *b, const char *what, enum bb_block_buffer src, enum bb_block_buffer dst)
{
    return bb_block_collective(b, b->lanes.ep_cross, what, BB_ALLTOALL, for_each_node(b, bb_block_buffer_count(b, src)),
                               src, dst);
}

static int spread(struct bb_block *b, const char *what, size_t width, enum bb_block_buffer src,
                  enum bb_block_buffer dst)
{
    return bb_block_collective(b, b->lanes.ep_local, what, BB_ALLTOALL, for_each_neighbour(b, width), src, dst);
}

/* Of rows on their way to the experts: in 16 bits, or in 8. */
static enum bb_block_buffer of_bits(const struct bb_block *b, enum bb_block_buffer usual, enum bb_block_buffer short8)
{
    return b->layers->config.float8_dispatch ? short8 : usual;
}

int bb_nodes_dispatch(struct bb_block *b, const char *what, enum bb_block_buffer src)
{
    return cross(b, what, src, of_bits(b, BB_BLOCK_BUFFER_NODE_ROWS, BB_BLOCK_BUFFER_NODE_ROWS_8));
}

int bb_nodes_dispatch_probabilities(struct bb_block *b, const char *what)
{
    return cross(b, what, BB_BLOCK_BUFFER_PROBABILITIES, BB_BLOCK_BUFFER_NODE_PROBABILITIES);
}

void bb_nodes_dispatch_finish(struct bb_block *b, const char *what, enum bb_kernels_pass pass, enum bb_block_buffer dst)
{
    enum bb_block_buffer rows = of_bits(b, BB_BLOCK_BUFFER_NODE_ROWS, BB_BLOCK_BUFFER_NODE_ROWS_8);
    enum bb_block_buffer copies = of_bits(b, BB_BLOCK_BUFFER_NODE_COPIES, BB_BLOCK_BUFFER_NODE_COPIES_8);
    bool forward = pass == BB_KERNELS_FORWARD;
    int spreading, probabilities = BB_NONE;

    bb_block_kernels(b, "permute in the node", forward ? BB_KERNELS_NODE_PERMUTE : BB_KERNELS_NODE_UNPERMUTE, pass,
                     bb_block_buffer(b, rows), bb_block_buffer(b, copies));
    spreading = spread(b, what, bb_block_row_width(b, copies), copies, dst);
    if (forward)
        probabilities =
            spread(b, "probabilities", 1, BB_BLOCK_BUFFER_NODE_PROBABILITIES, BB_BLOCK_BUFFER_EXPERT_PROBABILITIES);
    bb_script_wait(b->script, spreading);
    bb_script_wait(b->script, probabilities);
}

int bb_nodes_return(struct bb_block *b, const char *what, enum bb_kernels_pass pass, enum bb_block_buffer src,
                    enum bb_block_buffer dst)
{
    bool forward = pass == BB_KERNELS_FORWARD;

    bb_script_wait(b->script, spread(b, what, bb_block_row_width(b, src), src, BB_BLOCK_BUFFER_NODE_COPIES));
    bb_block_kernels(b, "sum in the node", forward ? BB_KERNELS_NODE_UNPERMUTE : BB_KERNELS_NODE_PERMUTE, pass,
                     bb_block_buffer(b, BB_BLOCK_BUFFER_NODE_COPIES), bb_block_buffer(b, BB_BLOCK_BUFFER_NODE_ROWS));
    return cross(b, what, BB_BLOCK_BUFFER_NODE_ROWS, dst);
}

int bb_nodes_return_probabilities(struct bb_block *b, const char *what)
{
    bb_script_wait(b->script,
                   spread(b, what, 1, BB_BLOCK_BUFFER_EXPERT_PROBABILITIES, BB_BLOCK_BUFFER_NODE_PROBABILITIES));
    return cross(b, what, BB_BLOCK_BUFFER_NODE_PROBABILITIES, BB_BLOCK_BUFFER_PROBABILITIES);
}
