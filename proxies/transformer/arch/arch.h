/*
 * arch.h - a transformer as data: what a published config.json says of it, and the tensors that follow from that.
 *
 * Read from a Hugging Face config.json as it is published, or from the folder that it lies in, or from a name of
 * profiles/models. A file is recognised by model_type or architectures (a row of arch_types.c each); what it leaves out
 * has the published default; of a model with pictures or sound its text_config is read. Pure: no CUDA, no MPI.
 */
#ifndef BB_PROXIES_TRANSFORMER_ARCH_ARCH_H
#define BB_PROXIES_TRANSFORMER_ARCH_ARCH_H

#include "bootstrap/base/err.h"

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>

#define BB_ARCH_NAME 64

/* Layers that carry a state from token to token in place of attention: linear attention (Gated DeltaNet), state space
 * duality (Mamba 2). Of each head the state is key_dim x value_dim numbers. */
struct bb_arch_scan {
    int heads;  /* of values; 0: there are no such layers                                             */
    int groups; /* of keys and queries, each shared by heads / groups heads                           */
    int key_dim, value_dim;
    int conv;   /* tokens that the convolution before it sees                                         */
    int chunk;  /* so many tokens are done at once, by products                                       */
    bool delta; /* a new value replaces what its key had (Gated DeltaNet); else it is added (Mamba 2) */
    bool conv_bias;
};

struct bb_arch {
    char name[BB_ARCH_NAME]; /* the word that it was asked for by, without folder and ".json" */
    char type[BB_ARCH_NAME]; /* model_type: "llama"                                           */

    int layers, hidden, heads;
    int encoder_layers; /* of layers, so many first ones encode, the others decode what they made; 0: one stack  */
    /* As the file says; 0: as many as encode. */
    int decoder_layers;
    int kv_heads;    /* of keys and values; heads: ordinary attention                                         */
    int head_dim;    /* of queries, keys and values (multi-head latent attention: see nope_dim)               */
    int ffn;         /* inner width of a dense perceptron                                                     */
    int vocab;       /* words                                                                                 */
    int sequence;    /* most positions                                                                        */
    int token_types; /* kinds of segments that are embedded (BERT: 2), 0: none                                */

    /* Of a layer's tensors: a attention, c cross attention, m perceptron or experts, 1 to 4 norms; NULL: "am12". */
    const char *order;
    int norms;       /* of order only so many (Falcon), 0: all                                                      */
    bool fused_qkv;  /* one tensor makes queries, keys and values                                                   */
    bool gated;      /* SwiGLU: gate, up and down instead of up and down                                            */
    bool layer_norm; /* LayerNorm with weight and bias; else RMSNorm with a weight                                  */
    bool dropout;    /* trained with dropout                                                                  */
    bool post_norm;  /* norms stand after attention and perceptron (BERT), no final norm, a pooler                  */
    bool embedding_norm;
    int position_buckets; /* each head learns a score for so many distances, in the first layer of a stack (T5)  */
    bool qkv_bias, out_bias, mlp_bias;
    bool qk_norm;           /* RMSNorm of each query and key head (Qwen 3)                                    */
    bool qk_norm_wide;      /* RMSNorm of all queries and of all keys (OLMo 2)                                */
    bool sinks;             /* one learned score per head (gpt-oss)                                           */
    bool learned_positions; /* sequence + extra_positions rows of hidden are parameters                       */
    int extra_positions;
    bool tied; /* the head is the word embedding                                                              */

    /* The most keys that a query meets, 0: all (a sliding window, a chunk, the best of an index). Of window_every
     * layers the last one meets all; 0: none does. See bb_arch_attended_keys. */
    int window, window_every;

    struct bb_arch_scan scan;
    int expand;          /* Mamba 2: the inner width is so many times hidden                                       */
    int attention_every; /* of so many layers the last one has attention, the others a scan; 0: none has attention */
    bool out_gate;       /* attention's result has a gate for each number, made by the query's projection          */

    /* Falcon: which number of key and value heads and of norms is meant. */
    bool multi_query, grouped_heads, parallel_attention;
    int embedding_width; /* of the word embedding (OPT); 0: hidden */

    /* Experts; experts == 0: every layer is dense. */
    int experts, top_k, expert_ffn;
    int shared_experts; /* so many of expert_ffn, where the file gives no width                         */
    int shared_ffn;     /* inner width of all shared experts together, 0: none                          */
    bool expert_bias;   /* biases of up, gate and down of every expert (gpt-oss)                        */
    bool shared_gate;   /* the shared expert has a gate of its own (Qwen 2 MoE)                           */
    bool router_bias;   /* one number per expert beside the router (DeepSeek-V3)                          */
    int dense_layers;   /* so many first layers are dense                                                 */
    int moe_every;      /* of the others, those have experts where (layer + moe_offset) % moe_every == 0  */
    int moe_offset;

