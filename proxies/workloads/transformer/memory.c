/* memory.c - formulas for the GPU memory that real training needs (see memory.h). */
#include "proxies/workloads/transformer/memory.h"

#include <math.h>
#include <string.h>

const char *const bb_recompute_names[BB_RECOMPUTES + 1] = {"none", "selective", "ops", "full", NULL};
const char *const bb_recompute_module_names[BB_MODULES] = {"core_attn", "layernorm", "mla_up_proj",   "mlp",
                                                           "moe",       "moe_act",   "shared_experts"};

unsigned bb_recompute_modules_of(const struct bb_arch *a)
{
    const bool has[BB_MODULES] = {[BB_MODULE_CORE] = true,
                                  [BB_MODULE_NORM] = a->kv_lora > 0 || a->experts > 0,
                                  [BB_MODULE_LATENT_UP] = a->kv_lora > 0,
                                  [BB_MODULE_MLP] = bb_arch_any(a, BB_ARCH_DENSE),
                                  [BB_MODULE_MOE] = a->experts > 0,
                                  [BB_MODULE_EXPERT_ACTIVATION] = a->experts > 0,
                                  [BB_MODULE_SHARED_EXPERTS] = a->shared_ffn > 0};
    unsigned modules = 0;

    for (int i = 0; i < BB_MODULES; i++)
        modules |= (unsigned)has[i] << i;
    return modules;
}

/* reserved: for torch the mean of two published peaks relative to the formulas (tests/cli/test_memory.py). The published
 * peaks of Megatron-LM do not include what the allocator reserves. None were published for JAX. torch.compile of the model
 * alone leaves the loss unfused: torchtitan of 2024. Its benchmarks of 2025 compile the loss too (--loss fused). */
static const struct bb_memory_stack stacks[] = {
    {"megatron", .fused_loss = true, .loss_in_place = true, .float_copies = {1, 1}, .has_placeholders = true,
     .reserved = 1},
    {"megatron-flash2", .fused_loss = true, .loss_in_place = true, .float_copies = {1, 1}, .has_placeholders = true,
     .reserved = 1},
    {"megatron-plain", .fused_loss = true, .loss_in_place = true, .float_copies = {1, 1}, .has_placeholders = true,
     .reserved = 1},
    {"torch", .float_copies = {3, 4}, .keeps_whole = true, .saves_gathered = true, .saves_unused = true,
     .reserved = 1.06},
    {"torch-compile", .float_copies = {3, 4}, .keeps_whole = true, .saves_gathered = true, .copies_early = true,
     .reserved = 1.06},
    {"torch-te", .float_copies = {3, 4}, .keeps_whole = true, .saves_gathered = true, .saves_unused = true,
     .reserved = 1.06},
    {"jax", .fused_loss = true, .float_copies = {3, 4}, .reserved = 1},
};

const struct bb_memory_stack *bb_memory_stack_of(const char *software, bool sharded)
{
    int i = 0;

    software = software ? software : sharded ? "torch" : "megatron";
    while (strcmp(stacks[i].software, software) != 0)
        i++;
    return &stacks[i];
}

static double element_bytes(const struct bb_memory *m)
{
    return (double)bb_dtypes[m->layers_config->dtype].bytes;
}

/* Decoder tokens of one micro-batch per context-parallel rank. In models without an encoder all tokens are decoder
 * tokens. */
static double decoder_tokens(const struct bb_memory *m)
{
    int sequence = m->arch->encoder_layers > 0 ? m->layers_config->decoder_sequence : m->layers_config->sequence;

    return (double)sequence * m->layers_config->micro_batch_size / m->grid->cp;
}

/* Bytes per element of a GEMM input that is stored for the backward pass. With FP8, MXFP8 or NVFP4 the quantized copy of
 * the input is stored (Transformer Engine). */
static double gemm_input_bytes(const struct bb_memory *m)
{
    return m->layers_config->precision ? bb_gemm_formats[m->layers_config->precision].bytes : element_bytes(m);
}

/* Tokens of one micro-batch per context-parallel rank; in encoder-decoder models only those of the encoder. */
static double tokens_per_rank(const struct bb_memory *m)
{
    return (double)m->layers_config->sequence * m->layers_config->micro_batch_size / m->grid->cp;
}

/* Number of shards of the activations that tensor parallelism alone does not shard (inputs of norms and projections,
 * dropout masks): tp with sequence parallelism, else 1. */
static double sequence_shards(const struct bb_memory *m)
{
    return m->layers_config->sequence_parallel ? m->grid->tp : 1;
}

/* Part of the input of a GEMM that a tp rank stores in addition to its shard of the sequence. */
static double gathered_part(const struct bb_memory *m)
{
    return m->stack && m->stack->saves_gathered ? 1 - 1 / sequence_shards(m) : 0;
}

/* ---- activations: bytes per token ---- */

/* Bytes that a layer stores per token for its backward pass. whole: total bytes of tensors that every tp rank stores
 * in full, unless sequence parallelism shards them; split: total bytes of tensors that are always sharded over tp. */
