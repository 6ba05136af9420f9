/*
 * block.h - what the parts of a layer share while they are written: settled sizes, buffers, compute operations, and the
 * collectives around a product that tp divides. Internal to layer.c, context_parallel.c and expert_parallel.c.
 */
#ifndef BB_PROXIES_TRANSFORMER_LAYER_BLOCK_H
#define BB_PROXIES_TRANSFORMER_LAYER_BLOCK_H

#include "proxies/transformer/arch/arch.h"
#include "proxies/transformer/layer/layer.h"
#include "proxies/transformer/layer/layer_kernels.h"
#include "proxies/transformer/layer/routing.h"

struct bb_cached_kernel_list { /* a work list and what it is for */
    struct bb_kernel_groups groups;
    const struct bb_layer_sizes *sizes;
    const struct bb_kernel_list *work;
};

struct bb_layers {
    struct bb_layers_config config;
    struct bb_step *step;
    struct bb_layer_sizes sizes;
    struct bb_layer_sizes window_sizes;     /* of layers whose queries meet only some of the keys */
    struct bb_layer_sizes scan_sizes;      /* of layers with a scan in place of attention           */
    struct bb_layer_sizes decoder_sizes;      /* of layers behind an encoder, and of their embedding and head */
    bool sequence_sharded;                     /* sequence parallelism among more than one rank */
    size_t boundary_elements, full_elements;                 /* elements between the layers; X */
    size_t kv_block;                   /* of the keys and values of one rank's tokens */
    struct bb_routing routing;          /* zeroed without experts */
    const struct bb_alltoallv **row_counts; /* [layers] of the step: the routed rows where they are uneven, else NULL */
    struct bb_cached_kernel_list *kernel_lists;
    int n_kernel_lists;
};

/* The sizes of a layer (from 0, over the whole model), also of BB_NONE: embedding and head. */
const struct bb_layer_sizes *bb_layers_sizes(const struct bb_layers *l, int layer);

/* Rows that the experts of a rank get when all experts are alike. */
int64_t bb_layers_balanced_rows(const struct bb_layers *l);

static inline bool bb_lane_is_used(struct bb_script_lane lane)
{
    return lane.comm != BB_NONE;
}

/* ---- buffers (bb_block_buffer makes them when they are first used) ---- */

