/*
 * layer.h - the operations of one rank for the layers of a transformer: forward and backward pass of a layer for one
 * micro-batch, embedding, head with cross entropy, and the communication of their gradients at the end of a step, with
 * tensor, sequence, context and expert parallelism. The functions only build programs; they call neither CUDA nor NCCL.
 *
 * The order of the operations and their overlap follow Megatron-LM (tensor_parallel/layers.py and mappings.py,
 * moe/token_dispatcher.py, finalize_model_grads.py). Ring context parallelism follows Transformer Engine.
 *
 * Symbols: t = tp, c = cp, N = micro-batch * sequence / c tokens, X = N * hidden elements (the activations of a rank
 * without sequence parallelism). With sequence parallelism a rank stores X / t between the layers.
 *
 *   tensor parallel     forward: all_reduce X after attention and after the MLP; backward: all_reduce X of the input
 *                       gradients of QKV and of MLP up, overlapped with the weight-gradient GEMMs of QKV and up
 *   + sequence parallel per sublayer (attention, MLP): forward all_gather X, reduce_scatter X; backward all_gather X of
 *                       the output gradient, all_gather X of the saved input during the data-gradient GEMM,
 *                       reduce_scatter X during the weight-gradient GEMM; 6 all_gather and 4 reduce_scatter per layer
 *   + latent attention  (MLA, multi_latent_attention.py) instead of the input of attention: the down projections, whose
 *                       weights tp does not shard, read the X / t of the rank. Forward: all_gather of the key positions
 *                       (rope), of the query latents (without one, of the input) and of the key and value latents; backward:
 *                       both latents again, and reduce_scatter of the three gradients. The indexer of DeepSeek-V3.2 (dsa.py)
 *                       reads all tokens: all_gather X of its input and of the query latents, without gradients
 *   + overlap           Transformer Engine's user buffers (initialize_ub) and asynchronous TP of PyTorch: a rank computes its
 *                       own 1 / t of the tokens while it receives the others' (all_gather of the input of QKV (not latents) and MLP up, and
 *                       of the output gradient), or sends the other ranks' sums while it computes (reduce_scatter). One
 *                       t-th of the GEMM is not concurrent with the collective: the last chunk after an all_gather, the
 *                       first chunk before a reduce_scatter
 *   context parallel    ring, forward: c - 1 exchanges of a block of keys and values, each during the attention with
 *                       the same block. Ring, backward: the same exchanges again, and c - 1 exchanges of the gradients
 *                       of keys and values.
 *                       all_gather: all_gather of keys and values, forward and backward; reduce_scatter of their
 *                       gradients.
 *                       all_to_all (Ulysses): four alltoall forward (q, k, v, out), four backward
 *   expert parallel     alltoall: router, all_gather of the token counts per expert, alltoall of tokens and of
 *                       probabilities (float), experts, alltoall of the outputs back to the ranks of the tokens; the
 *                       backward pass runs the same exchanges in reverse.
 *                       all_gather: all_gather of all tokens and reduce_scatter of the output.
 *                       dedup, for ep groups that span nodes: each token goes once to each of a limited number of nodes
 *                       (alltoall between ranks with the same local index), then to its experts in the node (alltoall
 *                       in the node); on the way back, expert outputs are summed in the node before they are sent
 *
 * With dropless experts, the row counts differ between the ranks of an ep group if there is an imbalance or if ep does
 * not divide the number of routed tokens. The ranks then exchange rows by an alltoallv (proxies/form/step/alltoallv.h); with
 * all_gather dispatch their experts compute for different times. The program of a rank therefore depends on its index
 * in the ep group: bb_layers_programs_per_stage returns ep, bb_block_init takes the index, and there is one role (group
 * of ranks with the same program) per stage and ep coordinate. In all other cases one program serves all ranks of a
 * stage, and bb_layers_programs_per_stage returns 1. The row counts depend neither on the index in other groups (tp,
 * dp, edp) nor on the micro-batch. Sender and receiver read the counts from the same table (routing.h), so that they
 * match.
 */