struct token_bytes {
    double whole, split;
};

static bool recomputes(const struct bb_memory *m, enum bb_recompute_module module)
{
    return bb_layers_recomputes(m->layers_config, module);
}

/* Attention scores of all heads: softmax output; with dropout also the mask and the output of the dropout. */
static double score_bytes(const struct bb_memory *m, int layer)
{
    const struct bb_layers_config *c = m->layers_config;
    const double e = element_bytes(m), each = m->arch->dropout && !c->fused ? 2 * e + 1 : c->unfused ? e : 0;

    return recomputes(m, BB_MODULE_CORE) ? 0
                                         : each * m->arch->heads * bb_arch_attended_keys(m->arch, layer, c->sequence);
}

static struct token_bytes attention_bytes(const struct bb_memory *m, int layer)
{
    const struct bb_arch *a = m->arch;
    const int ratio = bb_arch_ratio(a, layer), index_heads = bb_arch_index_heads(a, ratio);
    double e = element_bytes(m), mask = a->dropout ? a->hidden : 0;
    /* the inputs of the norm and of the projections, and the dropout mask */
    struct token_bytes bytes = {.whole = (e + gemm_input_bytes(m)) * a->hidden + mask};

    if (a->kv_lora) {
        /* multi-head latent attention: latents of queries, keys and values before and after their norms; without the
         * outputs of the up projections (and the inputs, which have a fused norm) only the context remains */
        const bool again = recomputes(m, BB_MODULE_LATENT_UP);

        bytes.whole += e * ((again ? 1 : 2) * (a->q_lora + a->kv_lora) + a->rope_dim);
        bytes.whole -= recomputes(m, BB_MODULE_NORM) ? gemm_input_bytes(m) * a->hidden : 0;
        bytes.split = e * a->heads * (again ? a->v_dim : 2.0 * (a->nope_dim + a->rope_dim + a->v_dim));
        if (index_heads > 0) /* sparse attention: queries, key, weights and selected key indices of the indexer */
            bytes.whole += e * (index_heads * (a->index_dim + 1.0) + (ratio ? 0 : a->index_dim)) +
                           4.0 * bb_arch_attended_keys(a, layer, m->layers_config->sequence);
        if (a->streams) { /* queries before and after their norm, context before and after its rotation, input of the last
                             GEMM; inputs of the compressors; no keys or values per head */
            bytes.split = e * a->heads * 2.0 * (again ? a->v_dim : a->nope_dim + a->rope_dim + a->v_dim) +
                          gemm_input_bytes(m) * a->out_groups * a->out_lora;
            bytes.whole += e * 2.0 *
                           (bb_arch_compressor_width(ratio, a->kv_lora) +
                            (index_heads ? bb_arch_compressor_width(ratio, a->index_dim) : 0));
        }
    } else {
        /* queries, keys, values, and the attention context (the weighted sum of the values) */
        bytes.split = e * 2.0 * a->head_dim * (a->heads + a->kv_heads);
        /* the attention context is stored twice, quantized and unquantized */
        bytes.split += m->layers_config->precision ? gemm_input_bytes(m) * a->head_dim * a->heads : 0;
        bytes.split += a->out_gate ? e * 2.0 * a->head_dim * a->heads : 0;
    }
    return (struct token_bytes){bytes.whole, bytes.split + score_bytes(m, layer)};
}

/* Stored bytes per token of a scan layer (state-space or linear attention): the input of the layer, the
 * convolution's input and output, the scan's output, the gate's input and output. Gated DeltaNet divides the tokens
 * into chunks of s->chunk tokens and also stores the inverse of one matrix per chunk and head: s->chunk elements per
 * token and head. */
static struct token_bytes scan_bytes(const struct bb_memory *m)
{
    const struct bb_arch_scan *s = &m->arch->scan;
    double e = element_bytes(m), values = (double)s->heads * s->value_dim,
           mixed = 2.0 * s->groups * s->key_dim + values;
    double numbers = 2 * mixed + values + s->heads * (s->delta ? 2 + s->chunk : 1) + 2 * values;

    if (s->step_rank) /* input and gate, the output of the convolution, step sizes, the output; keys, queries and steps */
        numbers = 5 * values + 2.0 * s->key_dim + s->step_rank;

    return (struct token_bytes){.whole = 2 * e * m->arch->hidden, .split = e * numbers};
}

/* Stored bytes of the inputs of an MLP's activation function and, unless it is recomputed, of the output, per token. */
static double inner_bytes(const struct bb_memory *m, double ffn, bool again)
{
    return ((m->arch->gated ? 2 : 1) * element_bytes(m) + (again ? 0 : gemm_input_bytes(m))) * ffn;
}

/* Stored bytes per token of a layer with experts. Each token goes to top_k experts. With expert tensor parallelism
 * (etp > 1) and sequence parallelism, each rank of an etp group processes the gathered tokens of all ranks of the
 * group. */
