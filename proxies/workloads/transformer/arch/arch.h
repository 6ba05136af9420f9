/*
 * arch.h - a transformer model as data: the fields of its published config.json, and the tensors that follow from these
 * fields.
 *
 * The source is a Hugging Face config.json, the folder that contains one, or a name in profiles/models. The key
 * model_type or architectures selects one of the supported architectures (arch_types.c). Missing fields get the
 * defaults of the published configuration class. For multimodal models text_config is read. No CUDA or MPI calls.
 */
#ifndef BB_PROXIES_WORKLOADS_TRANSFORMER_ARCH_ARCH_H
#define BB_PROXIES_WORKLOADS_TRANSFORMER_ARCH_ARCH_H

#include "bootstrap/base/err.h"

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>

#define BB_ARCH_NAME   64
#define BB_ARCH_LISTED 256 /* number of layers whose kind a list in config.json may give */
/* Tokens per compressed key (DeepSeek-V4): of the keys that an indexer selects, and of the keys that all queries use */
#define BB_ARCH_SPARSE_RATIO 4
#define BB_ARCH_HEAVY_RATIO  128

/* Scan layers: layers that carry a state from token to token instead of attention, by linear attention (Gated
 * DeltaNet) or state space duality (Mamba 2). The state of each head has key_dim x value_dim elements. Selective scans
 * (Mamba 1) have a head for each channel, value_dim 1: without GEMMs, so that the scan is a memory-bound kernel, which
 * ignores the time that GPUs need for its exponentials. */
struct bb_arch_scan {
    int heads;  /* number of value heads; 0: the model has no scan layers */
    int groups; /* number of key and query heads; each serves heads / groups value heads */
    int key_dim, value_dim;
    int conv;      /* kernel width, in tokens, of the convolution before the scan */
    int chunk;     /* number of tokens per chunk; the GEMMs of a scan process one chunk at a time */
    int step_rank; /* selective scan: width from which the step sizes of all channels are projected; 0: other scans */
    bool delta;    /* true: a new value replaces the stored value of the same key (Gated DeltaNet); false: new values
                   are added to the state (Mamba 2) */
    bool conv_bias, bias; /* bias: of the projections before and after the scan */
};

#define BB_ARCH_KINDS 240

struct bb_arch {
    char name[BB_ARCH_NAME]; /* the model as given by the user, without folder and ".json" */
    char type[BB_ARCH_NAME]; /* model_type, for example "llama" */

    int layers, hidden, heads;
    int encoder_layers; /* encoder-decoder models: number of encoder layers, which are the first of the `layers`
                           layers; the remaining layers are the decoder. 0: no encoder */
    /* number of decoder layers in config.json; 0: equal to encoder_layers */
    int decoder_layers;
    int kv_heads;    /* key-value heads; equal to `heads` for multi-head attention */
    int head_dim;    /* elements per head of queries, keys and values; in multi-head latent attention of queries and
                     keys only (values: v_dim) */
    int ffn;         /* inner width of a dense MLP */
    int vocab;       /* vocabulary size */
    int sequence;    /* maximum sequence length in tokens, as given in config.json */
    int token_types; /* rows of the token type embedding, one per token type (BERT: 2, one per sentence of a pair);
                        0: the model has no such embedding */

    /* Order in which a layer registers its tensors, one character per sublayer or norm: a = attention, c = cross
     * attention, m = MLP or experts, 1 to 4 = norms. NULL: "am12". */
    const char *order;
    int norms;      /* number of norms per layer; `order` may list further norms, which the layers do not have (Falcon);
                  0: all norms in `order` */
    bool fused_qkv; /* one tensor projects queries, keys and values */
    bool gated;     /* gated MLP (SwiGLU): gate, up and down projection instead of up and down */
    bool layer_norm;    /* true: LayerNorm with weight and bias; false: RMSNorm with weight */
    bool dropout;       /* the model is trained with dropout */
    bool post_norm;     /* true: norms follow attention and MLP, and the model has a pooler instead of a final norm
                       (BERT) */
    bool bidirectional; /* attention without a causal mask, as post_norm has */
    bool embedding_norm;
    int position_buckets; /* number of buckets of the relative position bias, which each head learns in the first
                             layer of the encoder and of the decoder (T5); 0: none */
    bool qkv_bias, out_bias, mlp_bias;
    bool qk_norm;           /* separate RMSNorm for each query head and each key head (Qwen 3) */
    bool qk_norm_wide;      /* RMSNorm over all query heads together and over all key heads together (OLMo 2) */
    bool sinks;             /* attention sinks: one learned score per head (gpt-oss) */
    bool no_positions;      /* neither learned nor rotary positions (hybrids of scans and attention) */
    bool learned_positions; /* learned position embedding with sequence + extra_positions rows, one per position */
    int extra_positions;
    bool tied; /* tied embeddings: the head uses the embedding table */

