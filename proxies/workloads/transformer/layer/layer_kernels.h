/*
 * layer_kernels.h - the kernels of one rank for a transformer layer: GEMMs and memory-bound kernels, as FLOPs and as
 * kernel lists. The functions have no side effects outside their arguments.
 *
 * A kind (enum bb_kernels_kind) is the computation between two communication operations of a layer. A list of GEMMs
 * defines the forward pass of a kind. The GEMMs of the backward pass follow from this list: the data gradients and the
 * weight gradients. In the GEMMs of attention scores and context both operands are activations. Attention FLOPs count
 * the full score matrix, as is usual for utilization numbers (MFU), even if a causal mask allows skipping half of the
 * matrix; a kernel list contains only the unmasked fraction. Fused attention keeps the softmax on chip. Unfused
 * attention has memory-bound kernels for softmax and dropout over the full score matrix.
 */
#ifndef BB_PROXIES_WORKLOADS_TRANSFORMER_LAYER_LAYER_KERNELS_H
#define BB_PROXIES_WORKLOADS_TRANSFORMER_LAYER_LAYER_KERNELS_H

#include "cuda/work/kernel_list.h"

#include <stdbool.h>
#include <stdint.h>

enum bb_kernels_kind {
    BB_KERNELS_NORM,       /* norm of the activations that a rank stores between layers, and the residual sum */
    BB_KERNELS_NORM_AGAIN, /* the norm alone, when it is recomputed */
    BB_KERNELS_QKV, /* Q, K and V projections; with latent attention (MLA) their down and up projections; in a scan
                       layer (such as Mamba) the input projection */
    BB_KERNELS_KEY, /* of QKV, the GEMM of the keys, and the rotation of keys and queries */
    BB_KERNELS_LATENT_DOWN, /* the down projections of QKV with latent attention (MLA), of local_tokens */
    BB_KERNELS_LATENT_UP,   /* the up projections of QKV with latent attention (MLA), and the rotation */
    BB_KERNELS_INDEX,       /* of QKV, the projections of the indexer */
    BB_KERNELS_CORE, /* attention scores and context; in a scan layer (state-space or linear attention), the GEMMs of
                        all chunks */
    BB_KERNELS_CORE_BLOCK, /* ring context parallelism: attention of one rank's queries to one block of keys and
                              values, those of one rank */
    BB_KERNELS_OUT,
    BB_KERNELS_CROSS_QUERY, /* decoder cross attention: query projection */
    BB_KERNELS_CROSS_KEYS,  /* decoder cross attention: key and value projections of the encoder output */
    BB_KERNELS_CROSS_CORE,  /* decoder cross attention: scores and context with the encoder's keys */
    BB_KERNELS_UP,          /* MLP up projection; with a gated MLP, gate and up in one GEMM */
    BB_KERNELS_SECOND_UP,   /* of UP, the second GEMM of a gated MLP, and the activation function */
    BB_KERNELS_DOWN,
    BB_KERNELS_ROUTER,
    BB_KERNELS_LATENT_IN,         /* latent experts: projection of the tokens before they are sent to the experts */
    BB_KERNELS_LATENT_OUT,        /* projection of the sums of the experts' outputs back to hidden */
    BB_KERNELS_PERMUTE,           /* copies each token once for each expert that it chose, into expert order */
    BB_KERNELS_EXPERTS,           /* up and down GEMMs of the rank's experts */
    BB_KERNELS_EXPERT_ACTIVATION, /* the activation function of the rank's experts */
    BB_KERNELS_UNPERMUTE,         /* weighted sum of the expert outputs */
    BB_KERNELS_NODE_PERMUTE,      /* dedup dispatch: copies the token rows that a node received, into the order of the
                                node's experts */
    BB_KERNELS_NODE_UNPERMUTE,
    BB_KERNELS_SHARED_UP, /* shared experts: up projection */
    BB_KERNELS_SHARED_DOWN,
    BB_KERNELS_EMBEDDING,
    BB_KERNELS_MTP, /* one half of the projection of multi-token prediction: of the hidden state or of the embedding */
    BB_KERNELS_HEAD,
    BB_KERNELS_LOSS,       /* cross entropy: the kernels between the all_reduce operations over tp */
    BB_KERNELS_ACCUMULATE, /* addition of a micro-batch's weight gradients to the float accumulators */
    BB_KERNELS_KINDS
};

