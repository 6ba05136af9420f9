/*
 * layer_kernels.h - what the parts of a transformer layer compute on one rank, as matrix products and passes over
 * memory: FLOPs, lists for real work, microseconds at a rate. Pure.
 *
 * A chore is what stands between two places where a layer communicates. Its forward pass is a list of products; its
 * gradients follow from them: those of the data that the products read, and those of the weights. Both sides of scores
 * and context are data. The whole square of the attention is counted, as is usual for the utilisation of devices, also
 * where a causal mask would let half of it be left out; softmax and rotary positions stay on the chip.
 */
#ifndef BB_PROXIES_TRANSFORMER_LAYER_LAYER_KERNELS_H
#define BB_PROXIES_TRANSFORMER_LAYER_LAYER_KERNELS_H

#include "cuda/work/kernel_list.h"

#include <stdbool.h>
#include <stdint.h>

enum bb_chore_kind {
    BB_CHORE_NORM,       /* of what a rank holds between the layers                            */
    BB_CHORE_QKV,        /* queries, keys and values; latent attention: both projections       */
    BB_CHORE_CORE,       /* scores and context                                                 */
    BB_CHORE_CORE_BLOCK, /* ring of context parallelism: against the keys of one rank          */
    BB_CHORE_OUT,
    BB_CHORE_UP, /* gated: gate and up in one product                                  */
    BB_CHORE_DOWN,
    BB_CHORE_ROUTER,
    BB_CHORE_PERMUTE,   /* tokens into the order of the experts                               */
    BB_CHORE_EXPERTS,   /* up and down of the rank's experts                                  */
    BB_CHORE_UNPERMUTE, /* the weighted sum of the experts' answers                           */
    BB_CHORE_SHARED_UP, /* shared experts                                                     */
    BB_CHORE_SHARED_DOWN,
    BB_CHORE_EMBEDDING,
    BB_CHORE_HEAD,
    BB_CHORE_LOSS,       /* cross entropy, between its reductions */
    BB_CHORE_ACCUMULATE, /* weights: a micro-batch's gradients added to those before, in float */
    BB_CHORE_KINDS
};

enum bb_chore_pass { BB_CHORE_FORWARD, BB_CHORE_DATA, BB_CHORE_WEIGHTS };

/* One rank's share of everything, for one micro-batch. */
struct bb_layer_sizes {
    enum bb_dtype_id dtype;
    int64_t hidden;
    int64_t tokens; /* N: that the products of attention and perceptron read                          */
    int64_t held;   /* T: of them between the layers: N, or N / t with sequence parallelism           */
    int64_t batch, queries, keys, block_keys;    /* attention: samples, positions asked, answered; of one ring block */
    int64_t heads, kv_heads;                     /* that the projections make                                        */
    int64_t core_heads;                          /* that the attention is done for: heads / c with all_to_all        */
    int64_t key_dim, value_dim;                  /* of a head                                                        */
    int64_t q_lora, kv_lora, nope_dim, rope_dim; /* latent attention; kv_lora 0: none                             */
    int64_t ffn, vocab;                          /* divided by tp                                                 */
    int64_t experts, local_experts, expert_ffn, shared_ffn; /* expert_ffn divided by etp                          */
    int top_k;
    bool gated, qkv_bias, out_bias, mlp_bias;
};

/* Chores done one after another by one compute operation. */
#define BB_CHORES 16
struct bb_chores {
    struct bb_chore {
        enum bb_chore_kind kind;
        enum bb_chore_pass pass;
    } list[BB_CHORES];
    int n;
    int64_t rows; /* that the rank's experts get, all together; accumulate: gradients */
};

void bb_chores_add(struct bb_chores *c, enum bb_chore_kind kind, enum bb_chore_pass pass);

double bb_chores_flops(const struct bb_layer_sizes *s, const struct bb_chores *c);

/* Appends products and passes to w; products are exactly those that bb_chores_flops counts. */
void bb_chores_work(const struct bb_layer_sizes *s, const struct bb_chores *c, struct bb_work *w);

#endif