/* X(buffer, its name, how much it holds (block.c), its type, BB_NONE: that of the activations). */
#define BB_BLOCK_BUFFERS(X)                                                                                            \
    /* between the layers; behind their norm, before they are gathered */                                              \
    X(STATE, "activations", BOUNDARY, BB_NONE)                                                                             \
    X(NORMED, "normed activations", BOUNDARY, BB_NONE)                                                                     \
    /* gathered; a rank's part of a sum over tp */                                                                     \
    X(FULL, "gathered activations", FULL_SIZE, BB_NONE)                                                                    \
    X(PARTIAL, "partial sums", FULL_SIZE, BB_NONE)                                                                         \
    /* what an encoder made; the gradients that the decoder's layers have of it */                                     \
    X(ENCODER_OUTPUT, "encoder output", BOUNDARY, BB_NONE)                                                                         \
    X(ENCODER_GRADIENT, "encoder output gradients", BOUNDARY, BB_NONE)                                                      \
    /* gradients of STATE */                                                                                           \
    X(GRADIENT, "activation gradients", BOUNDARY, BB_NONE)                                                                 \
    X(GRADIENT_FULL, "gathered gradients", FULL_SIZE, BB_NONE)                                                             \
    /* context parallelism: keys and values at work, those that come in meanwhile; their gradients */                  \
    X(KEYS, "keys and values", KV_BLOCK, BB_NONE)                                                                     \
    X(NEXT_KEYS, "next keys and values", KV_BLOCK, BB_NONE)                                                           \
    X(KEY_GRADIENTS, "key and value gradients", KV_BLOCK, BB_NONE)                                                    \
    X(NEXT_KEY_GRADIENTS, "next key and value gradients", KV_BLOCK, BB_NONE)                                          \
    X(ALL_KEYS, "all keys and values", ALL_KV_BLOCKS, BB_NONE)                                                        \
    X(ALL_KEY_GRADIENTS, "all key and value gradients", ALL_KV_BLOCKS, BB_NONE)                                       \
    /* all_to_all: before and after */                                                                                 \
    X(QUERY, "queries", QUERIES, BB_NONE)                                                                              \
    X(QUERY_HEADS, "queries by head", QUERIES, BB_NONE)                                                                \
    X(KEY, "keys", KEYS, BB_NONE)                                                                                      \
    X(KEY_HEADS, "keys by head", KEYS, BB_NONE)                                                                        \
    X(VALUE, "values", VALUES, BB_NONE)                                                                                \
    X(VALUE_HEADS, "values by head", VALUES, BB_NONE)                                                                  \
    X(OUT, "attention", CONTEXT, BB_NONE)                                                                              \
    X(OUT_HEADS, "attention by head", CONTEXT, BB_NONE)                                                                \
    /* tokens per expert: own, of all ranks */                                                                         \
    X(COUNTS, "tokens per expert", EXPERTS, BB_INT32)                                                                  \
    X(ALL_COUNTS, "all tokens per expert", ALL_EXPERTS, BB_INT32)                                                      \
    /* a rank's tokens in the order of the experts; those that came to its experts */                                  \
    X(ROWS, "dispatched tokens", ROWS_SENT, BB_NONE)                                                                   \
    /* dedup: tokens that came to a node once, and their copies for its experts; with probabilities */                 \
    X(NODE_ROWS, "tokens of the node", ROWS_SENT, BB_NONE)                                                             \
    X(NODE_COPIES, "copies for the node's experts", ROWS_ROUTED, BB_NONE)                                              \
    /* what goes to the experts in 8 bits: bytes, with the scales */                                                   \
    X(ROWS_8, "dispatched tokens in 8 bits", ROWS_SENT_8, BB_INT8)                                                     \
    X(NODE_ROWS_8, "tokens of the node in 8 bits", ROWS_SENT_8, BB_INT8)                                               \
    X(NODE_COPIES_8, "copies for the node's experts in 8 bits", ROWS_ROUTED_8, BB_INT8)                                \
    X(EXPERT_ROWS_8, "received tokens in 8 bits", ROWS_RECEIVED_8, BB_INT8)                                            \
    X(NODE_PROBABILITIES, "probabilities of the node", PAIRS_SENT, BB_FLOAT)                                           \
    X(EXPERT_ROWS, "received tokens", ROWS_RECEIVED, BB_NONE)                                                          \
    /* of the rank's experts; what came back */                                                                        \
    X(EXPERT_OUTPUT, "expert output", ROWS_RECEIVED, BB_NONE)                                                                \
    X(COMBINED_ROWS, "combined tokens", ROWS_SENT, BB_NONE)                                                              \
    X(PROBABILITIES, "probabilities", PAIRS_SENT, BB_FLOAT)                                                            \
    X(EXPERT_PROBABILITIES, "received probabilities", PAIRS_RECEIVED, BB_FLOAT)                                        \
    /* etp: rows of all of its ranks; their answers */                                                                 \
    X(ETP_ROWS, "tokens of divided experts", ROWS_OF_ETP, BB_NONE)                                                  \
    X(ETP_OUTPUT, "output of divided experts", ROWS_OF_ETP, BB_NONE)                                               \
    /* all_gather dispatch: of all ranks; their answers */                                                             \
    X(ALL_TOKENS, "all tokens", ALL_BOUNDARY, BB_NONE)                                                                     \
    X(ALL_OUTPUT, "output for all tokens", ALL_BOUNDARY, BB_NONE)                                                         \
    X(SHARED, "shared expert output", BOUNDARY, BB_NONE)                                                                   \
    /* the cross entropy's numbers; their sum or maximum */                                                            \
    X(STATISTIC, "loss statistics", TOKENS, BB_FLOAT)                                                                  \
    X(TOTAL, "reduced loss statistics", TOKENS, BB_FLOAT)                                                              \
    X(NORM, "gradient norm", ONE, BB_FLOAT)

#define BB_BLOCK_BUFFER_ID(buffer, name, buffer_size, dtype) BB_BLOCK_BUFFER_##buffer,
enum bb_block_buffer { BB_BLOCK_BUFFERS(BB_BLOCK_BUFFER_ID) BB_BLOCK_BUFFER_IDS };

int bb_block_buffer(struct bb_block *b, enum bb_block_buffer id);
size_t bb_block_row_width(const struct bb_block *b, enum bb_block_buffer id);    /* elements of a token's row in it */
size_t bb_block_buffer_elements(const struct bb_block *b, enum bb_block_buffer id); /* elements */

/* bb_block_collective - starts one from buffer to buffer, in their type; BB_NONE where the lane has one rank. */
int bb_block_collective(struct bb_block *b, struct bb_script_lane lane, const char *what, enum bb_coll_kind kind,
                        size_t count, enum bb_block_buffer src, enum bb_block_buffer dst);

