/*
 * block.h - internals shared by the sublayers (attention, MLP, experts) of a layer: resolved sizes, buffers, compute
 * operations, and the collectives around a tensor-parallel GEMM. Include only in proxies/workloads/transformer/layer.
 */
#ifndef BB_PROXIES_WORKLOADS_TRANSFORMER_LAYER_BLOCK_H
#define BB_PROXIES_WORKLOADS_TRANSFORMER_LAYER_BLOCK_H

#include "proxies/workloads/transformer/arch/arch.h"
#include "proxies/workloads/transformer/layer/layer.h"
#include "proxies/workloads/transformer/layer/layer_kernels.h"
#include "proxies/workloads/transformer/layer/routing.h"

struct bb_cached_kernel_list { /* a kernel list, and the kernel groups (layer_kernels.h) and layer sizes from which
                                  it was built. flops: model FLOPs if the kernels do not recompute activations */
    struct bb_kernel_groups groups;
    const struct bb_layer_sizes *sizes;
    const struct bb_kernel_list *work;
    double flops;
    int next; /* 1 + index of the next list with the same hash; 0: none */
};

enum { BB_RATIOS = 3, BB_KERNEL_LIST_HASHES = 4096 };

struct bb_layers {
    struct bb_layers_config config;
    struct bb_step *step;
    struct bb_layer_sizes sizes;
    struct bb_layer_sizes window_sizes; /* sizes of layers with sliding-window or sparse attention */
    struct bb_layer_sizes scan_sizes;   /* sizes of scan layers, which have a scan (state-space or linear attention,
                                         such as Mamba) instead of attention */
    struct bb_layer_sizes ratio_sizes[BB_RATIOS]; /* sizes of layers without compressed keys, with those of 4, and with
                                                     those of 128 tokens (DeepSeek-V4) */
    struct bb_layer_sizes decoder_sizes; /* sizes of the decoder (layers, embedding, head) in an encoder-decoder
                                            model */
    bool sequence_sharded;               /* sequence parallelism with tp > 1 */
    /* boundary_elements: number of activation elements that a rank stores between layers; full_elements: that number
     * without sequence parallelism (X in layer.h) */
    size_t boundary_elements, full_elements;
    size_t kv_block; /* number of elements of the keys and values of one rank's tokens (context parallelism) */
    struct bb_routing routing; /* row counts between the ep ranks (routing.h); all zero if the model has no experts */
    const struct bb_alltoallv **row_counts; /* [layers] number of rows (token copies) sent between each pair of ep
                                               ranks; owned by the step; NULL: all pairs have equal numbers */
    struct bb_cached_kernel_list *kernel_lists;
    int n_kernel_lists;
    int kernel_list_of[BB_KERNEL_LIST_HASHES]; /* 1 + index of the first list with this hash; 0: none */
};

/* bb_layers_sizes - returns the sizes of a layer (index in the whole model, from 0), or of embedding and head
 * (BB_NONE). */
const struct bb_layer_sizes *bb_layers_sizes(const struct bb_layers *l, int layer);

/* bb_layers_shards_latents - returns whether the layer has latent attention (MLA) whose down projections read only the tokens
 * that the rank stores between layers: with sequence parallelism. False for DeepSeek-V4, whose attention Megatron-LM does not
 * shard over tp. */
bool bb_layers_shards_latents(const struct bb_layers *l, int layer);

/* bb_layers_balanced_rows - returns the number of rows (pairs of a token and an expert) that the experts of one rank
 * process if all experts get equal shares. */
int64_t bb_layers_balanced_rows(const struct bb_layers *l);

static inline bool bb_lane_is_used(struct bb_script_lane lane)
{
    return lane.comm != BB_NONE;
}

/* ---- buffers (bb_block_buffer creates each on first use) ---- */

/* X(enumerator, buffer name, number of elements (a local variable of bb_block_buffer_elements), data type).
 * BB_NONE: the data type of the activations. */