static struct token_bytes expert_bytes(const struct bb_memory *m, int layer)
{
    const struct bb_arch *a = m->arch;
    const double load = m->layers_config->capacity_factor > 0 ? m->layers_config->capacity_factor
                        : m->layers_config->load > 0          ? m->layers_config->load
                        : m->layers                           ? bb_layers_expert_load(m->layers, layer, m->ep_rank)
                                                              : 1;
    double e = element_bytes(m), copies = a->top_k * load;
    double gathered = m->layers_config->sequence_parallel ? m->grid->etp : 1;
    const bool frozen = a->lora_rank > 0 && a->lora_attention;
    const double adapters = frozen ? 0 : e * a->lora_rank * (bb_arch_adapters(a, false) + 1);
    /* the input of the norm, and its output, which is the input of the router and of the shared experts */
    struct token_bytes bytes = {.whole = (recomputes(m, BB_MODULE_NORM) || frozen ? 1 : 2) * e * a->hidden};

    if (recomputes(m, BB_MODULE_MOE))
        return bytes;
    bytes.whole += 4.0 * a->experts;      /* router probabilities: FP32 */
    bytes.whole += 2 * e * a->moe_latent; /* inputs of the experts, and their outputs, per token */
    bytes.whole += copies * gathered *
                   ((e + (frozen ? 0 : gemm_input_bytes(m))) * (a->moe_latent ? a->moe_latent : a->hidden) + adapters +
                    inner_bytes(m, a->expert_ffn, frozen || recomputes(m, BB_MODULE_EXPERT_ACTIVATION)) / m->grid->etp);
    bytes.split = recomputes(m, BB_MODULE_SHARED_EXPERTS) ? 0 : inner_bytes(m, a->shared_ffn, frozen);
    return bytes;
}

/* Stored bytes of the cross attention of a decoder layer for one micro-batch: inputs of the norm and of the
 * projection, queries and context, keys and values of all encoder tokens. The encoder's output is stored once, and
 * counted in the first decoder layer. */
static double cross_bytes(const struct bb_memory *m, int layer)
{
    const struct bb_arch *a = m->arch;
    double e = element_bytes(m), encoded = tokens_per_rank(m);
    double memory = layer == a->encoder_layers ? encoded * e * a->hidden / sequence_shards(m) : 0;

    if (!bb_arch_is_decoder(a, layer))
        return 0;
    if (m->layers_config->recompute == BB_RECOMPUTE_FULL)
        return memory;
    return memory + decoder_tokens(m) * 2 * e * a->hidden / sequence_shards(m) +
           (decoder_tokens(m) + encoded) * e * 2 * a->head_dim * a->heads / m->grid->tp;
}

/* Stored bytes per token of a layer with BB_RECOMPUTE_OPS: its input, the outputs of every second GEMM in the order of
 * torchtitan's modules (queries, values, first and, if gated, down GEMM of the MLP), of attention (with float logarithms of
 * sums) and of reduce-scatters. No backward needs the output of the MLP. */
static struct token_bytes operation_bytes(const struct bb_memory *m)
{
    const struct bb_arch *a = m->arch;
    const bool scatters = m->layers_config->sequence_parallel && m->grid->tp > 1;
    const bool unused = m->stack && m->stack->saves_unused;
    const double e = element_bytes(m), state = e * a->hidden;

    return (struct token_bytes){.whole = state * (scatters ? 2 + unused : 1),
                                .split = e * (a->head_dim * (2.0 * a->heads + a->kv_heads) + a->ffn) + 4.0 * a->heads +
                                         (unused && a->gated ? state * m->grid->tp : 0)};
}

double bb_memory_layer(const struct bb_memory *m, int layer)
{
    const struct bb_arch *a = m->arch;
    double tokens = bb_arch_is_decoder(a, layer) ? decoder_tokens(m) : tokens_per_rank(m), e = element_bytes(m);
    struct token_bytes first = {0}, second = {0};
    const int sublayers = bb_arch_has_mixer(a, layer) + bb_arch_has_mlp(a, layer);

    if (m->layers_config->recompute == BB_RECOMPUTE_FULL)
        return tokens * e * a->hidden * bb_arch_streams(a) / sequence_shards(m) + cross_bytes(m, layer);
    if (m->layers_config->recompute == BB_RECOMPUTE_OPS) {
        first = operation_bytes(m);
        return tokens * (first.whole / sequence_shards(m) + first.split / m->grid->tp);
    }
    if (bb_arch_has_mixer(a, layer))
        first = bb_arch_is_scan(a, layer) ? scan_bytes(m) : attention_bytes(m, layer);
    if (bb_arch_has_experts(a, layer)) {
        second = expert_bytes(m, layer);
    } else if (bb_arch_has_mlp(a, layer)) {
        const bool again = recomputes(m, BB_MODULE_MLP), frozen = a->lora_rank > 0 && a->lora_attention;

        second.whole = (e + (again || frozen ? 0 : gemm_input_bytes(m))) * a->hidden + (a->dropout ? a->hidden : 0);
        second.split = again ? 0 : inner_bytes(m, a->ffn, frozen);
    }
    if (a->lora_rank > 0) /* the outputs of the first matrices of the adapters, but of experts */
        first.whole += e * a->lora_rank * sequence_shards(m) *
                       (bb_arch_adapters(a, true) + 1 +
                        (a->lora_attention || (bb_arch_has_experts(a, layer) && a->shared_ffn == 0)
                             ? 0
                             : bb_arch_adapters(a, false) + 1));
    if (a->streams) /* of attention and of the MLP: the streams, and the output that is mixed into them */
        first.whole += 2 * e * a->hidden * (a->streams + 1);
    second.split += sublayers * gemm_input_bytes(m) * a->hidden * gathered_part(m) * m->grid->tp;
    return tokens * ((first.whole + second.whole) / sequence_shards(m) + (first.split + second.split) / m->grid->tp) +
           cross_bytes(m, layer);
}

