/*
 * layer_kernels.h - the kernels of one rank for the sublayers of a transformer layer: GEMMs and memory-bound kernels,
 * as FLOPs and as kernel lists. The functions are pure.
 *
 * A kind (enum bb_kernels_kind) is the computation between two communication operations of a layer. A list of GEMMs
 * defines its forward pass. The backward pass follows from these GEMMs: the data gradients and the weight gradients. In
 * the GEMMs of attention scores and context both operands are activations. Attention FLOPs count the full score matrix,
 * as is usual for utilization numbers (MFU), also where a causal mask could skip half of it; items of a kernel list
 * carry the share that the mask leaves. Fused attention keeps the softmax on chip. Unfused attention has memory-bound
 * kernels for softmax and dropout over the full score matrix.
 */
#ifndef BB_PROXIES_TRANSFORMER_LAYER_LAYER_KERNELS_H
#define BB_PROXIES_TRANSFORMER_LAYER_LAYER_KERNELS_H

#include "cuda/work/kernel_list.h"

#include <stdbool.h>
#include <stdint.h>

enum bb_kernels_kind {
    BB_KERNELS_NORM,       /* norm of the activations that a rank stores between layers, with the residual sum */
    BB_KERNELS_QKV,        /* Q, K and V projections; MLA: their down and up projections; scan: input projection */
    BB_KERNELS_CORE,       /* attention scores and context; scan: all chunks */
    BB_KERNELS_CORE_BLOCK, /* ring context parallelism: attention with the keys of one rank */
    BB_KERNELS_OUT,
    BB_KERNELS_CROSS_QUERY, /* decoder cross attention: query projection */
    BB_KERNELS_CROSS_KEYS,  /* key and value projections of the encoder output */
    BB_KERNELS_CROSS_CORE,  /* scores and context with the encoder's keys */
    BB_KERNELS_UP,          /* gated: gate and up in one GEMM */
    BB_KERNELS_DOWN,
    BB_KERNELS_ROUTER,
    BB_KERNELS_PERMUTE,      /* tokens into expert order */
    BB_KERNELS_EXPERTS,      /* up and down GEMMs of the rank's experts */
    BB_KERNELS_UNPERMUTE,    /* weighted sum of the expert outputs */
    BB_KERNELS_NODE_PERMUTE, /* dedup: rows received by a node, into the order of its experts */
    BB_KERNELS_NODE_UNPERMUTE,
    BB_KERNELS_SHARED_UP, /* shared experts */
    BB_KERNELS_SHARED_DOWN,
    BB_KERNELS_EMBEDDING,
    BB_KERNELS_HEAD,
    BB_KERNELS_LOSS,       /* cross entropy, between its reductions */
    BB_KERNELS_ACCUMULATE, /* weights: add the gradients of a micro-batch to the float accumulators */
    BB_KERNELS_KINDS
};

/* Forward pass, data gradient, weight gradient. */
enum bb_kernels_pass { BB_KERNELS_FORWARD, BB_KERNELS_DATA, BB_KERNELS_WEIGHTS };

/* The shard of one rank, for one micro-batch. */
struct bb_layer_sizes {
    enum bb_dtype_id dtype;
    int64_t hidden;
    int64_t tokens;       /* N: tokens of the attention and MLP GEMMs */
    int64_t local_tokens; /* T: tokens stored between the layers: N, or N / t with sequence parallelism */
    int64_t batch, queries, keys, block_keys; /* attention: samples; positions: queries, keys, keys of a ring block */
    int64_t sequence, index_heads, index_dim; /* sparse attention: its indexer scores `sequence` keys; heads 0: none */
    int64_t encoder_tokens, encoder_sequence; /* decoder: encoder tokens per micro-batch and per sample */
    int64_t heads, kv_heads;                  /* heads of the projections */
    int64_t attention_heads;                  /* heads of the attention GEMMs: heads, or heads / c with all_to_all */
    int64_t key_dim, value_dim;               /* elements per head */
    int64_t chunk;                            /* scan: tokens per chunk; 0: attention */
    int64_t q_lora, kv_lora, nope_dim, rope_dim;            /* latent attention (MLA); kv_lora 0: none */
    int64_t ffn, vocab;                                     /* sharded by tp */
    int64_t experts, local_experts, expert_ffn, shared_ffn; /* expert_ffn is sharded by etp */
    int top_k;
    int copies;      /* rows that a rank sends per token: top_k, or one per node */
    int node_copies; /* dedup: copies of each row inside the node, rounded up */
    bool gated, qkv_bias, out_bias, mlp_bias, expert_bias;
    bool causal, rotary, dropout;
    bool delta;    /* scan: delta rule: a new value replaces the value of its key */
    bool out_gate; /* a gate multiplies the output of attention or scan */
    bool unfused;  /* separate kernels for scores, softmax and context */
    bool float8;   /* FP8 operands in the weight GEMMs of the layers */
};

/* Kernel groups that one compute operation runs in sequence. */
#define BB_KERNEL_GROUPS 16
struct bb_kernel_groups {
    struct bb_kernels {
        enum bb_kernels_kind kind;
        enum bb_kernels_pass pass;
    } list[BB_KERNEL_GROUPS];
    int n;
    int64_t rows; /* experts: rows of all experts of the rank; accumulate: number of gradients */
};

/* bb_kernel_groups_add - append one kind and pass to the groups. */
void bb_kernel_groups_add(struct bb_kernel_groups *c, enum bb_kernels_kind kind, enum bb_kernels_pass pass);

/* bb_kernel_groups_add_backward - append the data gradient and, if with_weights, the weight gradient of a kind. */
void bb_kernel_groups_add_backward(struct bb_kernel_groups *c, enum bb_kernels_kind kind, bool with_weights);

/* bb_kernel_groups_flops - FLOPs of the GEMMs of all groups. */
double bb_kernel_groups_flops(const struct bb_layer_sizes *s, const struct bb_kernel_groups *c);

/* bb_kernel_groups_append - append GEMMs and memory-bound kernels to w; the GEMMs are those of
 * bb_kernel_groups_flops. */
void bb_kernel_groups_append(const struct bb_layer_sizes *s, const struct bb_kernel_groups *c,
                             struct bb_kernel_list *w);

#endif