    /* window: maximum number of keys that a query attends to (sliding window, chunk, or keys selected by an
     * indexer); 0: all keys. window_every: every window_every-th layer attends to all keys; 0: no layer does. See
     * bb_arch_attended_keys. */
    int window, window_every;

    struct bb_arch_scan scan;
    int expand;          /* Mamba: inner width divided by `hidden`; 0: other architectures */
    int attention_every; /* models with scans: layers with (layer - attention_offset) % attention_every == 0 have
                            attention, the others are scan layers; 0: all are scan layers */
    int attention_offset;
    /* Nemotron-H: kinds of its layers, each of which has one norm and one of: 'M' a scan, '*' attention, '-' an MLP, 'E'
     * experts. More layers (--layers) repeat them. mtp_kinds: of the layers in a layer of multi-token prediction. "": layers
     * with attention or a scan, and MLP or experts (bb_arch.order) */
    char kinds[BB_ARCH_KINDS], mtp_kinds[16];
    bool out_gate; /* the attention output has an elementwise gate, computed by the query projection */

    /* Falcon's flags multi_query, new_decoder_architecture (here grouped_heads) and parallel_attn. They determine
     * the number of key-value heads and of norms. parallel_attention (also GPT-NeoX's use_parallel_residual): attention
     * and MLP read the same input, and one sum over tp follows both. */
    bool multi_query, grouped_heads, parallel_attention;
    int embedding_width; /* width of the embedding table (OPT); 0: equal to `hidden` */

    /* Mixture of experts: routed experts per layer (0: all layers are dense), experts per token, inner width of an
     * expert. */
    int experts, top_k, expert_ffn;
    int moe_latent;     /* width to which tokens are projected before they are sent to the experts; 0: hidden */
    int expert_groups;  /* number of groups of experts (nodes, in training) that a token may use; 0 or 1: no limit */
    int shared_experts; /* number of shared experts, each with inner width expert_ffn; 0: no shared experts, or
                           config.json gives their total width (shared_ffn) instead */
    int shared_ffn;     /* inner width of all shared experts together; 0: none */
    bool expert_bias;   /* each expert has biases of up, gate and down (gpt-oss) */
    bool shared_gate;   /* a learned gate multiplies the output of the shared experts (Qwen 2 MoE) */
    bool router_bias;   /* the router has a bias per expert (DeepSeek-V3) */
    int dense_layers;   /* number of layers at the beginning of the model that have an MLP instead of experts */
    int moe_every;      /* of the layers after the first dense_layers, those with (layer - moe_offset) % moe_every == 0
                      have experts */
    int moe_offset;
    int mtp; /* number of layers of multi-token prediction (DeepSeek-V3); set by --mtp-num-layers, not by the model file */

    /* LoRA, set by --lora-rank and --lora-targets, not by the model file: each weight of attention and, unless
     * lora_attention, of the MLP and the experts has an adapter of two matrices, of `lora_rank` rows and columns (0: no
     * adapters); all else is frozen. lora_split: query, key, value, gate and up have an adapter each, unless the model has
     * fused_qkv, as with PEFT; else QKV, and gate and up, have one, as in Megatron-LM. Each projection of latent attention
     * has one. lora_experts: adapters of a weight of the experts of a layer: one per expert (PEFT), or one per ep rank for
     * all its experts (Megatron Bridge, peft/lora.py: share_expert_adapters). adapters_only: bb_arch_tensors lists only the
     * adapters (bb_arch_trained) */
    int lora_rank, lora_experts;
    bool lora_attention, lora_split, adapters_only;

    /* Multi-head latent attention (DeepSeek); kv_lora == 0: ordinary attention. Each head has queries and keys of
     * width nope_dim + rope_dim and values of width v_dim. */
    int q_lora; /* width of the query latent; 0: queries are projected directly from the hidden state */
    int kv_lora, nope_dim, rope_dim, v_dim;

    /* Indexer that selects keys for sparse attention (DeepSeek-V3.2): its number of heads and elements per head;
     * index_heads 0: no indexer. */
    int index_heads, index_dim;

    /* DeepSeek-V4; streams 0: other architectures. Latent attention whose latent is key and value of all heads. A query
     * attends to the keys of its window, and to compressed keys, of `ratios` tokens each: 0 (none), 4 (the indexer selects
     * index_top_k) or 128 (all). The output projection has out_groups matrices of rank out_lora, and one that joins their
     * outputs. streams: residual streams, which hyper-connections mix (mHC); all are sent between pipeline stages.
     * hash_layers: number of layers at the beginning in which a table chooses a token's experts. */
    int streams, index_top_k, out_groups, out_lora, hash_layers;
    unsigned char ratios[BB_ARCH_LISTED]; /* tokens per compressed key of each layer; see bb_arch_ratio */
};