double bb_memory_embedding(const struct bb_memory *m)
{
    double mask = m->arch->dropout ? m->arch->hidden : 0;

    return (tokens_per_rank(m) + (m->arch->encoder_layers > 0 ? decoder_tokens(m) : 0)) * (8 + mask) /
           sequence_shards(m);
}

static double rank_vocabulary(const struct bb_memory *m)
{
    return ceil((double)m->arch->vocab / m->grid->tp);
}

/* Bytes per logit at the peak, in the loss. */
static double logit_bytes(const struct bb_memory *m)
{
    const double e = element_bytes(m);

    if (!m->stack)
        return 4;
    if (m->fused_loss)
        return m->stack->loss_in_place ? e : 2 * e;
    return e + 4 * m->stack->float_copies[m->grid->tp > 1];
}

double bb_memory_head(const struct bb_memory *m)
{
    const double h = m->arch->hidden;

    return (1 + m->arch->mtp) * decoder_tokens(m) *
           (2 * element_bytes(m) * h * (1 / sequence_shards(m) + gathered_part(m)) +
            logit_bytes(m) * rank_vocabulary(m));
}

/* Returns the number of layers of a model chunk (virtual pipeline stage) of a stage. *part: index of the chunk among
 * the virtual stages of the model; *first: index of its first layer. */
static int chunk_layers(const struct bb_memory *m, int stage, int chunk, int *part, int *first)
{
    struct bb_pipe_split split = bb_grid_pipe_split(m->grid, m->arch->layers, bb_schedule_parts_per_stage(m->schedule));

    *part = bb_schedule_part(m->schedule, stage, chunk);
    return bb_pipe_split_layers(&split, *part, first);
}

/* Returns the activation bytes that a layer would store per micro-batch with recomputation mode `recompute`. */
static double layer_bytes_with(const struct bb_memory *m, int layer, enum bb_recompute recompute)
{
    struct bb_layers_config layers_config = *m->layers_config;
    struct bb_memory with = *m;

    layers_config.recompute = recompute;
    with.layers_config = &layers_config;
    return bb_memory_layer(&with, layer);
}

double bb_memory_module(const struct bb_memory *m, int layer, bool recomputed, double *backward)
{
    const enum bb_recompute mode = m->layers_config->recompute;
    const enum bb_recompute other_layers = mode == BB_RECOMPUTE_FULL ? BB_RECOMPUTE_NONE : mode;
    double projection = 0, stored;
    int n = 1;

    if (layer == BB_ARCH_EMBEDDING || layer == BB_ARCH_HEAD)
        return *backward = layer == BB_ARCH_HEAD ? bb_memory_head(m) : bb_memory_embedding(m);
    if (layer == BB_ARCH_MTP) {
        projection =
            tokens_per_rank(m) * 2 * (element_bytes(m) + gemm_input_bytes(m)) * m->arch->hidden / sequence_shards(m);
        projection *= (bb_arch_streams(m->arch) + 1) / 2.0; /* the hidden state has all streams, the embedding one */
        n = bb_arch_mtp_layers(m->arch, &layer);
    }
    *backward = stored = projection;
    for (int i = layer; i < layer + n; i++) {
        *backward += layer_bytes_with(m, i, BB_RECOMPUTE_NONE);
        stored += layer_bytes_with(m, i, recomputed ? BB_RECOMPUTE_FULL : other_layers);
    }
    return stored;
}

/* Returns the number of layers of multi-token prediction in a virtual stage. */
static int mtp_layers(const struct bb_memory *m, int part)
{
    struct bb_pipe_split split = bb_grid_pipe_split(m->grid, m->arch->layers, bb_schedule_parts_per_stage(m->schedule));

    return m->arch->mtp && part == bb_pipe_split_mtp_part(&split) ? m->arch->mtp : 0;
}

