/* memory.c - what training holds on a rank, part by part (see memory.h). */
#include "proxies/transformer/memory.h"

#include <math.h>

const char *const bb_recompute_names[BB_RECOMPUTES + 1] = {"none", "selective", "full", NULL};

static double element_bytes(const struct bb_memory *m)
{
    return (double)bb_dtypes[m->layers_config->dtype].bytes;
}

/* Of one micro-batch in the decoder: of one stack, all. */
static double decoder_tokens(const struct bb_memory *m)
{
    int sequence = m->arch->encoder_layers > 0 ? m->layers_config->decoder_sequence : m->layers_config->sequence;

    return (double)sequence * m->layers_config->micro_batch_size / m->grid->cp;
}

/* Of a number that goes into a product: with 8-bit products its cast is what they keep (Transformer Engine). */
static double gemm_input_bytes(const struct bb_memory *m)
{
    return m->layers_config->float8 ? 1 : element_bytes(m);
}

/* Of one micro-batch on one context-parallel rank. */
static double tokens_per_rank(const struct bb_memory *m)
{
    return (double)m->layers_config->sequence * m->layers_config->micro_batch_size / m->grid->cp;
}

/* Ways by which sequence parallelism divides what lies between the products. */
static double sequence_shards(const struct bb_memory *m)
{
    return m->layers_config->sequence_parallel ? m->grid->tp : 1;
}

/* ---- activations: bytes per token ---- */

/* whole: on every tp rank, unless sequence parallelism divides it; split: divided by tp. */
struct held {
    double whole, split;
};

static struct held attention_bytes(const struct bb_memory *m, int layer)
{
    const struct bb_arch *a = m->arch;
    double e = element_bytes(m), mask = a->dropout ? a->hidden : 0;
    struct held held = {.whole = (e + gemm_input_bytes(m)) * a->hidden + mask}; /* inputs of the norm and of projections */

    if (a->kv_lora) {
        held.whole += e * (2.0 * a->q_lora + 2.0 * a->kv_lora + a->rope_dim); /* before and after their norms */
        held.split = e * a->heads * 2.0 * (a->nope_dim + a->rope_dim + a->v_dim);
        if (a->index_heads > 0) /* its queries, key, weights and the places of the keys that it picks */
            held.whole += e * (a->index_heads * (a->index_dim + 1.0) + a->index_dim) +
                          4.0 * bb_arch_attended_keys(a, layer, m->layers_config->sequence);
    } else {
        held.split = e * 2.0 * a->head_dim * (a->heads + a->kv_heads);     /* q, k, v, context */
        held.split += m->layers_config->float8 ? (double)a->head_dim * a->heads : 0; /* attention keeps the context itself */
        held.split += a->out_gate ? e * 2.0 * a->head_dim * a->heads : 0;
    }
    if (a->dropout && !m->layers_config->fused && m->layers_config->recompute == BB_RECOMPUTE_NONE)
        held.split += (2 * e + 1) * a->heads * bb_arch_attended_keys(a, layer, m->layers_config->sequence);
    return held;
}

/* What a scan's kernels keep: what goes in, before and behind its convolution, what it makes, before and behind its
 * gate; Gated DeltaNet also the inverses of its chunks, chunk numbers per token and head. */
static struct held scan_bytes(const struct bb_memory *m)
{
    const struct bb_arch_scan *s = &m->arch->scan;
    double e = element_bytes(m), values = (double)s->heads * s->value_dim,
           mixed = 2.0 * s->groups * s->key_dim + values;
    double numbers = 2 * mixed + values + s->heads * (s->delta ? 2 + s->chunk : 1) + 2 * values;

    return (struct held){.whole = 2 * e * m->arch->hidden, .split = e * numbers};
}

/* What goes into the activation, and what comes out. */
static double inner_bytes(const struct bb_memory *m, double ffn)
{
    return ((m->arch->gated ? 2 : 1) * element_bytes(m) + gemm_input_bytes(m)) * ffn;
}

static struct held mlp_bytes(const struct bb_memory *m)
{
    const struct bb_arch *a = m->arch;
    double e = element_bytes(m), mask = a->dropout ? a->hidden : 0;

    return (struct held){.whole = (e + gemm_input_bytes(m)) * a->hidden + mask, .split = inner_bytes(m, a->ffn)};
}

/* Each token goes to top_k experts. An expert that is divided over etp ranks works on the tokens of all of them, when
 * each brings its own. */
static struct held expert_bytes(const struct bb_memory *m)
{
    const struct bb_arch *a = m->arch;
    double e = element_bytes(m), copies = a->top_k * (m->layers_config->capacity_factor > 0 ? m->layers_config->capacity_factor : 1);
    double gathered = m->layers_config->sequence_parallel ? m->grid->etp : 1;
    struct held held = {.whole = 2 * e * a->hidden + 4.0 * a->experts}; /* the router's probabilities are floats */

    held.whole +=
        copies * gathered * ((e + gemm_input_bytes(m)) * a->hidden + inner_bytes(m, a->expert_ffn) / m->grid->etp);
    held.split = inner_bytes(m, a->shared_ffn);
    return held;
}