/* Modules of a layer that training launches as one CUDA graph each (Megatron-LM, transformer/enums.py, CudaGraphModule). */
enum bb_graph_module {
    BB_GRAPH_ATTENTION,
    BB_GRAPH_MLP,
    BB_GRAPH_EXPERTS, /* all of ROUTER and PREPROCESS, and the experts */
    BB_GRAPH_ROUTER,  /* with the shared experts */
    BB_GRAPH_PREPROCESS,
    BB_GRAPH_MAMBA,
    BB_GRAPH_MODULES
};
extern const char *const bb_graph_module_names[BB_GRAPH_MODULES]; /* "attn", "mlp", ... */

/* The passes of a GEMM: forward, gradient of its input data, gradient of its weights. */
enum bb_kernels_pass { BB_KERNELS_FORWARD, BB_KERNELS_DATA, BB_KERNELS_WEIGHTS };

/* Sizes of one rank's shard of a layer, for one micro-batch. */
struct bb_layer_sizes {
    enum bb_dtype_id dtype;
    int64_t hidden;
    int64_t moe_latent;   /* width to which tokens are projected before they are sent to the experts; 0: hidden */
    int64_t tokens;       /* number of tokens per micro-batch in the attention and MLP GEMMs */
    int64_t local_tokens; /* number of tokens stored between the layers: `tokens`, divided by tp with sequence
                             parallelism */
    /* attention: number of samples per micro-batch (batch); number of queries and of keys per sample, and of keys
     * per sample in one block of ring context parallelism */
    int64_t batch, queries, keys, block_keys;
    int64_t sequence, index_heads, index_dim; /* sequence: tokens per sample; index_heads, index_dim: heads and
                                                 elements per head of the indexer (sparse attention), 0: no indexer */
    int64_t encoder_tokens, encoder_sequence; /* only for the decoder: number of encoder tokens per micro-batch and
                                                 per sample */
    int64_t heads, kv_heads;                  /* number of query heads and of key-value heads of the projections */
    int64_t attention_heads;    /* heads of the attention GEMMs: heads, or heads / cp with all_to_all context
                                parallelism */
    int64_t key_dim, value_dim; /* elements per head of keys (and queries), and of values */
    int64_t chunk; /* scan layer (state-space or linear attention): number of tokens per chunk; 0: the layer has
                      attention */
    int64_t q_lora, kv_lora, nope_dim, rope_dim; /* latent attention (MLA), see struct bb_arch; kv_lora 0: no latent
                                                    attention */
    /* DeepSeek-V4, see struct bb_arch; streams 0: other models. ratio: tokens per compressed key, 0: none; compressed: number
     * of compressed keys in `keys`; compressor, index_compressor: elements to which a token is projected for its keys;
     * out_groups: divided by tp */
    int64_t streams, ratio, compressed, compressor, index_compressor, out_groups, out_lora;
    int64_t mtp_width;  /* output of the projection of multi-token prediction: hidden divided by tp */
    int64_t ffn, vocab; /* inner width of the MLP and vocabulary size, both divided by tp */
    /* experts: number of experts in a layer; local_experts: on one rank; expert_ffn: inner width of an expert,
     * divided by etp; shared_ffn: inner width of all shared experts together, divided by tp */
    int64_t lora_rank;                 /* rank of adapters; all other weights have no gradients. 0: no LoRA */
    int64_t qkv_adapters, up_adapters; /* number of adapters of QKV, and of gate and up */
    bool lora_attention;               /* only weights of attention have adapters */
    bool shared_adapters;              /* the experts of a rank have one adapter, not one each */
    int64_t experts, local_experts, expert_ffn, shared_ffn;
    int top_k;
    unsigned graph_modules; /* launched as CUDA graphs: bit mask of enum bb_graph_module */
    bool dropless;          /* experts take all tokens that choose them (no capacity factor) */
    bool sorts_rows;        /* a rank receives rows for several experts from several ranks and sorts them by expert */
    /* rows (token copies): rows_routed: for the experts, tokens x top_k; rows_sent: that a rank sends, with dedup dispatch one
     * per token and destination node, else rows_routed */
    int64_t rows_routed, rows_sent;
    bool gated, qkv_bias, out_bias, mlp_bias, expert_bias;
    bool causal, rotary, dropout;
    int64_t step_rank; /* selective scan (Mamba 1): see struct bb_arch_scan */
    bool delta;        /* scan layer: a new value replaces the stored value of the same key (delta rule) */
    bool out_gate;     /* a gate multiplies the output of attention or of a scan (state-space or linear attention) */
    bool unfused;      /* unfused attention: separate kernels for scores, softmax and context */
    bool fuses_sums;   /* training adds weight gradients in the GEMM that computes them */
    enum bb_gemm_precision precision; /* of the operands of GEMMs with weights */
    /* Fractions of the FLOPs of GEMMs that are model FLOPs; 0: all. repeated_share: GEMMs that each rank of tp runs on the
     * same tokens, 1 / tp; index_share: scores of the indexer, which each rank of tp computes, and with all_to_all context
     * parallelism each rank of cp; vocab_share: logits, without those of the padding of the vocabulary */
    double repeated_share, index_share, vocab_share;
};