#define BB_BLOCK_BUFFERS(X)                                                                                            \
    /* STATE: activations between layers; NORMED: norm output, input of sequence parallelism's all-gather */           \
    X(STATE, "activations", boundary, BB_NONE)                                                                         \
    X(NORMED, "normed activations", boundary, BB_NONE)                                                                 \
    /* FULL: activations gathered from all tp ranks; PARTIAL: contribution of this rank to a sum over tp */            \
    X(FULL, "gathered activations", full, BB_NONE)                                                                     \
    X(PARTIAL, "partial sums", full, BB_NONE)                                                                          \
    /* encoder output; gradients of the encoder output, summed over the decoder layers */                              \
    X(ENCODER_OUTPUT, "encoder output", boundary, BB_NONE)                                                             \
    X(ENCODER_GRADIENT, "encoder output gradients", boundary, BB_NONE)                                                 \
    /* gradients of the activations in STATE; the gradients gathered from all tp ranks */                              \
    X(GRADIENT, "activation gradients", boundary, BB_NONE)                                                             \
    X(GRADIENT_FULL, "gathered gradients", full, BB_NONE)                                                              \
    /* MLA: latents of this rank's tokens (queries without latent: the input), of all tp ranks; their gradients */     \
    X(QUERY_LATENT, "query latents", query_latents, BB_NONE)                                                           \
    X(ALL_QUERY_LATENT, "all query latents", all_query_latents, BB_NONE)                                               \
    X(KEY_LATENT, "key and value latents", key_latents, BB_NONE)                                                       \
    X(ALL_KEY_LATENT, "all key and value latents", all_key_latents, BB_NONE)                                           \
    X(KEY_POSITION, "key positions", key_positions, BB_NONE)                                                           \
    X(ALL_KEY_POSITION, "all key positions", all_key_positions, BB_NONE)                                               \
    /* context parallelism, keys and values: ring: block in use, block being received (NEXT_); all_gather: all */      \
    X(KEYS, "keys and values", kv_block, BB_NONE)                                                                      \
    X(NEXT_KEYS, "next keys and values", kv_block, BB_NONE)                                                            \
    X(KEY_GRADIENTS, "key and value gradients", kv_block, BB_NONE)                                                     \
    X(NEXT_KEY_GRADIENTS, "next key and value gradients", kv_block, BB_NONE)                                           \
    X(ALL_KEYS, "all keys and values", all_kv_blocks, BB_NONE)                                                         \
    X(ALL_KEY_GRADIENTS, "all key and value gradients", all_kv_blocks, BB_NONE)                                        \
    /* all_to_all context parallelism: each tensor sharded by tokens, and (_HEADS) sharded by heads */                 \
    X(QUERY, "queries", queries, BB_NONE)                                                                              \
    X(QUERY_HEADS, "queries sharded by head", queries, BB_NONE)                                                        \
    X(KEY, "keys", keys, BB_NONE)                                                                                      \
    X(KEY_HEADS, "keys sharded by head", keys, BB_NONE)                                                                \
    X(VALUE, "values", values, BB_NONE)                                                                                \
    X(VALUE_HEADS, "values sharded by head", values, BB_NONE)                                                          \
    X(OUT, "attention", context, BB_NONE)                                                                              \
    X(OUT_HEADS, "attention sharded by head", context, BB_NONE)                                                        \
    /* number of this rank's tokens for each expert; the same numbers of all ranks (ALL_) */                           \
    X(COUNTS, "tokens per expert", experts, BB_INT32)                                                                  \
    X(ALL_COUNTS, "all tokens per expert", all_experts, BB_INT32)                                                      \
    /* copies of this rank's tokens, one per chosen expert (dedup: per node), in expert order */                       \
    X(ROWS, "dispatched tokens", rows_sent, BB_NONE)                                                                   \
    /* dedup dispatch: tokens received from other nodes, and their copies for the experts of this node */              \
    X(NODE_ROWS, "node tokens", rows_sent, BB_NONE)                                                                    \
    X(NODE_COPIES, "node token copies", rows_routed, BB_NONE)                                                          \
    /* FP8 dispatch: token copies as FP8 values and their scales, in bytes */                                          \
    X(ROWS_8, "dispatched tokens in FP8", rows_sent, BB_INT8)                                                          \
    X(NODE_ROWS_8, "node tokens in FP8", rows_sent, BB_INT8)                                                           \
    X(NODE_COPIES_8, "node token copies in FP8", rows_routed, BB_INT8)                                                 \
    X(EXPERT_ROWS_8, "received tokens in FP8", rows_received, BB_INT8)                                                 \
    X(NODE_PROBABILITIES, "node probabilities", pairs_sent, BB_FLOAT)                                                  \
    X(EXPERT_ROWS, "received tokens", rows_received, BB_NONE)                                                          \
    /* output of this rank's experts; output that other ranks return for this rank's tokens */                         \
    X(EXPERT_OUTPUT, "expert output", rows_received, BB_NONE)                                                          \
    X(COMBINED_ROWS, "combined tokens", rows_sent, BB_NONE)                                                            \
    X(PROBABILITIES, "probabilities", pairs_sent, BB_FLOAT)                                                            \
    X(EXPERT_PROBABILITIES, "received probabilities", pairs_received, BB_FLOAT)                                        \
    /* expert tensor parallelism: token copies of all etp ranks; expert output for these copies */                     \
    X(ETP_ROWS, "expert-tensor-parallel tokens", rows_of_etp, BB_NONE)                                                 \
    X(ETP_OUTPUT, "expert-tensor-parallel output", rows_of_etp, BB_NONE)                                               \
    /* all_gather dispatch: tokens of all ranks; output of this rank's experts for all tokens */                       \
    X(ALL_TOKENS, "all tokens", all_boundaries, BB_NONE)                                                               \
    X(ALL_OUTPUT, "output for all tokens", all_boundaries, BB_NONE)                                                    \
    X(SHARED, "shared expert output", boundary, BB_NONE)                                                               \
    /* cross entropy: statistics of this rank; sum or maximum of the statistics over tp */                             \
    X(STATISTIC, "loss statistics", tokens, BB_FLOAT)                                                                  \
    X(TOTAL, "reduced loss statistics", tokens, BB_FLOAT)                                                              \
    X(NORM, "gradient norm", 1, BB_FLOAT)

