/*
 * memory.h - formulas for the memory that training needs on one rank, in bytes: parameters, gradients and optimizer
 * states after data-parallel sharding (sync/sync.h), activations at the peak of the pipeline schedule, and
 * communication buffers. A proxy does not allocate this memory; it allocates only the buffers of its own operations.
 *
 * Activations of one layer and one micro-batch, per token. e: bytes per element; h: hidden size; a: attention heads; s:
 * sequence length. The formulas are those of Korthikanti et al. 2022, table 2, applied to each tensor separately, so
 * that they also hold for models whose widths differ from those in the paper. The sums are for e = 2 and the widths in
 * the paper:
 *
 *   replicated over tp      inputs of two norms, of the QKV projection and of the MLP: e h each; dropout masks: 2 h;
 *                           sum 10 h
 *   sharded over tp         e (q + k + v + context) and e (input + output of the MLP activation); sum 24 h
 *   attention scores        (2 e + 1) a s: softmax output, dropout mask, dropout output; sum 5 a s
 *
 * The total is 34 h + 5 a s. Sequence parallelism shards all of this memory over tp. Other effects:
 *
 *   recomputation           selective: the scores are not stored. full: only e h is stored for each recomputed layer.
 *                           In the backward pass one recomputed layer at a time has all its activations in memory.
 *                           Modules (Megatron-LM's recompute_modules; multi_latent_attention.py, moe/experts.py):
 *                           layernorm: the output of a norm before MLA or experts is not stored. mla_up_proj: of q, k,
 *                           v and the normed latents. moe_act: of the experts' activation function. mlp, moe,
 *                           shared_experts: only the module's input is stored
 *                           ops (torchtitan, distributed/activation_checkpoint.py): the input of the layer, and the outputs of
 *                           attention, of every second GEMM and of reduce-scatters
 *   gated MLP               three tensors of the MLP's inner width are stored instead of two
 *   dropout                 masks and dropout outputs are stored only for models with dropout (GPT-2, BERT)
 *   attention               models without dropout (Llama and later) run fused attention, which stores no scores. If unfused
 *                           attention is requested, they store the softmax output, e a s
 *   FP8, MXFP8, NVFP4       GEMM inputs are stored quantized (Transformer Engine), with one scale byte per 32 elements
 *                           (MXFP8) or 16 (NVFP4). The attention context is stored unquantized as well. Weights are
 *                           stored quantized in both directions, with MXFP8 in place of 16 bits
 *   LoRA                    outputs of the first matrices of adapters (of experts for each copy of a token); no inputs of
 *                           GEMMs without an adapter
 *   latent attention (MLA)  the latents of queries, keys and values are stored in addition
 *   experts                 the input and the output of the experts are stored for top_k copies of each token; with an
 *                           imbalance, for the copies that the experts of the rank receive
 *   context parallelism     tokens are sharded over cp; the score matrix is sharded by rows only
 *
 * Multi-token prediction: a layer as the last, and the inputs of two norms and of the projection (2 (2 e) h). The head once
 * more for each.
 *
 * Embedding: 8 bytes per token and a dropout mask of h. Head: 2 e h, and the logits.
 *
 * What a training framework adds (struct bb_memory_stack):
 *
 *   logits                  bytes per logit at the peak, in the loss. Fused loss: e (Transformer Engine, in place) or 2 e
 *                           (logits and gradient). Unfused loss: e and float copies: 1 in Megatron-LM; in PyTorch 3 (output
 *                           of log_softmax, gradients of nll_loss and of log_softmax), with loss_parallel 4
 *   placeholder gradients   if weight gradients are accumulated by the GEMM, Transformer Engine returns an unused tensor
 *                           of each shape of a weight to autograd, and keeps it
 *   FSDP in a pipeline      torchtitan keeps parameters and gradients whole between the micro-batches, and the logits of
 *                           all micro-batches on the last stage. Gradients are whole until the last backward of a chunk, and
 *                           those of a layer are in 16 bits before they are added (FSDPParam, to_accumulated_grad_if_needed). The
 *                           buffers of all-gathers have a stream and therefore a part of the allocator of their own.
 *                           PyTorch's stages have receive buffers for the messages of all micro-batches and keep the gradients
 *                           of inputs (pytorch/pytorch, pull request 164329). The input of the last reduce-scatter of a
 *                           step stays until the next step's first (_fsdp_param_group.py, reduce_scatter_state; stage.py, run_post_backward)
 *   shards of FSDP2         float only; gathers cast them (_fsdp_collectives.py, foreach_all_gather)
 *   sequence parallelism    PyTorch stores the gathered inputs of GEMMs; Megatron-LM gathers them again. In PyTorch each of two
 *                           up projections has its own gradient of the gathered input
 *   compiled backward       the input of a reduce-scatter of the sequence, which is not the first dimension, is a copy
 *                           (torch/distributed/_functional_collectives.py); torchao multiplies FP8 tensors with contiguous
 *                           tokens (float8_ops.py), which are copies. The code that inductor 2.6 generates (for CPUs, torchao
 *                           0.8) for a layer of Llama 3.1 405B needs 8.1 GiB at its peak; the formulas: 8.3
 *   ring attention          PyTorch gathers the keys and values of all ranks (torch/distributed/tensor/experimental/
 *                           _attention.py, rotate method allgather), which torchtitan repeats for each query head
 *   allocator               the caching allocator reserves more than what is in use; fitted (memory.c)
 */