/* Bytes that the backward of a layer needs in PyTorch in addition to stored activations and communication_bytes: the gradient
 * of the gathered input from the second up projection; in ring attention the keys and values of all ranks, once for each
 * query head. Compiled (copies_early), also the copy that a reduce-scatter of the second dimension reads, and with FP8 the
 * gathered gradient and transposed copies of this gradient and of both gathered inputs, for the GEMMs of weight gradients. */
static double torch_backward_bytes(const struct bb_memory *m)
{
    const struct bb_arch *a = m->arch;
    const double column = tokens_per_rank(m) * element_bytes(m);
    const bool scatters = m->grid->tp > 1 && m->layers_config->sequence_parallel;
    double sum = 0;

    if (!m->stack || !m->stack->keeps_whole)
        return 0;
    if (scatters)
        sum += column * a->hidden * (a->gated + m->stack->copies_early);
    if (m->layers_config->precision == BB_GEMM_FP8 && m->stack->copies_early)
        sum += 4 * tokens_per_rank(m) * a->hidden * gemm_input_bytes(m);
    if (m->grid->cp > 1 && m->layers_config->context == BB_CONTEXT_RING)
        sum += column * 2 * a->heads * a->head_dim / m->grid->tp * m->grid->cp;
    return sum;
}

/* Returns the activation bytes that a model chunk (virtual pipeline stage) stores for one micro-batch. The chunk
 * consists of n layers, beginning with layer `first`, and of `mtp` layers of multi-token prediction. *peak: maximum during the chunk's backward, when one layer
 * holds its recomputed activations and the layers after this layer have already released theirs. */
static double chunk_bytes(const struct bb_memory *m, int first, int n, int mtp, double *peak)
{
    double sum = 0, backward, stored;

    *peak = 0;
    for (int layer = first; layer < first + n + mtp; layer++) {
        const int module = layer < first + n ? layer : BB_ARCH_MTP;

        stored = bb_memory_module(m, module, bb_layers_is_recomputed(m->layers_config, first, layer), &backward);
        *peak = fmax(*peak, sum + backward + torch_backward_bytes(m));
        sum += stored;
    }
    return sum;
}

/* Returns whether FSDP keeps parameters and gradients whole between the micro-batches of a pipeline. */
static bool keeps_whole(const struct bb_memory *m)
{
    return m->stack && m->stack->keeps_whole && m->schedule->stages > 1 && bb_sync_gathers_parameters(m->policy->kind);
}

/* Returns how many equal parts of a stage have whole gradients one after the other: with fewer micro-batches than two rounds of
 * an interleaved schedule, a chunk's last backward, which shards its gradients, precedes those of the earlier chunk. */
static int whole_gradient_parts(const struct bb_memory *m)
{
    return m->schedule->micro_batches < 2 * m->schedule->stages ? m->schedule->chunks : 1;
}

double bb_memory_host_bytes(const struct bb_memory *m)
{
    double sum = 0;

    for (int layer = 0; layer < m->layers_config->offload_layers; layer++)
        sum += bb_memory_layer(m, layer);
    return sum;
}

/* Activation bytes that are only in host memory: those of one of the layers, which is being copied, are also on the GPU. */
static double offloaded_bytes(const struct bb_memory *m)
{
    return m->layers_config->offload_layers > 0 ? bb_memory_host_bytes(m) - bb_memory_layer(m, 0) : 0;
}

/* Peak activation bytes of a stage: the average over its model chunks (virtual stages) times the maximum number of
 * (chunk, micro-batch) pairs whose activations are stored at the same time (bb_schedule_live), plus the temporary
 * activations of one backward. The head's activations are counted for one micro-batch, because its backward follows
 * its forward immediately; if the schedule runs all forwards first, they are counted for all micro-batches. */
static double activation_bytes(const struct bb_memory *m, int stage)
{
    const struct bb_schedule *s = m->schedule;
    const bool overlaps = bb_schedule_is_bidirectional(s);
    double live = (double)bb_schedule_live(s, stage) / s->chunks, sum = 0, transient = 0, head;
    bool has_embedding = false, has_head = false;

    for (int c = 0; c < s->chunks; c++) {
        int part, first, n = chunk_layers(m, stage, c, &part, &first);
        bool is_last = part == bb_schedule_parts(s) - 1;
        double peak, kept = chunk_bytes(m, first, n, mtp_layers(m, part), &peak);

        has_embedding |= part == 0;
        has_head |= is_last;
        sum += kept;
        /* the head releases its activations before the layers of any chunk run their backward; dualpipe overlaps both with those
         * of the other direction */
        head = is_last ? bb_memory_head(m) : 0;
        transient = fmax(transient, overlaps ? peak - kept - head : fmax(peak - kept, head));
    }
    sum = (sum - offloaded_bytes(m)) * live;
    if (has_embedding)
        sum += live * bb_memory_embedding(m);
    if (has_head)
        sum += ((bb_schedule_row(s)->all_forwards_first ? s->micro_batches : 1) - !overlaps) * bb_memory_head(m);
    if (has_head && keeps_whole(m))
        sum += (s->micro_batches - 1) * decoder_tokens(m) * element_bytes(m) * rank_vocabulary(m);
    return sum + transient;
}