/*
 * bb_arch_load - read the architecture of a model from a file.
 * bb_arch_read - read the architecture of a model from parsed JSON.
 *   word      a name in profiles/models, or the path of a file or folder
 *   root      the parsed file: a config.json, or a profile (a file of profiles/models, which contains a config)
 *   where     name of the file, used in error messages
 *   arch      out: the architecture
 *   Returns   0, or -BB_EUSAGE after printing one error line: unreadable file; unknown architecture, with the fields
 *             that are missing; value out of range; parameter totals in a profile that differ from the sums over the
 *             tensors
 */
int bb_arch_read(const json_t *root, const char *where, struct bb_arch *arch) BB_MUST_CHECK;
int bb_arch_load(const char *word, struct bb_arch *arch) BB_MUST_CHECK;

/* bb_arch_is_decoder - returns whether the layer is a decoder layer, which has cross attention to the encoder's
 * output after its self attention. */
bool bb_arch_is_decoder(const struct bb_arch *arch, int layer);

/*
 * bb_arch_attended_keys - returns the number of keys that a query of the layer attends to in a sample of `sequence`
 *     tokens: the whole sample, or the window if the layer has a window shorter than the sample; in addition the
 *     compressed keys. Causal masks are ignored.
 * bb_arch_compressed_keys - returns the number of compressed keys, of `ratio` tokens each, that a query attends to.
 * bb_arch_ratio - returns the number of tokens per compressed key of a layer; 0: no compressed keys. Layers beyond the
 *     list in config.json repeat its last two; those of multi-token prediction have none.
 * bb_arch_index_heads - returns the number of heads of the indexer of layers with this ratio; 0: no indexer.
 * bb_arch_compressor_width - returns the number of elements that a compressor to keys of `dim` elements projects a token to.
 */
int bb_arch_attended_keys(const struct bb_arch *arch, int layer, int sequence);
int bb_arch_compressed_keys(const struct bb_arch *arch, int ratio, int sequence);
int bb_arch_ratio(const struct bb_arch *arch, int layer);
int bb_arch_index_heads(const struct bb_arch *arch, int ratio);
int bb_arch_compressor_width(int ratio, int dim);

/* bb_arch_streams - returns the number of residual streams; 1 without hyper-connections. */
static inline int bb_arch_streams(const struct bb_arch *arch)
{
    return arch->streams > 0 ? arch->streams : 1;
}

/*
 * bb_arch_is_scan - returns whether the layer is a scan layer (linear attention or state space) instead of attention.
 * bb_arch_has_mixer - returns whether the layer has attention or a scan.
 * bb_arch_has_mlp - returns whether the layer has an MLP or experts.
 * bb_arch_has_experts - returns whether the layer has experts.
 * bb_arch_any - returns whether any layer has attention (BB_ARCH_ATTENTION) or an MLP (BB_ARCH_DENSE).
 * Layers from arch->layers on are those in a layer of multi-token prediction (bb_arch_mtp_layers).
 */
bool bb_arch_is_scan(const struct bb_arch *arch, int layer);
bool bb_arch_has_mixer(const struct bb_arch *arch, int layer);
bool bb_arch_has_mlp(const struct bb_arch *arch, int layer);
bool bb_arch_has_experts(const struct bb_arch *arch, int layer);
enum bb_arch_part { BB_ARCH_ATTENTION, BB_ARCH_DENSE };
bool bb_arch_any(const struct bb_arch *arch, enum bb_arch_part part);

/* bb_arch_mtp_layers - returns the number of layers in a layer of multi-token prediction. *first: index of the first: the
 * model's last layer, or (Nemotron-H, DeepSeek-V4) layers of their own, after the model's. */
int bb_arch_mtp_layers(const struct bb_arch *arch, int *first);

/* bb_arch_core_flops - returns the forward FLOPs of attention scores and context, or of the scan, for one sample of
 * `sequence` tokens. Causal masks are ignored: each query counts bb_arch_attended_keys keys. Includes the scores of
 * the indexer (sparse attention), and in decoder layers the cross attention to an encoder output of equal length.
 * Scans count only their GEMMs, without the inverses of small triangular matrices (Gated DeltaNet). */
double bb_arch_core_flops(const struct bb_arch *arch, int layer, int sequence);

/* bb_arch_masked_flops - returns the part of bb_arch_core_flops that a causal mask hides: half of the scores and context
 * of self attention. 0 for scans, bidirectional attention and the layers of an encoder. */