#ifndef BB_PROXIES_WORKLOADS_TRANSFORMER_LAYER_LAYER_H
#define BB_PROXIES_WORKLOADS_TRANSFORMER_LAYER_LAYER_H

#include "proxies/form/author/script.h"

struct bb_arch; /* transformer/arch/arch.h */

/* How context parallelism exchanges keys and values: ring of point-to-point exchanges, all-gather, or all-to-all
 * between sharding by tokens and sharding by heads (Ulysses). */
enum bb_context_mode { BB_CONTEXT_RING, BB_CONTEXT_ALL_GATHER, BB_CONTEXT_ALL_TO_ALL };
/* What is recomputed before the backward pass (activation recomputation, also called checkpointing): nothing,
 * attention scores and context (or modules), every second GEMM and the memory-bound kernels, or the whole layer. */
enum bb_recompute { BB_RECOMPUTE_NONE, BB_RECOMPUTE_SELECTIVE, BB_RECOMPUTE_OPS, BB_RECOMPUTE_FULL, BB_RECOMPUTES };
/* The parts of a layer that selective recomputation may recompute, in the order of bb_recompute_module_names (memory.h).
 * NORM: only norms that are kernels of their own in Megatron-LM, before latent attention (MLA) and before experts; other
 * norms are fused with the GEMM that follows. LATENT_UP: up projections of the latents, and the rotation. */
enum bb_recompute_module {
    BB_MODULE_CORE,
    BB_MODULE_NORM,
    BB_MODULE_LATENT_UP,
    BB_MODULE_MLP,
    BB_MODULE_MOE,
    BB_MODULE_EXPERT_ACTIVATION,
    BB_MODULE_SHARED_EXPERTS,
    BB_MODULES
};
/* How tokens are sent to their experts: all-to-all; all-gather of all tokens; or one copy per node, which that node
 * distributes to its ranks (dedup). */
enum bb_dispatch_mode { BB_DISPATCH_ALL_TO_ALL, BB_DISPATCH_ALL_GATHER, BB_DISPATCH_DEDUP };

/* Configuration of all layers of a training step. The size of an unused parallelism axis is 1. */
struct bb_layers_config {
    const struct bb_arch *arch; /* must stay valid until the step is built */
    int tp, cp, ep, etp;
    int decoder_sequence;           /* tokens per sample of the decoder; used only with an encoder */
    int sequence, micro_batch_size; /* tokens per sample, samples per micro-batch */
    bool sequence_parallel;
    enum bb_recompute recompute;
    unsigned recompute_modules; /* BB_RECOMPUTE_SELECTIVE: bit mask of enum bb_recompute_module; 0: BB_MODULE_CORE */
    unsigned graph_modules;     /* modules that are launched as CUDA graphs: bit mask of enum bb_graph_module */
    int recompute_layers;       /* BB_RECOMPUTE_FULL: only the first recompute_layers layers of each model chunk are
                             recomputed; 0: all */
    int offload_layers;         /* number of layers, from the first, whose activations are kept in host memory */
    enum bb_context_mode context;
    enum bb_dispatch_mode dispatch;
    bool float8_dispatch;  /* tokens are sent to the experts in FP8 with a float scale per 128 elements; outputs
                             return unquantized */
    int nodes, node_limit; /* only for dedup dispatch. nodes: number of nodes that an ep group spans, at least 2;
                              node_limit: maximum number of nodes to which a token is sent; 0: no limit */
    /* > 0: each expert gets a fixed number of rows (a row is one token for one expert): this factor times the number
     * with equal load on all experts; 0: dropless, each expert gets all tokens that chose it */
    double capacity_factor;
    double load;      /* rows of the experts of each rank relative to equal load, without an imbalance; 0: 1 */
    double imbalance; /* only for dropless experts. 0: equal load on all experts; z > 0: the k-th most popular expert
                         is chosen in proportion to 1 / k^z (Zipf's law) */
    unsigned seed;    /* random seed that determines which experts are popular */
    struct bb_expert_shares *shares;    /* kept for other steps (routing.h), or NULL */
    enum bb_dtype_id dtype, grad_dtype; /* dtype: data type of the activations; grad_dtype: data type in which
                                           gradients are reduced */
    double tflops; /* rate in TFLOP/s that converts FLOPs to time, for timed kernels and Horovod's tensor fusion */
    double forward_us, backward_us; /* time per layer and micro-batch in microseconds, used instead of tflops; 0:
                                       computed from the FLOPs */
    bool accumulates;               /* gradients of several micro-batches are accumulated */
    bool fuses_sums;                /* training adds the gradients of a micro-batch in the GEMM that computes them */
    bool gemm; /* compute operations run GEMMs and memory-bound kernels; false: one kernel that runs for a given time */
    bool unfused; /* true: unfused attention: separate kernels for scores, softmax and context, with the scores in
                     memory */
    bool fused;   /* true: the user requested fused attention: no scores in memory even with dropout */
    enum bb_gemm_precision precision; /* of GEMMs with weights, with kernels that cast the operands */
    bool serial;     /* collectives of tensor parallelism and transfers of ring attention do not overlap compute */
    bool tp_overlap; /* only with sequence parallelism: all collectives of tensor parallelism in layers overlap GEMMs */
};