/* A decoder's attention to what its encoder made, beside the layer's own: inputs of norm and projection, queries and
 * context, keys and values of all that was encoded; that itself is kept once, by the first layer. */
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

double bb_memory_layer(const struct bb_memory *m, int layer)
{
    double tokens = bb_arch_is_decoder(m->arch, layer) ? decoder_tokens(m) : tokens_per_rank(m);
    struct held first = bb_arch_is_scan(m->arch, layer) ? scan_bytes(m) : attention_bytes(m, layer), second = {0};

    if (m->layers_config->recompute == BB_RECOMPUTE_FULL)
        return tokens * element_bytes(m) * m->arch->hidden / sequence_shards(m) + cross_bytes(m, layer);
    if (bb_arch_has_mlp(m->arch))
        second = bb_arch_has_experts(m->arch, layer) ? expert_bytes(m) : mlp_bytes(m);
    return tokens * ((first.whole + second.whole) / sequence_shards(m) + (first.split + second.split) / m->grid->tp) +
           cross_bytes(m, layer);
}

double bb_memory_embedding(const struct bb_memory *m)
{
    double mask = m->arch->dropout ? m->arch->hidden : 0;

    return (tokens_per_rank(m) + (m->arch->encoder_layers > 0 ? decoder_tokens(m) : 0)) * (8 + mask) /
           sequence_shards(m);
}

double bb_memory_head(const struct bb_memory *m)
{
    double vocab = ceil((double)m->arch->vocab / m->grid->tp);

    return decoder_tokens(m) * (2 * element_bytes(m) * m->arch->hidden / sequence_shards(m) + 4 * vocab);
}

/* Whether a stage has the model's first or last part, on whichever of its chunks. */
static bool holds_part(const struct bb_schedule *s, int stage, int part)
{
    for (int c = 0; c < s->chunks; c++)
        if (bb_schedule_part(s, stage, c) == part)
            return true;
    return false;
}

static bool holds_first_part(const struct bb_schedule *s, int stage)
{
    return holds_part(s, stage, 0);
}

static bool holds_last_part(const struct bb_schedule *s, int stage)
{
    return holds_part(s, stage, bb_schedule_parts(s) - 1);
}

/* A layer with that much computed again. */
static double layer_bytes_with(const struct bb_memory *m, int layer, enum bb_recompute recompute)
{
    struct bb_layers_config layers_config = *m->layers_config;
    struct bb_memory with = *m;

    layers_config.recompute = recompute;
    with.layers_config = &layers_config;
    return bb_memory_layer(&with, layer);
}

/* As much of a layer as it keeps from its forward to its backward. */
static double kept_bytes(const struct bb_memory *m, int chunk_first, int layer)
{
    enum bb_recompute other_layers = m->layers_config->recompute == BB_RECOMPUTE_FULL ? BB_RECOMPUTE_NONE : m->layers_config->recompute;

    return layer_bytes_with(m, layer, bb_layers_is_recomputed(m->layers_config, chunk_first, layer) ? BB_RECOMPUTE_FULL : other_layers);
}

/* What a chunk keeps of one micro-batch. *most: what it has of it at most in its backward, when a layer has computed
 * again what it did not keep, and those behind it have let go of theirs. */
static double chunk_bytes(const struct bb_memory *m, int first, int n, double *max)
{
    double sum = 0;

    *max = 0;
    for (int layer = first; layer < first + n; layer++) {
        *max = fmax(*max, sum + layer_bytes_with(m, layer, BB_RECOMPUTE_NONE));
        sum += kept_bytes(m, first, layer);
    }
    return sum;
}

/* The most that a stage holds at once: of its chunks' activations so many as the schedule lets live, on average, and
 * what one backward has beside them. The last chunk's backward follows its forward at once, unless all forwards come
 * first. */
static double activation_bytes(const struct bb_memory *m, int stage)
{
    const struct bb_schedule *s = m->schedule;
    struct bb_pipe_split split = bb_grid_pipe_split(m->grid, m->arch->layers, bb_schedule_parts_per_stage(s));
    double live = (double)bb_schedule_live(s, stage) / s->chunks, sum = 0, transient = 0;

    for (int c = 0; c < s->chunks; c++) {
        int part = bb_schedule_part(s, stage, c), first, n = bb_pipe_split_layers(&split, part, &first);
        double max, kept = chunk_bytes(m, first, n, &max);

        sum += kept;
        kept += part == bb_schedule_parts(s) - 1 ? bb_memory_head(m) : 0; /* let go of before the layers' backward */
        transient = fmax(transient, max - kept);
    }
    sum *= live;
    if (holds_first_part(s, stage))
        sum += live * bb_memory_embedding(m);
    if (holds_last_part(s, stage))
        sum += (bb_schedule_row(s)->keeps_head ? s->micro_batches : 1) * bb_memory_head(m);
    return sum + transient;
}

/* ---- parameters ---- */

static struct bb_arch_rank_parameters layer_share(const struct bb_memory *m, int layer)
{
    return bb_arch_layer_share(m->arch, layer, m->grid->tp, m->grid->etp, m->grid->ep);
}