#define BB_BLOCK_BUFFER_ID(buffer, name, buffer_size, dtype) BB_BLOCK_BUFFER_##buffer,
enum bb_block_buffer { BB_BLOCK_BUFFERS(BB_BLOCK_BUFFER_ID) BB_BLOCK_BUFFER_IDS };

/* bb_block_buffer - returns the index of the buffer in the program. The first call for a buffer creates the buffer. */
int bb_block_buffer(struct bb_block *b, enum bb_block_buffer id);

/*
 * bb_block_row_width - returns the number of elements in one row (one copy of one token) of a buffer.
 * bb_block_buffer_elements - returns the number of elements in the whole buffer.
 */
size_t bb_block_row_width(const struct bb_block *b, enum bb_block_buffer id);
size_t bb_block_buffer_elements(const struct bb_block *b, enum bb_block_buffer id);

/* bb_block_collective - start a collective of `count` elements from buffer src to buffer dst in the data type of
 * src. lane: communicator and stream. Returns the operation's program index, or BB_NONE if the communicator has one
 * rank. */
int bb_block_collective(struct bb_block *b, struct bb_script_lane lane, const char *what, enum bb_coll_kind kind,
                        size_t count, enum bb_block_buffer src, enum bb_block_buffer dst);

/* ---- compute operations and tensor parallelism ---- */

/* Both functions add one compute operation and the wait for it to the program. The operation runs the kernel groups
 * of c, or the single kernel group of a kind and a pass (forward, data gradient, weight gradient). They add nothing
 * if the kernels have no work. */
void bb_block_compute(struct bb_block *b, const char *what, const struct bb_kernel_groups *c, int src, int dst);
void bb_block_kernels(struct bb_block *b, const char *what, enum bb_kernels_kind kind, enum bb_kernels_pass pass,
                      int src, int dst);

/* bb_block_recompute - if selective recomputation recomputes the module, add the compute operation that does so, before the
 * backward of the module: the forward kernels of `kind`, for experts on `rows` rows. */
void bb_block_recompute(struct bb_block *b, enum bb_recompute_module module, const char *what,
                        enum bb_kernels_kind kind, int64_t rows);

/* A column-parallel GEMM (its output width is sharded over tp) that follows a norm, and the labels of its
 * operations. */
struct bb_column_parallel {
    enum bb_kernels_kind gemm;
    const char *gather, *sum;   /* labels of the all-gather of the input (forward) and of the sum of the input
                                 gradients over tp (backward) */
    const char *data, *weights; /* labels of the compute operations of the backward pass: data gradient, weight
                                   gradient */
    enum bb_block_buffer input; /* buffer with the GEMM's input, which is all-gathered a second time for the weight
                                   gradient; 0 means STATE */
};