/* ---- parameters ---- */

static struct bb_arch_rank_parameters layer_share(const struct bb_memory *m, int layer)
{
    return bb_arch_layer_share(m->arch, layer, m->grid->tp, m->grid->etp, m->grid->ep);
}

static void add_parameters(struct bb_arch_rank_parameters *sum, struct bb_arch_rank_parameters added)
{
    sum->dense += added.dense;
    sum->expert += added.expert;
    sum->replicated += added.replicated;
}

int bb_memory_table_stage(const struct bb_arch *arch, const struct bb_grid *grid, const struct bb_schedule *schedule)
{
    struct bb_pipe_split split = bb_grid_pipe_split(grid, arch->layers, schedule->chunks);

    if (arch->tied)
        return grid->pp - 1;
    /* dualpipe: both ends hold the embedding */
    return arch->mtp && !bb_schedule_is_bidirectional(schedule) ? bb_pipe_split_mtp_part(&split) % grid->pp : 0;
}

/* The parameters of a stage on one rank before data-parallel sharding. ZeRO-3 gathers them one module (layer, embedding or
 * head) at a time. */
struct stage_size {
    struct bb_arch_rank_parameters sum;
    double largest;                    /* parameters of the largest module */
    double gathered, largest_gathered; /* bytes of the gathered parameters: all, and those of the largest module */
};

static double all_of(struct bb_arch_rank_parameters p)
{
    return (double)p.dense + (double)p.expert;
}

/* bytes: of a gathered parameter */
static void add_module(struct stage_size *size, struct bb_arch_rank_parameters added, double bytes)
{
    add_parameters(&size->sum, added);
    size->largest = fmax(size->largest, all_of(added));
    size->gathered += all_of(added) * bytes;
    size->largest_gathered = fmax(size->largest_gathered, all_of(added) * bytes);
}

static double parameter_bytes(const struct bb_memory *m)
{
    return (double)bb_dtypes[m->policy->params].bytes;
}

/* Bytes of a gathered parameter of a layer: torchao (float8/fsdp_utils.py) gathers 8 bits and keeps no other copy. */
static double gathered_layer_bytes(const struct bb_memory *m)
{
    return m->policy->options.float8_gather && m->layers_config->precision <= BB_GEMM_FP8 ? 1 : parameter_bytes(m);
}

/* Returns whether none of the layers from `first` to before `layer` surely has the same tensors as `layer`. */
static bool is_first_of_kind(const struct bb_memory *m, int first, int layer)
{
    while (first < layer && !bb_arch_equal_layers(m->arch, first, layer))
        first++;
    return first == layer;
}

/* Adds the parameters of n layers. The tensors of layers of one kind are counted once, also if kinds alternate. */
static void add_layers(const struct bb_memory *m, int first, int n, struct stage_size *size)
{
    for (int layer = first; layer < first + n; layer++) {
        struct bb_arch_rank_parameters share;

        if (!is_first_of_kind(m, first, layer))
            continue;
        share = layer_share(m, layer);
        for (int k = layer; k < first + n; k++)
            if (k == layer || bb_arch_equal_layers(m->arch, layer, k))
                add_module(size, share, gathered_layer_bytes(m));
    }
}

static struct stage_size stage_size(const struct bb_memory *m, int stage)
{
    const struct bb_schedule *s = m->schedule;
    const double bytes = parameter_bytes(m);
    struct stage_size size = {.largest = 0};
    struct bb_arch_tensor tensors[BB_ARCH_TENSORS];

    for (int c = 0; c < s->chunks; c++) {
        int part, first, n = chunk_layers(m, stage, c, &part, &first);

        if (part == 0)
            add_module(&size, layer_share(m, BB_ARCH_EMBEDDING), bytes);
        add_layers(m, first, n, &size);
        for (int k = mtp_layers(m, part); k > 0; k--)
            add_module(&size, layer_share(m, BB_ARCH_MTP), gathered_layer_bytes(m));
        if (part == bb_schedule_parts(s) - 1)
            add_module(&size, layer_share(m, BB_ARCH_HEAD), bytes);
    }
    if (stage > 0 && stage == bb_memory_table_stage(m->arch, m->grid, s) && !m->arch->adapters_only) {
        bb_arch_tensors(m->arch, BB_ARCH_EMBEDDING, tensors);
        size.sum.dense += bb_arch_tensor_share(&tensors[0], m->grid->tp, 1);
        size.gathered += (double)bb_arch_tensor_share(&tensors[0], m->grid->tp, 1) * bytes;
    }
    return size;
}

struct bb_arch_rank_parameters bb_memory_parameters(const struct bb_memory *m, int stage)
{
    return stage_size(m, stage).sum;
}

/* The tensors of a stage of which placeholder gradients are kept: one of each name. */
struct placeholders {
    const char *names[4 * BB_ARCH_TENSORS];
    int n;
    double elements; /* of all tensors, on one rank */
};