#ifndef BB_PROXIES_WORKLOADS_TRANSFORMER_MEMORY_H
#define BB_PROXIES_WORKLOADS_TRANSFORMER_MEMORY_H

#include "proxies/workloads/sync/sync.h"
#include "proxies/workloads/transformer/grid/grid.h"
#include "proxies/workloads/transformer/layer/layer.h"
#include "proxies/workloads/transformer/schedule.h"

extern const char *const bb_recompute_names[BB_RECOMPUTES + 1]; /* "none", "selective", "ops", "full", NULL */
extern const char
    *const bb_recompute_module_names[BB_MODULES]; /* those of Megatron-LM: "core_attn", "layernorm", ... */

/* bb_recompute_modules_of - returns the modules of a model that can be recomputed, as a bit mask of enum
 * bb_recompute_module. */
unsigned bb_recompute_modules_of(const struct bb_arch *arch);

/* How a training framework uses memory (see the top of the file). */
struct bb_memory_stack {
    const char *software; /* value of --software */
    bool fused_loss;      /* default of --loss */
    bool loss_in_place;   /* the gradient of a fused loss replaces the logits */
    int float_copies[2];  /* float copies of the logits with an unfused loss; [1]: with tensor parallelism */
    bool has_placeholders, keeps_whole, saves_gathered;
    bool
        copies_early; /* compiled: copies of a layer's backward that eager mode makes one after the other exist together */
    bool saves_unused; /* --recompute ops: also outputs of GEMMs that no backward needs are stored */
    double reserved;   /* factor of activations and communication buffers */
};

/* bb_memory_stack_of - returns the framework of a step.
 *   software  value of --software; NULL: torch with `sharded`, else megatron
 *   sharded   the parameters are sharded (--dp-sync zero3 or hsdp) */
const struct bb_memory_stack *bb_memory_stack_of(const char *software, bool sharded);

/* Inputs of the memory formulas for one parallel layout. All ranks of a pipeline stage with the same index in their ep group
 * need the same amount of memory. The pointers refer to objects of the caller, which must stay valid during the calls. */
struct bb_memory {
    const struct bb_arch *arch;
    const struct bb_grid *grid;
    const struct bb_schedule *schedule;
    const struct bb_dp_config *policy;  /* only the data types of parameters and gradients, and the optimizer, are
                                          used */
    const struct bb_sync_comms *dense;  /* sharding of the dense (non-expert) parameters over ranks; only the fields n
                                          and n_replicas are used */
    const struct bb_sync_comms *expert; /* sharding of the expert parameters over ranks; NULL: the model has no
                                           experts */
    const struct bb_layers_config *layers_config; /* sequence, micro-batch size, sharding, recomputation, element
                                                     types */
    const struct bb_layers
        *layers; /* for the rows that the experts of the rank `ep_rank` receive; NULL: all ranks receive
                                       equally many */
    int ep_rank;
    const struct bb_memory_stack *stack; /* NULL: float logits and nothing else of the list at the top of the file */
    bool fused_loss;
};

/*
 * bb_memory_rank_bytes - compute the memory that a rank of pipeline stage `stage` needs at its peak.
 *   bytes  [BB_USES] out: bytes on one rank, indexed by enum bb_buffer_use (parameters, gradients, ...)
 */
void bb_memory_rank_bytes(const struct bb_memory *m, int stage, double bytes[BB_USES]);

/* Each function returns the activation bytes that one rank stores for one micro-batch: of one layer, of the
 * embedding, or of the output head. */
double bb_memory_layer(const struct bb_memory *m, int layer);
double bb_memory_embedding(const struct bb_memory *m);
double bb_memory_head(const struct bb_memory *m);

/* bb_memory_host_bytes - return the activation bytes of one rank that are copied to host memory.
 * bb_memory_host_optimizer_bytes - return the bytes of its optimizer in host memory. */
double bb_memory_host_bytes(const struct bb_memory *m);
double bb_memory_host_optimizer_bytes(const struct bb_memory *m, int stage);

/*
 * bb_memory_module - returns the activation bytes that one rank stores for one micro-batch of a module, from its forward
 * to its backward.
 *   layer       index of the layer, BB_ARCH_EMBEDDING, BB_ARCH_HEAD or BB_ARCH_MTP
 *   recomputed  true: the backward pass recomputes the layer
 *   backward    out: bytes that the module holds during its backward, including recomputed activations
 */
double bb_memory_module(const struct bb_memory *m, int layer, bool recomputed, double *backward);

/* bb_memory_table_stage - returns the stage that holds a copy of the embedding table of the first stage: the last if the
 * embeddings are tied, else that of multi-token prediction; 0: none. */
int bb_memory_table_stage(const struct bb_arch *arch, const struct bb_grid *grid, const struct bb_schedule *schedule);

/* bb_memory_parameters - returns the number of parameters on a rank of pipeline stage `stage` before data-parallel
 * sharding (ZeRO). */
struct bb_arch_rank_parameters bb_memory_parameters(const struct bb_memory *m, int stage);

#endif