/* bb_block_start_gather - start the all-gather of `count` elements of buffer src over tp into dst.
 *   quantized  the result is the input of a GEMM with weights, which Transformer Engine quantizes before the all-gather; it
 *              gathers also the scales of MXFP8 and NVFP4
 *   Returns    the operation's program index */
int bb_block_start_gather(struct bb_block *b, const char *what, int src, enum bb_block_buffer dst, int64_t count,
                          bool quantized);

/* bb_block_gather - all-gather the activations or gradients in buffer src over tp into dst, and wait. Returns the
 * program's index of buffer dst. Requires sequence parallelism. */
int bb_block_gather(struct bb_block *b, const char *what, int src, enum bb_block_buffer dst);

/* bb_block_wait_if_serial - waits for the collective or transfer `op` if communication does not overlap compute
 * (bb_layers_config.serial). Returns the operation that remains to be waited for: `op`, or BB_NONE. */
int bb_block_wait_if_serial(struct bb_block *b, int op);

/* bb_block_sum - start the sum of the buffer PARTIAL over tp: all_reduce, or reduce_scatter with sequence
 * parallelism. Returns the operation's program index. */
int bb_block_sum(struct bb_block *b, const char *what, int dst);

/* bb_block_column_input - prepare the input of a column-parallel GEMM. With sequence parallelism, emits the norm and
 * the all-gather of its output; else appends the norm to c, the kernel groups of the caller's next operation.
 * Returns the buffer that the GEMM reads. */
int bb_block_column_input(struct bb_block *b, const struct bb_column_parallel *column, struct bb_kernel_groups *c,
                          int in);

/*
 * bb_block_column_forward - as bb_block_column_input, and append the GEMM to c. With bb_layers_config.tp_overlap, the
 *     all-gather is concurrent with the GEMM of all chunks but the last, which is appended.
 * bb_block_row_forward - append the GEMM `kind` to c, add the operation and the sum of its output. With tp_overlap, the sum
 *     is concurrent with the GEMM of all chunks but the first.
 * bb_block_row_backward - gather the gradient of the output (buffer `in`), and append the gradients of the GEMM to c. With
 *     tp_overlap, the all-gather is concurrent with the data gradient of all chunks but the last.
 *   what     label of the compute operations
 *   Returns  the buffer that the operation of c reads
 */
int bb_block_column_forward(struct bb_block *b, const struct bb_column_parallel *column, const char *what,
                            struct bb_kernel_groups *c, int in);
void bb_block_row_forward(struct bb_block *b, enum bb_kernels_kind kind, const char *what, const char *sum,
                          struct bb_kernel_groups *c, int src, int out);
int bb_block_row_backward(struct bb_block *b, enum bb_kernels_kind kind, const char *what, const char *gather,
                          struct bb_kernel_groups *c, int in, bool with_weights);

/* bb_block_row - add a compute operation (kernel groups c) that ends with a row-parallel GEMM (its input width is
 * sharded over tp), and the sum of the GEMM's output over tp. */
void bb_block_row(struct bb_block *b, const char *what, const char *sum, const struct bb_kernel_groups *c, int src,
                  int out);

/*
 * bb_block_column_backward - backward pass of a column-parallel GEMM (output width sharded over tp). The sum of the
 * data gradient over tp overlaps the weight gradient.
 *   before  kernels that precede the GEMM in the same operation
 *   normed  true: a norm precedes the GEMM in the forward pass; also compute the gradient of the norm
 */
void bb_block_column_backward(struct bb_block *b, const struct bb_column_parallel *column,
                              const struct bb_kernel_groups *before, int src, int out, bool with_weights, bool normed);

/* bb_block_column_weights - add only the weight gradient of a column-parallel GEMM, after the kernels of `before`.
 * The all-gather of the GEMM's input overlaps these kernels. */
void bb_block_column_weights(struct bb_block *b, const struct bb_column_parallel *column,
                             const struct bb_kernel_groups *before);

/* ---- cross_attention.c: attention of a decoder to the encoder output ---- */