/* layer: index of the layer, or BB_ARCH_HEAD for the output matrix, which tied models take from the embedding. */
static void add_placeholders(const struct bb_memory *m, int layer, struct placeholders *p)
{
    const bool is_head = layer == BB_ARCH_HEAD;
    struct bb_arch_tensor tensors[BB_ARCH_TENSORS];
    const int n = bb_arch_tensors(m->arch, is_head && m->arch->tied ? BB_ARCH_EMBEDDING : layer, tensors);
    const int before = p->n; /* the names of one layer differ from each other */

    for (int i = 0, next = 0; i < n; i++) {
        const struct bb_arch_tensor *t = &tensors[i];
        int tried = 0;

        /* layers list common tensors in one order: mostly the next name is equal */
        while (tried < before && strcmp(p->names[(next + tried) % before], t->name) != 0)
            tried++;
        next += tried < before ? tried + 1 : 0;
        if (tried < before || p->n == 4 * BB_ARCH_TENSORS || (is_head && !t->rows))
            continue;
        p->names[p->n++] = t->name;
        p->elements += (double)bb_arch_tensor_share(t, t->expert ? m->grid->etp : m->grid->tp, 1) /
                       (t->expert ? m->arch->experts : 1);
    }
}

static double placeholder_bytes(const struct bb_memory *m, int stage)
{
    struct placeholders p = {.n = 0};

    for (int c = 0; c < m->schedule->chunks; c++) {
        int part, first, n = chunk_layers(m, stage, c, &part, &first);

        for (int layer = first; layer < first + n; layer++)
            if (is_first_of_kind(m, first, layer))
                add_placeholders(m, layer, &p);
        if (part == bb_schedule_parts(m->schedule) - 1)
            add_placeholders(m, BB_ARCH_HEAD, &p);
    }
    return p.elements * parameter_bytes(m);
}

/* Bytes that the quantized weights of the layers take in addition to 16-bit parameters, in Transformer Engine: both
 * directions are stored. Megatron-LM keeps no 16-bit copy with FP8 and MXFP8 (fp8_param_gather). */
static double quantized_bytes(const struct bb_memory *m, int stage)
{
    const enum bb_gemm_precision precision = m->layers_config->precision;
    const double kept = precision == BB_GEMM_NVFP4 ? 0 : element_bytes(m);
    struct stage_size size = {.largest = 0};

    if (precision < BB_GEMM_MXFP8 || !m->stack || !m->stack->has_placeholders)
        return 0;
    for (int c = 0; c < m->schedule->chunks; c++) {
        int part, first, n = chunk_layers(m, stage, c, &part, &first);

        add_layers(m, first, n, &size);
    }
    return all_of(size.sum) * (2 * bb_gemm_formats[precision].bytes - kept);
}

/* ---- communication buffers ---- */

/* Bytes of the gradients of the last layer of each chunk: FSDP keeps the input of its last reduce-scatter until the next, one step
 * later, because PyTorch's pipeline starts the reduce-scatters after the callback that releases it. */
static double kept_reduction_bytes(const struct bb_memory *m, int stage)
{
    double sum = 0;

    for (int c = 0; c < m->schedule->chunks; c++) {
        int part, first, n = chunk_layers(m, stage, c, &part, &first);

        sum += n > 0 ? all_of(layer_share(m, first + n - 1)) : 0;
    }
    return sum * (double)bb_dtypes[m->policy->grads].bytes;
}

/* Bytes of temporary buffers for full gradients or parameters, in addition to the shards. ZeRO-2: two gradient
 * buckets, one being filled and one being reduced. ZeRO-3 and HSDP: the parameters of two layers and the gradients
 * of one layer. Frozen parameters have no gradients. */
static double transient_bytes(const struct bb_memory *m, int stage)
{
    const struct bb_arch arch = bb_arch_trained(m->arch);
    struct bb_memory trained = *m;
    double grads = (double)bb_dtypes[m->policy->grads].bytes, gathered;
    struct stage_size size, frozen = {.largest = 0};

    trained.arch = &arch;
    size = stage_size(&trained, stage);
    if (arch.adapters_only)
        frozen = stage_size(m, stage);
    gathered = 2 * (size.largest_gathered + frozen.largest_gathered);
    if (m->policy->kind == BB_SYNC_ZERO2)
        return grads * fmin(all_of(size.sum), 2 * bb_bucket_limit(&m->policy->rule, (size_t)grads, m->dense->n, 1));
    if (keeps_whole(m))
        return gathered + size.gathered + frozen.gathered + all_of(size.sum) * grads / whole_gradient_parts(m) +
               kept_reduction_bytes(&trained, stage) +
               (grads > parameter_bytes(m) ? size.largest * parameter_bytes(m) : 0);
    if (bb_sync_gathers_parameters(m->policy->kind))
        return gathered + size.largest * grads;
    return 0;
}