static void add_parameters(struct bb_arch_rank_parameters *sum, struct bb_arch_rank_parameters transient)
{
    sum->dense += transient.dense;
    sum->expert += transient.expert;
    sum->replicated += transient.replicated;
}

/* A tied head on another stage than the embedding has a copy of its matrix. */
static struct bb_arch_rank_parameters tied_copy(const struct bb_memory *m)
{
    struct bb_arch_tensor tensors[BB_ARCH_TENSORS];

    if (bb_arch_tensors(m->arch, BB_ARCH_EMBEDDING, tensors, BB_ARCH_TENSORS) < 1)
        return (struct bb_arch_rank_parameters){0};
    return (struct bb_arch_rank_parameters){.dense = bb_arch_tensor_share(&tensors[0], m->grid->tp, 1)};
}

struct bb_arch_rank_parameters bb_memory_parameters(const struct bb_memory *m, int stage)
{
    const struct bb_schedule *s = m->schedule;
    struct bb_pipe_split split = bb_grid_pipe_split(m->grid, m->arch->layers, bb_schedule_parts_per_stage(s));
    struct bb_arch_rank_parameters sum = {0};

    if (holds_first_part(s, stage))
        add_parameters(&sum, layer_share(m, BB_ARCH_EMBEDDING));
    for (int c = 0; c < s->chunks; c++) {
        int first, n = bb_pipe_split_layers(&split, bb_schedule_part(s, stage, c), &first);

        for (int layer = first; layer < first + n; layer++)
            add_parameters(&sum, layer_share(m, layer));
    }
    if (holds_last_part(s, stage))
        add_parameters(&sum, layer_share(m, BB_ARCH_HEAD));
    if (stage == s->stages - 1 && stage > 0 && m->arch->tied)
        add_parameters(&sum, tied_copy(m));
    return sum;
}

/* ---- communication buffers ---- */

/* Largest layer of the stage: what is gathered at once when parameters are shared. */
static double largest_layer(const struct bb_memory *m, int stage)
{
    const struct bb_schedule *s = m->schedule;
    struct bb_pipe_split split = bb_grid_pipe_split(m->grid, m->arch->layers, bb_schedule_parts_per_stage(s));
    double max = 0;

    for (int c = 0; c < s->chunks; c++) {
        int first, n = bb_pipe_split_layers(&split, bb_schedule_part(s, stage, c), &first);

        for (int layer = first; layer < first + n; layer++)
            max = fmax(max, (double)layer_share(m, layer).dense + (double)layer_share(m, layer).expert);
    }
    return max;
}

/* What sharing gradients or parameters needs beside the shards: two buckets, one being filled and one being reduced; or
 * the parameters of two layers and the gradients of one. */
static double transient_bytes(const struct bb_memory *m, int stage)
{
    double params = (double)bb_dtypes[m->policy->params].bytes, grads = (double)bb_dtypes[m->policy->grads].bytes;
    struct bb_arch_rank_parameters held = bb_memory_parameters(m, stage);

    if (m->policy->kind == BB_SYNC_ZERO2)
        return grads * fmin((double)held.dense + (double)held.expert,
                            2 * bb_bucket_limit(&m->policy->rule, (size_t)grads, m->dense->n, 1));
    if (m->policy->kind == BB_SYNC_ZERO3 || m->policy->kind == BB_SYNC_HSDP)
        return largest_layer(m, stage) * (2 * params + grads);
    return 0;
}

static double communication_bytes(const struct bb_memory *m, int stage)
{
    const struct bb_arch *a = m->arch;
    double e = element_bytes(m), whole = tokens_per_rank(m) * a->hidden * e, sum = transient_bytes(m, stage);

    if (m->grid->pp > 1) /* one message of each direction */
        sum += 2 * whole / sequence_shards(m);
    if (m->grid->tp > 1 && m->layers_config->sequence_parallel) /* the gathered input of a layer's half */
        sum += whole;
    if (m->grid->cp > 1) /* keys and values of the next rank, or of all */
        sum += tokens_per_rank(m) * e * 2 * a->kv_heads * a->head_dim / m->grid->tp *
               (m->layers_config->context == BB_CONTEXT_RING ? 1 : m->grid->cp);
    return sum;
}

void bb_memory_rank_bytes(const struct bb_memory *m, int stage, double bytes[BB_USES])
{
    struct bb_arch_rank_parameters held = bb_memory_parameters(m, stage);
    double update;

    for (int use = 0; use < BB_USES; use++)
        bytes[use] = 0;
    bb_sync_memory(m->policy, m->dense, (double)held.dense, bytes);
    update = bb_sync_update_peak_bytes(m->policy, m->dense, (double)held.dense);
    if (held.expert > 0) {
        bb_sync_memory(m->policy, m->expert, (double)held.expert, bytes);
        update += bb_sync_update_peak_bytes(m->policy, m->expert, (double)held.expert);
    }
    bytes[BB_USE_ACTIVATIONS] = activation_bytes(m, stage);
    bytes[BB_USE_COMMUNICATION] = communication_bytes(m, stage);
    bb_sync_add_update_peak(update, bytes);
}