/* Both functions emit the operations between the last encoder layer and the first decoder layer. Forward: norm of
 * the encoder output, then embedding of the decoder's tokens; backward: the gradients in reverse order. */
void bb_decoder_begin(struct bb_block *b);
void bb_decoder_begin_backward(struct bb_block *b);

/* All three functions emit operations of a decoder layer's cross attention, which follows self attention: the
 * forward pass, the backward pass, and only the weight gradients. */
void bb_cross_forward(struct bb_block *b, int in, int out);
void bb_cross_backward(struct bb_block *b, int in, int out, bool with_weights);
void bb_cross_weights(struct bb_block *b);

/* ---- latent_attention.c: projections of latent attention (MLA) with sequence parallelism ---- */

/* bb_latents_forward - add the down projections, which read the normed tokens of the rank (buffer `in`), and the all-gathers
 * of the latents; append the up projections and those of the indexer to c. Returns the buffer that they read. */
int bb_latents_forward(struct bb_block *b, struct bb_kernel_groups *c, int in);
/* bb_latents_recompute - if selective recomputation recomputes the up projections, gather the latents again for them. */
void bb_latents_recompute(struct bb_block *b);
/* bb_latents_backward, bb_latents_weights - as bb_block_column_backward without the norm, and bb_block_column_weights. */
void bb_latents_backward(struct bb_block *b, const struct bb_column_parallel *column,
                         const struct bb_kernel_groups *before, int src, int out, bool with_weights);
void bb_latents_weights(struct bb_block *b, const struct bb_column_parallel *column,
                        const struct bb_kernel_groups *before);

/* ---- context_parallel.c: attention over the ranks of cp ---- */

/* bb_context_forward - add the kernels of `before`, which read buffer src and end with the QKV projections, and then
 * attention over all cp ranks. The next operation reads the attention output. */
void bb_context_forward(struct bb_block *b, const struct bb_kernel_groups *before, int src);
/* bb_context_backward - emit the kernels of `before`, which end with the gradient of the attention output, then the
 * backward pass of attention. */
void bb_context_backward(struct bb_block *b, const struct bb_kernel_groups *before, int src);

/* ---- node_dispatch.c: dispatch to the experts with one copy of a token per node ---- */

bool bb_uses_node_dispatch(const struct bb_block *b); /* returns whether dispatch is BB_DISPATCH_DEDUP with more than
                                                         one ep rank */

/* bb_sent_buffer - returns the buffer of rows (token copies) that are sent to the experts, on the sending or on the
 * receiving rank: `quantized` with FP8 dispatch, else `unquantized`. */
enum bb_block_buffer bb_sent_buffer(const struct bb_block *b, enum bb_block_buffer unquantized,
                                    enum bb_block_buffer quantized);

/* Dispatch of tokens to the experts, with one copy of a token per node. The two _start functions send the rows
 * (token copies) in chunks, and the probabilities, to other nodes. _finish waits for each chunk, sends its rows to
 * the ranks of their experts inside the node, and waits for these sends. In the forward pass, _finish waits for the
 * probabilities and sends them inside the node, too. */
void bb_node_dispatch_start(struct bb_block *b, const char *what, enum bb_block_buffer src);
void bb_node_dispatch_start_probabilities(struct bb_block *b, const char *what);
void bb_node_dispatch_finish(struct bb_block *b, const char *what, enum bb_kernels_pass pass, enum bb_block_buffer dst);

/* Return of the expert outputs to the ranks of their tokens. bb_node_return_start sums the outputs inside the node,
 * then sends each chunk of rows (one per token and node) to the other nodes. bb_node_return_start_probabilities sends
 * the gradients of the router probabilities in these two stages. Both functions return the program index of the last
 * operation that they start. */
int bb_node_return_start(struct bb_block *b, const char *what, enum bb_kernels_pass pass, enum bb_block_buffer src,
                         enum bb_block_buffer dst);
int bb_node_return_start_probabilities(struct bb_block *b, const char *what);

/* ---- expert_parallel.c: the MoE sublayer, in place of the MLP ---- */

void bb_experts_forward(struct bb_block *b, int layer, int in, int out);
void bb_experts_backward(struct bb_block *b, int layer, int in, int out, bool with_weights);
void bb_experts_weights(struct bb_block *b, int layer);

#endif