/* ---- operations ---- */

/* One compute operation, waited for; none when there is nothing to do. */
void bb_block_compute(struct bb_block *b, const char *what, const struct bb_kernel_groups *c, int src, int dst);
void bb_block_kernels(struct bb_block *b, const char *what, enum bb_kernels_kind kind, enum bb_kernels_pass pass,
                      int src, int dst);

/* One product behind a norm (column: its width is divided by tp) and what it is called. */
struct bb_column_parallel {
    enum bb_kernels_kind gemm;
    const char *gather, *sum;   /* its input forward; its input's gradient backward */
    const char *data, *weights; /* compute operations of its backward pass */
    enum bb_block_buffer input; /* what it reads, kept for its weights; 0: STATE */
};

/* `held` elements into X, waited for. Returns where they are; sequence parallelism only. */
int bb_block_gather(struct bb_block *b, const char *what, int src, enum bb_block_buffer dst);

/* Starts the sum over tp of what is in PARTIAL: all_reduce, or reduce_scatter to what is held. */
int bb_block_sum(struct bb_block *b, const char *what, int dst);

/* Whatever goes before a column-parallel product: with sequence parallelism the norm, then the gather; else the norm is
 * added to c. Returns what the product reads. */
int bb_block_column_input(struct bb_block *b, const struct bb_column_parallel *column, struct bb_kernel_groups *c,
                          int in);

/* A row-parallel product, which c ends with, and the sum of what the ranks of tp made. */
void bb_block_row(struct bb_block *b, const char *what, const char *sum, const struct bb_kernel_groups *c, int src,
                  int out);

/*
 * bb_block_column_backward - the gradients of a column-parallel product's data, summed over tp, under that of its
 * weights. `before`: what is still to be done first. Ends with the norm's own gradient, if normed.
 */
void bb_block_column_backward(struct bb_block *b, const struct bb_column_parallel *column,
                              const struct bb_kernel_groups *before, int src, int out, bool with_weights, bool normed);

/* The weights alone, behind those of `before`: the input is gathered under them. */
void bb_block_column_weights(struct bb_block *b, const struct bb_column_parallel *column,
                             const struct bb_kernel_groups *before);

/* ---- cross_attention.c: a decoder's attention to what the encoder made ---- */

/* Between the stacks: the encoder's norm, the decoder's embedding; backward the other way round. */
void bb_decoder_begin(struct bb_block *b);
void bb_decoder_begin_backward(struct bb_block *b);

/* The part of a decoder's layer between attention and perceptron. */
void bb_cross_forward(struct bb_block *b, int in, int out);
void bb_cross_backward(struct bb_block *b, int in, int out, bool with_weights);
void bb_cross_weights(struct bb_block *b);

/* ---- context_parallel.c: attention among the ranks of cp ---- */

/* `before` ends with the projections; reads src. Afterwards the attention's result is there. */
void bb_context_forward(struct bb_block *b, const struct bb_kernel_groups *before, int src);
/* `before` ends with the gradient of the attention's result. */
void bb_context_backward(struct bb_block *b, const struct bb_kernel_groups *before, int src);

/* ---- node_dispatch.c: rows to experts by nodes ---- */

bool bb_uses_node_dispatch(const struct bb_block *b); /* BB_DISPATCH_DEDUP among more ranks than one */

/* To the experts: _dispatch and _probabilities start to cross nodes; _finish spreads each part inside the node when it
 * has come, and waits (forward with the probabilities). */
void bb_node_dispatch_start(struct bb_block *b, const char *what, enum bb_block_buffer src);
void bb_node_dispatch_start_probabilities(struct bb_block *b, const char *what);
void bb_node_dispatch_finish(struct bb_block *b, const char *what, enum bb_kernels_pass pass,
                              enum bb_block_buffer dst);

/* Back: starts inside the node, then each part to cross nodes; returns the last. */
int bb_node_return_start(struct bb_block *b, const char *what, enum bb_kernels_pass pass, enum bb_block_buffer src,
                    enum bb_block_buffer dst);
int bb_node_return_start_probabilities(struct bb_block *b, const char *what);

/* ---- expert_parallel.c: the second half of a layer with experts ---- */

void bb_experts_forward(struct bb_block *b, int layer, int in, int out);
void bb_experts_backward(struct bb_block *b, int layer, int in, int out, bool with_weights);
void bb_experts_weights(struct bb_block *b, int layer);

#endif
