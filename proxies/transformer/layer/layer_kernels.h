/*
 * layer_kernels.h - what the parts of a transformer layer compute on one rank, as matrix products and passes over
 * memory: FLOPs, lists for real work, microseconds at a rate. Pure.
 *
 * A kind (enum bb_kernels_kind) is the compute between two communications of a layer. Its forward pass is a list of
 * products. Its backward pass follows from them: the gradients of the data that the products read, and those of the
 * weights. Scores and context have data on both sides. The whole square of the attention is counted, as is usual for
 * the utilisation of devices, also where a causal mask would let half of it be left out; items say what a mask leaves.
 * Fused attention keeps its softmax on the chip; unfused, softmax and dropout are passes over the whole square.
 */
#ifndef BB_PROXIES_TRANSFORMER_LAYER_LAYER_KERNELS_H
#define BB_PROXIES_TRANSFORMER_LAYER_LAYER_KERNELS_H

#include "cuda/work/kernel_list.h"

#include <stdbool.h>
#include <stdint.h>

enum bb_kernels_kind {
    BB_KERNELS_NORM, /* of what a rank holds between the layers, with the residual's sum   */
    BB_KERNELS_QKV,  /* queries, keys and values; latent attention: both projections; of a scan: all that goes in */
    BB_KERNELS_CORE, /* scores and context; a scan by chunks                               */
    BB_KERNELS_CORE_BLOCK, /* ring of context parallelism: against the keys of one rank          */
    BB_KERNELS_OUT,
    BB_KERNELS_CROSS_QUERY, /* a decoder's attention to what the encoder made: queries; keys and values of that */
    BB_KERNELS_CROSS_KEYS,
    BB_KERNELS_CROSS_CORE,
    BB_KERNELS_UP, /* gated: gate and up in one product                                  */
    BB_KERNELS_DOWN,
    BB_KERNELS_ROUTER,
    BB_KERNELS_PERMUTE,      /* tokens into the order of the experts                               */
    BB_KERNELS_EXPERTS,      /* up and down of the rank's experts                                  */
    BB_KERNELS_UNPERMUTE,    /* the weighted sum of the experts' answers                           */
    BB_KERNELS_NODE_PERMUTE, /* dedup: tokens that came to a node, for its experts              */
    BB_KERNELS_NODE_UNPERMUTE,
    BB_KERNELS_SHARED_UP, /* shared experts                                                     */
    BB_KERNELS_SHARED_DOWN,
    BB_KERNELS_EMBEDDING,
    BB_KERNELS_HEAD,
    BB_KERNELS_LOSS,       /* cross entropy, between its reductions */
    BB_KERNELS_ACCUMULATE, /* weights: a micro-batch's gradients added to those before, in float */
    BB_KERNELS_KINDS
};

enum bb_kernels_pass { BB_KERNELS_FORWARD, BB_KERNELS_DATA, BB_KERNELS_WEIGHTS };

/* One rank's share of everything, for one micro-batch. */
struct bb_layer_sizes {
    enum bb_dtype_id dtype;
    int64_t hidden;
    int64_t tokens; /* N: that the products of attention and perceptron read                          */
    int64_t local_tokens;   /* T: of them between the layers: N, or N / t with sequence parallelism           */
    int64_t batch, queries, keys, block_keys; /* attention: samples, positions asked, answered; of one ring block */
    int64_t sequence, index_heads, index_dim; /* an index that picks the keys looks at all; index_heads 0: none   */
    int64_t encoder_tokens, encoder_sequence; /* a decoder's: tokens of the encoder, of a micro-batch and of a sample              */
    int64_t heads, kv_heads;     /* that the projections make                                        */
    int64_t attention_heads;          /* that the attention is done for: heads / c with all_to_all        */
    int64_t key_dim, value_dim;  /* of a head                                                        */
    int64_t chunk;               /* of a scan: tokens that are done at once; 0: attention            */
    int64_t q_lora, kv_lora, nope_dim, rope_dim; /* latent attention; kv_lora 0: none                             */
    int64_t ffn, vocab;                          /* divided by tp                                                 */
    int64_t experts, local_experts, expert_ffn, shared_ffn; /* expert_ffn divided by etp                          */
    int top_k;
    int copies;      /* of a token when it leaves: top_k, or one for each node */
    int node_copies; /* then of each inside the node, rounded up */
    bool gated, qkv_bias, out_bias, mlp_bias, expert_bias;
    bool causal, rotary, dropout;
    bool delta;    /* of a scan: a new value replaces what its key had             */
    bool out_gate; /* what attention or scan makes is multiplied by a gate         */
    bool unfused;  /* attention kernel by kernel */
    bool float8;   /* products with weights of the layers: operands in 8 bits */
};

/* Kernels done one after another by one compute operation. */
#define BB_KERNEL_GROUPS 16
struct bb_kernel_groups {
    struct bb_kernels {
        enum bb_kernels_kind kind;
        enum bb_kernels_pass pass;
    } list[BB_KERNEL_GROUPS];
    int n;
    int64_t rows; /* that the rank's experts get, all together; accumulate: gradients */
};

void bb_kernel_groups_add(struct bb_kernel_groups *c, enum bb_kernels_kind kind, enum bb_kernels_pass pass);

/* The gradients of the data and, if asked for, of the weights. */
void bb_kernel_groups_add_backward(struct bb_kernel_groups *c, enum bb_kernels_kind kind, bool with_weights);

double bb_kernel_groups_flops(const struct bb_layer_sizes *s, const struct bb_kernel_groups *c);

/* Appends products and passes to w; products are exactly those that bb_kernel_groups_flops counts. */
void bb_kernel_groups_append(const struct bb_layer_sizes *s, const struct bb_kernel_groups *c, struct bb_kernel_list *w);

#endif
