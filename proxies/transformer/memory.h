/*
 * memory.h - what training holds on one rank, by formula and in bytes: parameters, gradients and optimizer states as
 * the replicas share them (sync/sync.h), activations at the schedule's peak, communication buffers. Nothing of this is
 * allocated by a proxy, which only needs its own buffers.
 *
 * Activations of one layer and one micro-batch, per token; e bytes per element, h wide, a heads, samples of s tokens
 * (Korthikanti et al. 2022, table 2, part by part, so that it also holds for other widths than those of the paper):
 *
 *   held by every tp rank   e h each for the inputs of two norms, of qkv and of the perceptron, 2 h of dropout masks:
 *                           10 h
 *   divided by tp           e (q + k + v + context), and e of what goes into and comes out of the activation: 24 h
 *   scores                  (2 e + 1) a s: softmax, its mask, what the mask leaves: 5 a s
 *
 * in all 34 h + 5 a s; with sequence parallelism all of it is divided by tp. What changes it:
 *
 *   recompute               selective drops the scores, full keeps e h, of the layers that it means; what one layer
 *                           computes again is there once, in its backward
 *   gated perceptrons       keep three inner widths, not two
 *   no dropout              masks and scores are those of GPT-2 and BERT; models without dropout (Llama and later)
 *                           run a fused attention, which keeps no scores
 *   8-bit products          keep what goes into them in 8 bits (Transformer Engine); attention keeps its context beside
 *   latent attention        keeps its latents
 *   experts                 keep top_k copies of each token, before and after them
 *   context parallelism     divides the tokens, of scores only the rows
 *
 * Embedding: 8 bytes per token and a dropout mask of h. Head: e h twice, logits in float (Megatron-LM,
 * theoretical_memory_usage.py).
 */
#ifndef BB_PROXIES_TRANSFORMER_MEMORY_H
#define BB_PROXIES_TRANSFORMER_MEMORY_H

#include "proxies/sync/sync.h"
#include "proxies/transformer/grid/grid.h"
#include "proxies/transformer/layer/layer.h"
#include "proxies/transformer/schedule.h"

extern const char *const bb_recompute_names[BB_RECOMPUTES + 1]; /* "none", "selective", "full", NULL */

/* What a rank holds depends on its stage only. All pointers outlive the calls. */
struct bb_memory {
    const struct bb_arch *arch;
    const struct bb_grid *grid;
    const struct bb_schedule *schedule;
    const struct bb_dp_config *policy;  /* element types of parameters and gradients, optimizer            */
    const struct bb_sync_comms *dense;  /* who shares dense parameters: n, n_replicas                       */
    const struct bb_sync_comms *expert; /* ... those of experts; NULL without experts                       */
    const struct bb_layers_config *layers_config; /* sequence, micro-batch, what is divided and done again, types    */
};

/* bb_memory_rank_bytes - bytes[] = what a rank of that stage holds at its peak. */
void bb_memory_rank_bytes(const struct bb_memory *m, int stage, double bytes[BB_USES]);

/* The parts of it. A layer's activations of one micro-batch; those of embedding and head. */
double bb_memory_layer(const struct bb_memory *m, int layer);
double bb_memory_embedding(const struct bb_memory *m);
double bb_memory_head(const struct bb_memory *m);

/* bb_memory_parameters - elements that a rank of that stage holds before its replicas share them. */
struct bb_arch_rank_parameters bb_memory_parameters(const struct bb_memory *m, int stage);

#endif