    /* Multi-head latent attention (DeepSeek); kv_lora == 0: ordinary attention. Per head, queries and keys are
     * nope_dim + rope_dim wide, values v_dim. */
    int q_lora; /* 0: queries are projected directly                                              */
    int kv_lora, nope_dim, rope_dim, v_dim;

    /* The index that picks the keys (DeepSeek-V3.2); index_heads 0: none. */
    int index_heads, index_dim;
};

/*
 * bb_arch_load - by name (profiles/models) or path; _read: of a file that is read already. Unreadable, unknown
 * architecture (with the fields that are missing), a number that cannot be, a total that the tensors don't make: said,
 * -BB_EUSAGE.
 */
int bb_arch_read(const json_t *root, const char *where, struct bb_arch *arch) BB_MUST_CHECK;
int bb_arch_load(const char *word, struct bb_arch *arch) BB_MUST_CHECK;

/* bb_arch_is_decoder - whether that layer reads what an encoder made, by an attention of its own behind the first. */
bool bb_arch_is_decoder(const struct bb_arch *arch, int layer);

/* bb_arch_attended_keys - keys that a query of that layer meets in a sample of `sequence` tokens. Of a window as many as it is
 * wide, also where a causal mask would leave some out, as of the whole square. */
int bb_arch_attended_keys(const struct bb_arch *arch, int layer, int sequence);

/* bb_arch_is_scan - whether that layer has a scan in place of attention; has_perceptron: whether layers have a second
 * half. */
bool bb_arch_is_scan(const struct bb_arch *arch, int layer);
bool bb_arch_has_mlp(const struct bb_arch *arch);

/* bb_arch_core_flops - FLOPs of a layer between its projections, forward, of a sample of `sequence` tokens: scores and
 * context of the whole square (of a decoder's layer, a second one with what the encoder made of as many tokens), or a
 * scan's products by chunks (its small triangular inverses are left out). */
double bb_arch_core_flops(const struct bb_arch *arch, int layer, int sequence);

/* bb_arch_with_layers - the same model with another number of layers (--layers). */
int bb_arch_with_layers(struct bb_arch *arch, int layers) BB_MUST_CHECK;

/* bb_arch_has_experts - whether that layer (from 0) has experts. */
bool bb_arch_has_experts(const struct bb_arch *arch, int layer);

/* ---- tensors ---- */

/* How a tensor is divided. Expert tensors are stacked, one tensor holds the weight of all experts. */
struct bb_arch_tensor {
    const char *name;  /* "attention.query.weight"; static                                                         */
    size_t count;      /* elements of the whole tensor                                                             */
    bool tensor_split; /* divided by tp (of experts: by etp); else every tp rank holds all of it                   */
    bool expert;       /* divided by ep, gradients reduced over edp instead of dp x cp                             */
    size_t rows;       /* > 0: cut by rows (words), whose number need not divide: the last rank's are padded       */
};

/* Beside the layers 0 to layers - 1. The head holds the final norm and, unless it is tied, the matrix of words; BERT's
 * its pooler (the heads of its pretraining are left out, as in its published number of parameters). */
#define BB_ARCH_EMBEDDING (-1)
#define BB_ARCH_HEAD      (-2)

#define BB_ARCH_TENSORS 32 /* more than any layer has */

/* bb_arch_tensors - the tensors of a layer in the order in which the published model registers them. Returns their
 * number (at most BB_ARCH_TENSORS), or -BB_EFAIL when there is no room for them (said). */
int bb_arch_tensors(const struct bb_arch *arch, int layer, struct bb_arch_tensor *out, int capacity);

/* bb_arch_tensor_share - elements of a tensor that one rank holds. tp is etp for expert tensors. Rows are rounded up. */
size_t bb_arch_tensor_share(const struct bb_arch_tensor *tensor, int tp, int ep);

/* bb_arch_layer_share - elements of a layer (or embedding, head) that one rank holds: dense tensors and those of
 * experts. tp divides the former, etp and ep the latter. */
struct bb_arch_rank_parameters {
    size_t dense, expert;
    size_t replicated; /* of dense: what each tp rank holds whole (norms, biases of what is cut by rows, the router);
                          with sequence parallelism its gradients are summed over tp */
};
struct bb_arch_rank_parameters bb_arch_layer_share(const struct bb_arch *arch, int layer, int tp, int etp, int ep);

/* ---- counts: learnable parameters, whole numbers ---- */

double bb_arch_layer_parameters(const struct bb_arch *arch, int layer); /* also BB_ARCH_EMBEDDING, BB_ARCH_HEAD */
double bb_arch_parameters(const struct bb_arch *arch);
double bb_arch_active(const struct bb_arch *arch); /* those that one token passes through: top_k of the experts */

#endif
