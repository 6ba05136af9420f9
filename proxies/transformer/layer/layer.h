/*
 * layer.h - a transformer's layers as operations of one rank: what a tensor-, sequence-, context- or expert-parallel
 * rank does in the forward and the backward pass of one layer and one micro-batch, of the embedding, of the head with
 * its cross entropy, and with its gradients at the end of a step. Orders and what runs under what are those of
 * Megatron-LM (tensor_parallel/layers.py and mappings.py, moe/token_dispatcher.py, finalize_model_grads.py), rings of
 * context parallelism those of Transformer Engine. Pure, as all that builds programs.
 *
 * Symbols: t = tp, c = cp, N = micro-batch * sequence / c tokens, X = N * hidden elements (the activations of a rank
 * without sequence parallelism). With sequence parallelism a rank holds X / t between the layers.
 *
 *   tensor parallel     forward all_reduce X after attention and after the perceptron; backward all_reduce X of the
 *                       gradients at the same places, started before the products of the weight gradients of qkv (up)
 *                       and waited for after them
 *   + sequence parallel forward all_gather X, reduce_scatter X for each half; backward for each half all_gather X of
 *                       the gradients, all_gather X of the saved input under the data gradient's product,
 *                       reduce_scatter X under the weight gradient's: 6 all_gather and 4 reduce_scatter per layer
 *   context parallel    ring: c - 1 exchanges of the keys' and values' block under the attention of the block before,
 *                       backward the same again, and c - 1 of their gradients; all_gather: all_gather of keys and
 *                       values, forward and backward, reduce_scatter of their gradients; all_to_all: four alltoall
 *                       forward (q, k, v, out), four backward
 *   experts             router, all_gather of the counts per expert, alltoall of tokens and of probabilities (float),
 *                       experts, alltoall back; backward mirrored. Or all_gather of all tokens and reduce_scatter.
 *                       Or, of experts on several nodes, each token once to each of a limited number of nodes (alltoall
 *                       among the same places of the nodes), then to its experts inside the node (alltoall there);
 *                       back, answers are summed inside the node first
 *
 * Dropless experts with an imbalance, or tokens that do not divide by ep: ranks of different place in the ep group send
 * and receive different counts, by an alltoallv (proxies/step/alltoallv.h; all_gather: their experts compute for a
 * different time). So a rank's program depends on its place in ep: roles are per stage AND ep coordinate,
 * bb_layers_programs_per_stage says how many, and bb_block_init takes the place. In all other cases one program serves all
 * places, and bb_layers_programs_per_stage says 1. The counts do not depend on the place in any other group (tp, dp, edp) nor on
 * the micro-batch, and both sides take them from one table (routing.h), so they always meet.
 */
#ifndef BB_PROXIES_TRANSFORMER_LAYER_LAYER_H
#define BB_PROXIES_TRANSFORMER_LAYER_LAYER_H

#include "proxies/author/script.h"

struct bb_arch; /* transformer/arch/arch.h */

enum bb_context_mode { BB_CONTEXT_RING, BB_CONTEXT_ALL_GATHER, BB_CONTEXT_ALL_TO_ALL };
/* Again before the backward pass: nothing, scores and context, the whole layer. */
enum bb_recompute { BB_RECOMPUTE_NONE, BB_RECOMPUTE_SELECTIVE, BB_RECOMPUTE_FULL, BB_RECOMPUTES };
enum bb_dispatch_mode { BB_DISPATCH_ALL_TO_ALL, BB_DISPATCH_ALL_GATHER, BB_DISPATCH_DEDUP };

/* What a builder says about all layers of a step. Sizes are 1 where an axis is not used. */
struct bb_layers_config {
    const struct bb_arch *arch; /* outlives the step's building                                              */
    int tp, cp, ep, etp;
    int decoder_sequence;           /* of a model with an encoder: tokens of a sample that its decoder makes */
    int sequence, micro_batch_size; /* tokens of a sample, samples of a micro-batch                          */
    bool sequence_parallel;
    enum bb_recompute recompute;
    int recompute_layers; /* full: so many of the first layers of a chunk, 0: all                                */
    enum bb_context_mode context;
    enum bb_dispatch_mode dispatch;
    bool float8_dispatch;   /* what goes to the experts has 8 bits and a scale for each 128 numbers; back, as usual  */
    int nodes, node_limit;  /* dedup: nodes that ep spans (2 or more), and to how many of them each token goes       */
    double capacity_factor; /* 0: dropless                                                                   */
    double imbalance;       /* dropless: 0 all experts alike; z: popularity falls as 1 / place^z (Zipf)      */
    unsigned seed;          /* of who is popular                                                             */
    enum bb_dtype_id dtype, grad_dtype; /* of activations; in which gradients are reduced                    */
    double tflops;                      /* timed: FLOPs into microseconds                                    */
    double forward_us, backward_us;     /* timed: of a whole layer instead, 0: from FLOPs                    */
    bool accumulates; /* gradients of several micro-batches are added up                                     */
    bool gemm;        /* compute operations carry their products and passes                */
    bool unfused;     /* attention kernel by kernel, its scores in memory                  */
    bool fused;       /* it was said: attention that drops out keeps no scores, either     */
    bool float8;      /* products with weights cast their operands to 8 bits               */
};

/* ---- what the layers of a step have in common ---- */

/* bb_layers_is_recomputed - whether a layer is computed again as a whole; chunk_first: the first layer of its chunk. A
 * decoder's layers are counted from its own first one. */
bool bb_layers_is_recomputed(const struct bb_layers_config *config, int chunk_first, int layer);