double bb_arch_masked_flops(const struct bb_arch *arch, int layer, int sequence);

/* bb_arch_with_layers - change the number of layers (--layers). Returns 0, or -BB_EUSAGE after printing one error
 * line. */
int bb_arch_with_layers(struct bb_arch *arch, int layers) BB_MUST_CHECK;

/* bb_arch_equal_layers - returns whether two layers (from 0) surely have the same tensors; false for all layers of
 * encoder-decoder models, in which some have extra tensors. */
bool bb_arch_equal_layers(const struct bb_arch *arch, int layer, int other);

/* ---- tensors ---- */

/* A tensor and its sharding. An expert tensor stacks the weights of all experts of a layer. */
struct bb_arch_tensor {
    const char *name;  /* static string, for example "attention.query.weight" */
    size_t count;      /* elements of the full tensor */
    bool tensor_split; /* true: sharded over tp (expert tensors: over etp); false: every tp rank holds the full
                          tensor */
    bool expert; /* true: sharded over ep, and gradients are reduced over edp (expert data parallelism) instead of dp
                    x cp */
    /* > 0: number of rows of an embedding or output matrix (vocabulary entries). These tensors are sharded by rows;
     * the shard of the last rank is padded if tp does not divide the rows. 0: other tensors */
    size_t rows;
};

/* Values of the parameter `layer` that select the embedding or the head instead of a layer (0 to layers - 1). The
 * head contains the final norm and, unless embeddings are tied, the output matrix. The head of BERT contains its
 * pooler; the heads of BERT's pretraining are left out, as in the published parameter count. */
#define BB_ARCH_EMBEDDING (-1)
#define BB_ARCH_HEAD      (-2)
/* A layer of multi-token prediction: norms of the hidden state and of the next token's embedding, a projection of both, a
 * layer as the model's last (Nemotron-H: mtp_kinds), and a norm. It shares the tables of embedding and head (DeepSeek-V3,
 * section 2.2). */
#define BB_ARCH_MTP (-3)

/* Upper bound of the number of tensors of a layer: latent attention with an indexer (15; with compressed keys 19, and 6 of
 * hyper-connections, but no further norms), position biases (1), cross attention (4), experts (14), four norms and the
 * encoder's norm with biases (10), multi-token prediction (7). */
#define BB_ARCH_TENSORS 51

/*
 * bb_arch_tensors - list the tensors of a layer in the order in which the published model registers them.
 *   layer     0 to layers - 1, BB_ARCH_EMBEDDING, BB_ARCH_HEAD or BB_ARCH_MTP
 *   out       [BB_ARCH_TENSORS] out: the tensors
 *   Returns   the number of tensors, at least 1; only adapters: 0 for embedding and head
 */
int bb_arch_tensors(const struct bb_arch *arch, int layer, struct bb_arch_tensor out[BB_ARCH_TENSORS]);

/* bb_arch_adapters - returns the number of adapters (LoRA) of query, key and value together (latent attention: of its
 * projections but the last), or of gate and up. */
int bb_arch_adapters(const struct bb_arch *a, bool qkv);

/* bb_arch_trained - returns the architecture with the trained tensors only: with LoRA the adapters, else all. */
struct bb_arch bb_arch_trained(const struct bb_arch *arch);

/* bb_arch_tensor_share - returns the number of elements of a tensor on one rank. For expert tensors, the caller
 * passes the size of the expert-tensor-parallel group (etp) as tp. If tp does not divide the rows of an embedding or
 * output matrix, the share is rounded up. */
size_t bb_arch_tensor_share(const struct bb_arch_tensor *tensor, int tp, int ep);

/* bb_arch_layer_share - returns the numbers of dense and expert parameters of a layer (or of the embedding or the
 * head) on one rank. Dense tensors are sharded over tp, expert tensors over etp (expert tensor parallelism) and ep. */
struct bb_arch_rank_parameters {
    size_t dense, expert;
    size_t replicated; /* included in dense: tensors that every tp rank holds in full (norms, biases of row-parallel
                          layers, the router). With sequence parallelism their gradients are summed over tp. */
};
struct bb_arch_rank_parameters bb_arch_layer_share(const struct bb_arch *arch, int layer, int tp, int etp, int ep);

/* ---- parameter counts: whole numbers stored as doubles ---- */

double bb_arch_layer_parameters(const struct bb_arch *arch, int layer); /* `layer` may be BB_ARCH_EMBEDDING or
                                                                           BB_ARCH_HEAD */
double bb_arch_parameters(const struct bb_arch *arch);
double bb_arch_active(const struct bb_arch *arch); /* number of parameters that one token uses: all dense parameters,
                                                      and top_k experts per layer with experts */

#endif