/* The kernel groups that one compute operation runs in sequence. A kernel group consists of the kernels of one kind
 * of computation and one pass (forward, data gradient or weight gradient). */
#define BB_KERNEL_GROUPS 16
struct bb_kernel_groups {
    struct bb_kernels {
        enum bb_kernels_kind kind;
        enum bb_kernels_pass pass;
        int chunks; /* > 1: only for 1 / chunks of the tokens, those of one rank of tp */
    } list[BB_KERNEL_GROUPS];
    int n;
    int times; /* how often the operation runs all groups; 0: once */
    int64_t
        rows; /* BB_KERNELS_EXPERTS, BB_KERNELS_EXPERT_ACTIVATION: number of rows (token copies) for all experts of the rank;
                     BB_KERNELS_ACCUMULATE: number of gradient elements; other kinds: unused */
};

/* bb_expert_width - returns the number of elements of a token that is sent to the experts. */
static inline int64_t bb_expert_width(const struct bb_layer_sizes *s)
{
    return s->moe_latent ? s->moe_latent : s->hidden;
}

/* bb_kernel_groups_add - append the kernel group of a kind of computation and a pass to the groups c. */
void bb_kernel_groups_add(struct bb_kernel_groups *c, enum bb_kernels_kind kind, enum bb_kernels_pass pass);

/* bb_kernel_groups_add_backward - append the data gradient and, if with_weights, the weight gradient of a kind of
 * computation to the groups c. */
void bb_kernel_groups_add_backward(struct bb_kernel_groups *c, enum bb_kernels_kind kind, bool with_weights);

/*
 * bb_kernel_groups_flops - returns the FLOPs of the GEMMs of all groups.
 * bb_kernel_groups_model_flops - returns this rank's part of the model FLOPs: those of a GEMM that several ranks repeat are
 *     divided by the number of these ranks, and padding of the vocabulary does not count.
 */
double bb_kernel_groups_flops(const struct bb_layer_sizes *s, const struct bb_kernel_groups *c);
double bb_kernel_groups_model_flops(const struct bb_layer_sizes *s, const struct bb_kernel_groups *c);

/* bb_kernel_groups_append - append the GEMMs and memory-bound kernels of all groups to the kernel list w. The FLOPs
 * of these GEMMs equal the result of bb_kernel_groups_flops. */
void bb_kernel_groups_append(const struct bb_layer_sizes *s, const struct bb_kernel_groups *c,
                             struct bb_kernel_list *w);

#endif