struct bb_layers; /* opaque: settled sizes, work lists, the table of routed rows */

/*
 * bb_layers_new - settles the sizes of a model that its grid divides (bb_grid_validate_model). Refused with a line, -BB_EUSAGE:
 * micro-batches of more tokens than can be counted, and experts with tp but without sequence parallelism. `step` keeps
 * work lists and names, and must outlive it.
 */
int bb_layers_new(struct bb_layers **layers, const struct bb_layers_config *config, struct bb_step *step) BB_MUST_CHECK;
void bb_layers_free(struct bb_layers *layers); /* NULL is fine */

int bb_layers_programs_per_stage(const struct bb_layers *layers);   /* different programs of one stage: 1, or ep (see above) */
size_t bb_layers_boundary_elements(const struct bb_layers *layers); /* elements between two stages: X, or X / t */

/* FLOPs that one rank does for one micro-batch of a layer (from 0, over the whole model), forward; backward twice. For
 * experts: of a rank that gets its equal share. What operations state as their FLOPs is what the model needs: nothing
 * for what is computed again, and with a capacity no more than the equal share. */
double bb_layers_flops(const struct bb_layers *layers, int layer);

/* ---- one rank's view while its program is written ---- */

/* bb_no_lane - for groups of one rank: their operations are left out. */
static inline struct bb_script_lane bb_no_lane(void)
{
    return (struct bb_script_lane){0, BB_NONE};
}

/* Communicators; bb_no_lane() where the group has one rank. */
struct bb_block_lanes {
    struct bb_script_lane tp, cp, ep;
    struct bb_script_lane ep_local, ep_cross; /* dedup: ranks of ep on a node; the same place on each node */
    struct bb_script_lane etp;                /* expert tensor parallel                                    */
    struct bb_script_lane etp_ep;    /* both together: counts per expert, all_gather dispatch; ep where etp is 1 */
    struct bb_script_lane embedding; /* first and last stage, of ranks that hold a tied embedding */
    struct bb_script_lane norm[4];   /* groups over which the gradient norm's scalar is summed, one after another */
};

/* dedup: into how many parts the rows of a rank are divided, a power of 2. */
enum { BB_NODE_DISPATCH_CHUNKS = 4 };

struct bb_block {
    struct bb_layers *layers;
    struct bb_script *script;
    struct bb_block_lanes lanes;
    int ep_rank;     /* place in the ep group, 0 where bb_layers_programs_per_stage is 1 */
    bool in_decoder;    /* internal: embedding and head that are written now are the decoder's */
    bool reads_encoder; /* internal: what is gathered and summed now is the encoder's, in a decoder's layer */
    bool recomputing;      /* what is written now was computed before                */
    bool skip_recompute; /* the caller's: the layer that comes is not computed again, though others are (--recompute full) */
    int buffers[48]; /* internal: of the program, made when first used; BB_NONE before that */
    int inter_node_ops[BB_NODE_DISPATCH_CHUNKS], inter_node_probabilities; /* internal: rows that are on their way to other nodes */
};

void bb_block_init(struct bb_block *b, struct bb_layers *layers, struct bb_script *script,
                   const struct bb_block_lanes *lanes, int ep_rank);

/*
 * One layer of one micro-batch. The script's micro_batch is the caller's; phase and layer are set here (layer is put
 * back to BB_NONE). `in` and `out` are buffers of bb_layers_boundary_elements elements: what the first operation reads and the
 * last one writes; BB_NONE: the block's own, as between two layers of a stage. All is waited for when the call returns.
 *   forward    in: activations of the layer before      out: those of this layer
 *   backward   in: gradient of this layer's output      out: gradient of its input
 * with_weights = false leaves the weights' gradients to bb_block_weights, as zero-bubble schedules do.
 */
void bb_block_forward(struct bb_block *b, int layer, int in, int out);
void bb_block_backward(struct bb_block *b, int layer, int in, int out, bool with_weights);
void bb_block_weights(struct bb_block *b, int layer);

/* First stage: tokens into activations; the table's gradient. */
void bb_block_embedding_forward(struct bb_block *b, int out);
void bb_block_embedding_backward(struct bb_block *b, int in);

/* Last stage: final norm, logits, cross entropy (three all_reduce of N floats over tp: MAX of the logits, SUM of the
 * target's logit, SUM of exponentials); backward the gradient of the last layer's output. */
void bb_block_head_forward(struct bb_block *b, int in);
void bb_block_head_backward(struct bb_block *b, int out, bool with_weights);
void bb_block_head_weights(struct bb_block *b);

/* ---- the end of a step --------------------------------------------------------------------------------------------
 * In this order, after the gradients of the last micro-batch are reduced over dp x cp. */

/* Elements of a layer (or BB_ARCH_HEAD) whose gradients are partial sums on each tp rank: with sequence parallelism
 * what tp does not divide (layer norms, biases after the row-parallel products, routers); else 0. Of the embedding
 * none: its backward gathers the gradient of all tokens, so positions get theirs whole. */
size_t bb_layers_replicated_elements(const struct bb_layers *layers, int layer);

/* One all_reduce over tp of `replicated` gradients, the sum over all layers that the rank holds; 0: none. */
void bb_block_reduce_replicated(struct bb_block *b, size_t replicated);

/* One all_reduce of the tied table's gradient over the lane `embedding`; of one of so many shards, where replicas keep
 * no more of their gradients. */
void bb_block_reduce_tied(struct bb_block *b, int shards);

/* The scalars of the gradient norm over the lanes `norm`. */
void bb_block_gradient_norm(struct bb_block *b);

#endif
