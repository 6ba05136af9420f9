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

struct bb_listed { /* a work list and what it is for */
    struct bb_kernel_groups chores;
    const struct bb_kernel_list *work;
};

struct bb_layers {
    struct bb_layers_config config;
    struct bb_step *step;
    struct bb_layer_sizes sizes;
    bool scattered;            /* sequence parallelism among more than one rank */
    size_t held, whole;        /* elements between the layers; X */
    size_t key_block;          /* of the keys and values of one rank's tokens */
    struct bb_routing routing; /* zeroed without experts */
    struct bb_listed *listed;
    int n_listed;
};

/* Rows that the experts of a rank get when all experts are alike. */
int64_t bb_layers_fair_rows(const struct bb_layers *l);

static inline bool bb_has_lane(struct bb_script_lane lane)
{
    return lane.comm != BB_NONE;
}

/* ---- buffers (bb_block_room makes them when they are first used) ---- */

enum bb_block_buffer {
    BB_BLOCK_BUFFER_STATE,         /* held: between the layers                                      */
    BB_BLOCK_BUFFER_NORMED,        /* held: what is gathered, behind its norm                       */
    BB_BLOCK_BUFFER_FULL,          /* X: gathered                                                   */
    BB_BLOCK_BUFFER_PARTIAL,       /* X: a rank's part of a sum over tp                             */
    BB_BLOCK_BUFFER_GRADIENT,      /* held: gradient of STATE                                       */
    BB_BLOCK_BUFFER_GRADIENT_FULL, /* X: gathered                                                  */
    BB_BLOCK_BUFFER_KEYS,          /* context parallelism: the block of keys and values at work      */
    BB_BLOCK_BUFFER_NEXT_KEYS,     /* ... that comes in meanwhile                                   */
    BB_BLOCK_BUFFER_KEY_GRADIENTS, /* ... of gradients that goes on                                */
    BB_BLOCK_BUFFER_NEXT_KEY_GRADIENTS,
    BB_BLOCK_BUFFER_ALL_KEYS,
    BB_BLOCK_BUFFER_ALL_KEY_GRADIENTS,
    BB_BLOCK_BUFFER_QUERY, /* all_to_all: before and after */
    BB_BLOCK_BUFFER_QUERY_HEADS,
    BB_BLOCK_BUFFER_KEY,
    BB_BLOCK_BUFFER_KEY_HEADS,
    BB_BLOCK_BUFFER_VALUE,
    BB_BLOCK_BUFFER_VALUE_HEADS,
    BB_BLOCK_BUFFER_OUT,
    BB_BLOCK_BUFFER_OUT_HEADS,
    BB_BLOCK_BUFFER_COUNTS, /* tokens per expert: own, of all ranks */
    BB_BLOCK_BUFFER_ALL_COUNTS,
    BB_BLOCK_BUFFER_ROWS, /* a rank's tokens in the order of the experts; those that came to its experts */
    BB_BLOCK_BUFFER_EXPERT_ROWS,
    BB_BLOCK_BUFFER_ANSWERS, /* of the rank's experts; what came back */
    BB_BLOCK_BUFFER_OWN_ANSWERS,
    BB_BLOCK_BUFFER_PROBABILITIES,
    BB_BLOCK_BUFFER_EXPERT_PROBABILITIES,
    BB_BLOCK_BUFFER_SHARED_ROWS, /* etp: rows of all of its ranks; their answers */
    BB_BLOCK_BUFFER_SHARED_ANSWERS,
    BB_BLOCK_BUFFER_ALL_TOKENS, /* all_gather dispatch: of all ranks; their answers */
    BB_BLOCK_BUFFER_ALL_ANSWERS,
    BB_BLOCK_BUFFER_SHARED,    /* held: of the shared experts */
    BB_BLOCK_BUFFER_STATISTIC, /* N floats of the cross entropy; their sum or maximum */
    BB_BLOCK_BUFFER_TOTAL,
    BB_BLOCK_BUFFER_NORM, /* one float */
    BB_ROOMS
};

int bb_block_room(struct bb_block *b, enum bb_block_buffer room);
size_t bb_block_room_count(const struct bb_block *b, enum bb_block_buffer room); /* elements */

/* ---- operations ---- */

/* One compute operation, waited for; none when there is nothing to do. */
void bb_block_compute(struct bb_block *b, const char *what, const struct bb_kernel_groups *c, int src, int dst);
void bb_block_chore(struct bb_block *b, const char *what, enum bb_kernels_kind kind, enum bb_kernels_pass pass, int src,
                    int dst);

/* One product behind a norm (column: its width is divided by tp) and what it is called. */
struct bb_column_parallel {
    enum bb_kernels_kind product;
    const char *gather, *sum;   /* its input forward; its input's gradient backward */
    const char *data, *weights; /* compute operations of its backward pass */
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

/* ---- context_parallel.c: attention among the ranks of cp ---- */

/* `before` ends with the projections; reads src. Afterwards the attention's result is there. */
void bb_context_forward(struct bb_block *b, const struct bb_kernel_groups *before, int src);
/* `before` ends with the gradient of the attention's result. */
void bb_context_backward(struct bb_block *b, const struct bb_kernel_groups *before, int src);

/* ---- expert_parallel.c: the second half of a layer with experts ---- */

void bb_experts_forward(struct bb_block *b, int layer, int in, int out);
void bb_experts_backward(struct bb_block *b, int layer, int in, int out, bool with_weights);
void bb_experts_weights(struct bb_block *b, int layer);

#endif
