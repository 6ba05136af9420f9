/*
 * memory.h - memory that training needs on one rank, by formula, in bytes: parameters, gradients and optimizer states
 * as the replicas shard them (sync/sync.h), activations at the peak of the schedule, communication buffers. A proxy
 * does not allocate this memory; it only needs its own buffers.
 *
 * Activations of one layer and one micro-batch, per token. e: bytes per element; h: hidden size; a: attention heads; s:
 * sequence length. The model is Korthikanti et al. 2022, table 2, applied to each part separately, so that it also
 * holds for other widths than those of the paper:
 *
 *   replicated over tp      inputs of two norms, of the QKV projection and of the MLP: e h each; dropout masks: 2 h;
 *                           sum 10 h
 *   sharded over tp         e (q + k + v + context) and e (input + output of the MLP activation); sum 24 h
 *   attention scores        (2 e + 1) a s: softmax output, dropout mask, dropout output; sum 5 a s
 *
 * The sum is 34 h + 5 a s. Sequence parallelism shards all of it over tp. Other effects:
 *
 *   recomputation           selective drops the scores; full keeps only e h of each recomputed layer. The backward pass
 *                           additionally holds the activations of one recomputed layer at a time
 *   gated MLP               keeps three tensors of the inner width instead of two
 *   no dropout              masks and scores are those of GPT-2 and BERT. Models without dropout (Llama and later) run
 *                           fused attention, which keeps no scores
 *   FP8 GEMMs               keep their inputs in 8 bits (Transformer Engine); attention additionally keeps its context
 *   latent attention (MLA)  keeps its latents
 *   experts                 keep top_k copies of each token, before and after the experts
 *   context parallelism     shards the tokens; the score matrix is sharded by rows only
 *
 * Embedding: 8 bytes per token and a dropout mask of h. Head: twice e h, and the logits in FP32 (Megatron-LM,
 * theoretical_memory_usage.py).
 */
#ifndef BB_PROXIES_TRANSFORMER_MEMORY_H
#define BB_PROXIES_TRANSFORMER_MEMORY_H

#include "proxies/sync/sync.h"
#include "proxies/transformer/grid/grid.h"
#include "proxies/transformer/layer/layer.h"
#include "proxies/transformer/schedule.h"

extern const char *const bb_recompute_names[BB_RECOMPUTES + 1]; /* "none", "selective", "full", NULL */

/* Inputs of the memory model. Ranks of one stage need equal memory. The caller owns all pointers, which must outlive
 * the calls. */
struct bb_memory {
    const struct bb_arch *arch;
    const struct bb_grid *grid;
    const struct bb_schedule *schedule;
    const struct bb_dp_config *policy;            /* element types of parameters and gradients, optimizer */
    const struct bb_sync_comms *dense;            /* replicas of the dense parameters; only n and n_replicas are read */
    const struct bb_sync_comms *expert;           /* replicas of the expert parameters; NULL without experts */
    const struct bb_layers_config *layers_config; /* sequence, micro-batch size, sharding, recomputation, element
                                                     types */
};

/*
 * bb_memory_rank_bytes - memory that a rank of `stage` needs at its peak.
 *   bytes  out: [BB_USES] bytes per use
 */
void bb_memory_rank_bytes(const struct bb_memory *m, int stage, double bytes[BB_USES]);

/* Activation bytes of one micro-batch on one rank: of a layer, of the embedding, of the head. */
double bb_memory_layer(const struct bb_memory *m, int layer);
double bb_memory_embedding(const struct bb_memory *m);
double bb_memory_head(const struct bb_memory *m);

/* bb_memory_parameters - elements that a rank of `stage` holds before the replicas shard them. */
struct bb_arch_rank_parameters bb_memory_parameters(const struct bb_memory *m, int stage);

#endif