/* Messages between pipeline stages. Megatron-LM: one for each of the two directions. PyTorch (pipelining/stage.py): receive
 * buffers for the inputs and the gradients of all micro-batches, and the outputs of those without backward. The inputs of
 * the latter are counted as activations. */
static double message_bytes(const struct bb_memory *m, int stage)
{
    const struct bb_schedule *s = m->schedule;
    const double live = (double)bb_schedule_live(s, stage) / s->chunks;
    const bool torch = m->stack && m->stack->keeps_whole;
    double messages = torch ? 0 : 2;

    for (int c = 0; c < s->chunks && torch; c++) {
        const int part = bb_schedule_part(s, stage, c);

        messages += part > 0 ? 2 * (s->micro_batches - live) : 0;
        messages += part < bb_schedule_parts(s) - 1 ? s->micro_batches + live : 0;
    }
    return messages * tokens_per_rank(m) * m->arch->hidden * bb_arch_streams(m->arch) * element_bytes(m) /
           sequence_shards(m);
}

static double communication_bytes(const struct bb_memory *m, int stage)
{
    const struct bb_arch *a = m->arch;
    double e = element_bytes(m), whole = tokens_per_rank(m) * a->hidden * e, sum = transient_bytes(m, stage);

    if (m->stack && m->stack->has_placeholders && m->arch->lora_rank == 0)
        sum += placeholder_bytes(m, stage);

    if (m->grid->pp > 1)
        sum += message_bytes(m, stage);
    if (m->grid->tp > 1 && m->layers_config->sequence_parallel) /* the input of attention or MLP, gathered over tp */
        sum += whole;
    if (m->grid->cp > 1) /* keys and values of the previous rank (ring), or of all cp ranks (all_gather, a2a) */
        sum += tokens_per_rank(m) * e * 2 * a->kv_heads * a->head_dim / m->grid->tp *
               (m->layers_config->context == BB_CONTEXT_RING ? 1 : m->grid->cp);
    return sum;
}

static struct bb_arch_rank_parameters trained_parameters(const struct bb_memory *m, int stage)
{
    const struct bb_arch arch = bb_arch_trained(m->arch);
    struct bb_memory trained = *m;

    trained.arch = &arch;
    return bb_memory_parameters(&trained, stage);
}

double bb_memory_host_optimizer_bytes(const struct bb_memory *m, int stage)
{
    struct bb_arch_rank_parameters p;

    if (bb_sync_offloaded_part(m->policy) <= 0)
        return 0;
    p = trained_parameters(m, stage);
    return bb_sync_host_bytes(m->policy) *
           ((double)p.dense / m->dense->n + (p.expert > 0 ? (double)p.expert / m->expert->n : 0));
}

/* FSDP2 shards the float parameters and casts what it gathers (_fsdp_collectives.py, foreach_all_gather): the float copy of
 * the optimizer is the shard, and there is no other. */
static void merge_shards(const struct bb_memory *m, double bytes[BB_USES])
{
    const double shard = bytes[BB_USE_PARAMETERS];

    if (!m->stack || !m->stack->keeps_whole || !bb_sync_gathers_parameters(m->policy->kind) ||
        !bb_sync_has_float_copy(m->policy) || bb_sync_offloaded_part(m->policy) > 0)
        return;
    bytes[BB_USE_PARAMETERS] += shard;
    bytes[BB_USE_OPTIMIZER] -= 2 * shard;
}

void bb_memory_rank_bytes(const struct bb_memory *m, int stage, double bytes[BB_USES])
{
    const bool gathers = bb_sync_gathers_parameters(m->policy->kind);
    const struct bb_arch_rank_parameters parameters = trained_parameters(m, stage);
    struct bb_arch_rank_parameters frozen = {0};
    double update;

    for (int use = 0; use < BB_USES; use++)
        bytes[use] = 0;
    bb_sync_memory(m->policy, m->dense, (double)parameters.dense, bytes);
    update = bb_sync_update_peak_bytes(m->policy, m->dense, (double)parameters.dense);
    if (parameters.expert > 0) {
        bb_sync_memory(m->policy, m->expert, (double)parameters.expert, bytes);
        update += bb_sync_update_peak_bytes(m->policy, m->expert, (double)parameters.expert);
    }
    merge_shards(m, bytes);
    bytes[BB_USE_PARAMETERS] += quantized_bytes(m, stage);
    if (bb_arch_trained(m->arch).adapters_only)
        frozen = bb_memory_parameters(m, stage);
    bytes[BB_USE_PARAMETERS] += element_bytes(m) * ((double)frozen.dense / (gathers ? m->dense->n : 1) +
                                                    (double)frozen.expert / (gathers && m->expert ? m->expert->n : 1));
    bytes[BB_USE_ACTIVATIONS] = activation_bytes(m, stage) * (m->stack ? m->stack->reserved : 1);
    bytes[BB_USE_COMMUNICATION] = communication_bytes(m, stage) * (m->stack ? m->stack->reserved : 1);
    bb_sync_add_update_peak(update, bytes);
}