/* ---- shared by all layers of a step ---- */

/* bb_layers_is_recomputed - returns whether the whole layer is recomputed in the backward pass. chunk_first: first
 * layer of the model chunk that contains `layer`. recompute_layers (struct bb_layers_config) is counted from
 * chunk_first; in the decoder of an encoder-decoder model, from the first decoder layer of the chunk. */
bool bb_layers_is_recomputed(const struct bb_layers_config *config, int chunk_first, int layer);

/* bb_layers_recomputes - returns whether selective recomputation recomputes the module. */
bool bb_layers_recomputes(const struct bb_layers_config *config, enum bb_recompute_module module);

struct bb_layers; /* opaque: resolved sizes, kernel lists, number of rows (token copies) that the experts of each
                     rank receive */

/*
 * bb_layers_new - create the layers of a model that bb_grid_validate_model accepted.
 *   layers   out: the layers; NULL after an error
 *   step     the step being built, which receives the kernel lists; must outlive the layers
 *   Returns  0, or -BB_EUSAGE after printing one error line: micro-batches with too many tokens, experts with tp but
 *            without sequence parallelism, ring context parallelism with sliding-window attention, dedup dispatch that
 *            cannot divide the rows (token copies) evenly
 *   Owner    the caller releases *layers with bb_layers_free
 */
int bb_layers_new(struct bb_layers **layers, const struct bb_layers_config *config, struct bb_step *step) BB_MUST_CHECK;

/* bb_layers_store_row_counts - copy the row counts (token copies between ep ranks) of each layer into tables that the step
 * owns, before the first program is written. */
void bb_layers_store_row_counts(struct bb_layers *layers);

/* bb_layers_validate - make the checks of bb_layers_new, except that of dedup dispatch. Returns 0, or -BB_EUSAGE after
 * printing one error line. */
int bb_layers_validate(const struct bb_layers_config *config, const char *proxy) BB_MUST_CHECK;
void bb_layers_free(struct bb_layers *layers); /* NULL is allowed */

/* bb_layers_programs_per_stage - returns the number of different programs among the ranks of a pipeline stage: ep if
 * the experts of different ep ranks receive different numbers of rows (token copies), else 1. */
int bb_layers_programs_per_stage(const struct bb_layers *layers);

/* bb_layers_expert_load - returns the number of rows (token copies) that the experts of one ep rank receive in a layer,
 * divided by the number if all ranks received equally many. */
double bb_layers_expert_load(const struct bb_layers *layers, int layer, int ep_rank);

