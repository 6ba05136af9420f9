/*
 * arch.h - a transformer as data: what a published config.json says of it, and the tensors that follow from that.
 *
 * Read from a Hugging Face config.json as it is published (recognised by model_type or architectures: gpt2, bert,
 * llama, mistral, mixtral, qwen2, qwen2_moe, qwen3, qwen3_moe, deepseek_v2, deepseek_v3), with the published defaults
 * for what such files leave out, or from a name of profiles/models. Pure: no CUDA, no MPI.
 */
#ifndef BB_PROXIES_TRANSFORMER_ARCH_ARCH_H
#define BB_PROXIES_TRANSFORMER_ARCH_ARCH_H

#include "bootstrap/base/err.h"

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>

#define BB_ARCH_NAME 64

struct bb_arch {
    char name[BB_ARCH_NAME]; /* the word that it was asked for by, without folder and ".json" */
    char type[BB_ARCH_NAME]; /* model_type: "llama"                                           */

    int layers, hidden, heads;
    int kv_heads;    /* of keys and values; heads: ordinary attention                                         */
    int head_dim;    /* of queries, keys and values (multi-head latent attention: see nope_dim)               */
    int ffn;         /* inner width of a dense perceptron                                                     */
    int vocab;       /* words                                                                                 */
    int sequence;    /* most positions                                                                        */
    int token_types; /* kinds of segments that are embedded (BERT: 2), 0: none                                */

    bool gated;      /* SwiGLU: gate, up and down instead of up and down                               */
    bool layer_norm; /* LayerNorm with weight and bias; else RMSNorm with a weight                     */
    bool post_norm;  /* norms stand after attention and perceptron (BERT), no final norm               */
    bool qkv_bias, out_bias, mlp_bias;
    bool qk_norm;           /* RMSNorm of each query and key head (Qwen 3)                                    */
    bool learned_positions; /* sequence x hidden are parameters                                               */
    bool tied;              /* the head is the word embedding                                                 */

    /* Experts; experts == 0: every layer is dense. */
    int experts, top_k, expert_ffn;
    int shared_ffn;   /* inner width of all shared experts together, 0: none                            */
    bool shared_gate; /* the shared expert has a gate of its own (Qwen 2 MoE)                           */
    bool router_bias; /* one number per expert beside the router (DeepSeek-V3)                          */
    int dense_layers; /* so many first layers are dense                                                 */
    int moe_every;    /* of the others, those have experts where (layer + moe_offset) % moe_every == 0  */
    int moe_offset;

    /* Multi-head latent attention (DeepSeek); kv_lora == 0: ordinary attention. Per head, queries and keys are
     * nope_dim + rope_dim wide, values v_dim. */
    int q_lora; /* 0: queries are projected directly                                              */
    int kv_lora, nope_dim, rope_dim, v_dim;
};

/*
 * bb_arch_load - by name (profiles/models) or path; _read: of a file that is read already. Unreadable, unknown
 * architecture (with the fields that are missing), a number that cannot be, a total that the tensors don't make: said,
 * -BB_EUSAGE.
 */
int bb_arch_read(const json_t *root, const char *where, struct bb_arch *arch) BB_MUST_CHECK;
int bb_arch_load(const char *word, struct bb_arch *arch) BB_MUST_CHECK;

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
int bb_arch_tensors(const struct bb_arch *arch, int layer, struct bb_arch_tensor *out, int room);

/* bb_arch_share - elements of a tensor that one rank holds. tp is etp for expert tensors. Rows are rounded up. */
size_t bb_arch_share(const struct bb_arch_tensor *tensor, int tp, int ep);

/* bb_arch_layer_share - elements of a layer (or embedding, head) that one rank holds: dense tensors and those of
 * experts. tp divides the former, etp and ep the latter. */
struct bb_arch_held {
    size_t dense, expert;
    size_t replicated; /* of dense: what each tp rank holds whole (norms, biases of what is cut by rows, the router);
                          with sequence parallelism its gradients are summed over tp */
};
struct bb_arch_held bb_arch_layer_share(const struct bb_arch *arch, int layer, int tp, int etp, int ep);

/* ---- counts: learnable parameters, whole numbers ---- */

double bb_arch_layer_parameters(const struct bb_arch *arch, int layer); /* also BB_ARCH_EMBEDDING, BB_ARCH_HEAD */
double bb_arch_parameters(const struct bb_arch *arch);
double bb_arch_active(const struct bb_arch *arch); /* those that one token passes through: top_k of the experts */

#endif