/* bb_layers_boundary_elements - returns the number of activation elements that one rank of a pipeline stage sends to
 * the next stage: tokens per rank x hidden size x residual streams, divided by tp with sequence parallelism. */
size_t bb_layers_boundary_elements(const struct bb_layers *layers);

/*
 * bb_layers_flops - returns the forward FLOPs of one rank for one micro-batch of a layer; backward has twice as many.
 *   layer    index in the whole model, from 0
 *
 * With experts the result assumes that all experts get equal numbers of rows (token copies). The operations of a
 * program report model FLOPs, which exclude recomputation and, with a capacity factor, the rows beyond that equal
 * number.
 */
double bb_layers_flops(const struct bb_layers *layers, int layer);

/* ---- generating the program of one rank ---- */

/* bb_no_lane - returns the lane (communicator and stream) of a process group with one rank. Collectives on this lane
 * are omitted from the program. */
static inline struct bb_script_lane bb_no_lane(void)
{
    return (struct bb_script_lane){0, BB_NONE};
}

/* The lane (communicator and stream) of each process group; bb_no_lane() for a group with one rank. */
struct bb_block_lanes {
    struct bb_script_lane tp, cp, ep;
    struct bb_script_lane ep_local, ep_cross; /* dedup dispatch: ep_local: the ep ranks of one node; ep_cross: the ep
                                                 ranks with the same index in their nodes */
    struct bb_script_lane etp;                /* expert tensor parallelism: the ranks that shard one expert */
    struct bb_script_lane etp_ep;    /* etp x ep ranks, for the token counts per expert and for all_gather dispatch;
                                     equal to `ep` if etp is 1 */
    struct bb_script_lane embedding; /* the stages that hold the embedding table */
    struct bb_script_lane norm[3];   /* communicators and streams over which the gradient norm (one scalar) is summed,
                                      one after another */
};

/* dedup dispatch: maximum number of chunks into which a rank's rows are divided (a power of 2). The inter-node
 * transfer of a chunk overlaps the intra-node transfer of the previous chunk. */
enum { BB_NODE_DISPATCH_CHUNKS = 4 };

/* State for adding the operations of layers to the program of one rank (script). */
struct bb_block {
    struct bb_layers *layers;
    struct bb_script *script;
    struct bb_block_lanes lanes;
    int ep_rank;        /* index of the rank in its ep group; 0 if bb_layers_programs_per_stage is 1 */
    long rows_received; /* internal: maximum, over the layers, of the number of rows (token copies) that the rank's
                            experts receive */
    bool in_decoder;    /* internal: the operations being added belong to the embedding or the head of the decoder */
    bool reads_encoder; /* internal: the operations being added belong to a decoder layer that gathers the encoder
                           output or sums its gradients */
    /* internal: attention and MLP of a layer computed in parallel (arch.parallel_attention) share the collectives over
     * tp. gathered: the other one has gathered the input (backward: also the gradient of the output); deferred: the
     * other one sums the output (backward: the gradient of the input) of both */
    bool gathered, deferred;
    bool recomputing;    /* internal: the operations being added recompute activations and report no model FLOPs */
    bool skip_recompute; /* set by the caller: the layer of the next bb_block_backward is not recomputed, although
                            --recompute is full */
    int buffers[64]; /* internal: program index of each buffer, indexed by enum bb_block_buffer; BB_NONE: not created
                        yet */
    /* internal, dedup dispatch: program indices of the operations that send the chunks of rows (token copies), and
     * the probabilities, to other nodes */
    int inter_node_ops[BB_NODE_DISPATCH_CHUNKS], inter_node_probabilities;
};

/* bb_block_init - prepare a block for one rank. layers and script must outlive the block. ep_rank: see struct
 * bb_block. */
void bb_block_init(struct bb_block *b, struct bb_layers *layers, struct bb_script *script,
                   const struct bb_block_lanes *lanes, int ep_rank);

/*
 * bb_block_forward, bb_block_backward - add the forward or backward pass of one layer for one micro-batch to the
 * program.
 * bb_block_weights - add only the weight gradients of the layer, as zero-bubble schedules require.
 *   in, out       buffers of bb_layers_boundary_elements elements, read by the first and written by the last operation;
 *                 BB_NONE: the buffers of the block, for consecutive layers of a stage
 *     forward     in: activations of the previous layer  out: activations of this layer
 *     backward    in: gradient of this layer's output    out: gradient of this layer's input
 *   with_weights  false: without the weight gradients, which bb_block_weights adds later
 *
 * The caller sets micro_batch of the script. The functions set phase and layer of the script, and reset layer to
 * BB_NONE at the end. The added operations include waits for all operations of the layer.
 */
void bb_block_forward(struct bb_block *b, int layer, int in, int out);
void bb_block_backward(struct bb_block *b, int layer, int in, int out, bool with_weights);
void bb_block_weights(struct bb_block *b, int layer);

/* Both functions add the operations of the embedding on the first stage. Forward: looks up the tokens in the
 * embedding table and sums the result over tp. Backward: with sequence parallelism, gathers the gradients of all
 * tokens over tp; the gradient of the table itself is not computed. */
void bb_block_embedding_forward(struct bb_block *b, int out);
void bb_block_embedding_backward(struct bb_block *b, int in);

/* Add the operations of a layer of multi-token prediction (BB_ARCH_MTP): embedding of the next token, the projection, whose
 * output is gathered over tp, and the model's last layer again. in, out and with_weights as in bb_block_forward, ... The head
 * follows once more for each. */
void bb_block_mtp_forward(struct bb_block *b, int in, int out);
void bb_block_mtp_backward(struct bb_block *b, int in, int out, bool with_weights);
void bb_block_mtp_weights(struct bb_block *b);

/* All three functions add the operations of the head of the last stage. Forward: final norm, logits, and cross
 * entropy with three all_reduce over tp of one float per token (MAX of the logits, SUM of the target logits, SUM of
 * the exponentials). Backward: gradient of the last layer's output. Weights: only the weight gradients. */
void bb_block_head_forward(struct bb_block *b, int in);
void bb_block_head_backward(struct bb_block *b, int out, bool with_weights);
void bb_block_head_weights(struct bb_block *b);

/* ---- end of a step ---- */

/* Call the functions of this section in the order of their declaration, after the gradients of the last micro-batch
 * have been reduced over dp x cp. */

/*
 * bb_layers_replicated_elements - number of parameters of a layer, or of BB_ARCH_HEAD, whose gradients are partial sums
 * on each tp rank.
 *   Returns  with sequence parallelism the number of parameters that tp does not shard (layer norms, biases of
 *            row-parallel GEMMs, routers), else 0. Also 0 for the embedding, because its backward pass gathers the
 *            gradients of all tokens, so that gradients of position embeddings are complete. LoRA: the
 *            adapter matrices that tp does not shard, also without sequence parallelism.
 */
size_t bb_layers_replicated_elements(const struct bb_layers *layers, int layer);

/* bb_block_reduce_replicated - add an all_reduce over tp of the gradients of parameters that tp does not shard.
 * replicated: number of gradient elements, the sum of bb_layers_replicated_elements over the layers of the rank,
 * divided by the number of ranks that shard the gradients (ZeRO); 0: no operation. */
void bb_block_reduce_replicated(struct bb_block *b, size_t replicated);

/* bb_block_reduce_tied - add an all_reduce of the gradient of the embedding table over the two stages that hold it.
 * shards: number of data-parallel ranks that shard the gradients (ZeRO), 1: not sharded; each rank reduces 1 /
 * shards of the table. */
void bb_block_reduce_tied(struct bb_block *b, int shards);

/* bb_block_gradient_norm - add an all_reduce of the gradient norm (one scalar) over each communicator in `norm` of
 * struct bb_block_lanes. */
void bb_block_gradient_norm(struct bb_block *b);

#endif
