/*
 * pipeline.c - the proxies gpt2_large and bert_large: pipeline x data parallelism. The two proxies differ only in the
 * model.
 *
 * P ranks form D = P / S replicas of a pipeline with S stages: rank = replica * S + stage. Each pp group contains the S
 * ranks of one replica. Each dp group contains the D ranks with the same stage. A step executes M micro-batches in the
 * order of GPipe: all forwards before all backwards. All stages move in lock step: in each *shift* i, every stage
 * passes one message on.
 *
 *   forward, i = 0..M-1    the first stage sends to the next stage, the last stage receives, and the other stages
 *                          send and receive in one group call
 *   backward, i = 0..M-1   the same in the opposite direction
 *   gradients              one all-reduce per layer (or per tensor) over dp, after all micro-batches; only if D > 1
 *
 * A middle stage sends in shift i the message that it received in shift i-1, so the send and the receive of one group
 * call are independent. The pipeline therefore has no bubble: a rank that waits for another stage waits for a peer
 * (bb_step.lock_step). The proxies gpt3 and transformer have dependent pipelines. Without compute, a rank has one send
 * buffer and one receive buffer, and one pair of buffers for each gradient message.
 *
 * --compute timed adds one kernel per stage and micro-batch to the compute stream. Its time is forward_us (backward_us)
 * times the number of layers of the stage. The kernel of micro-batch i reads the message that shift i received, and the
 * next shift sends the kernel's result. The stage that begins (first stage in the forward pass, last stage in the
 * backward pass) computes before shift i, and shift i sends the result. Two pairs of buffers alternate, so the first
 * and the last stage overlap the compute of one micro-batch with the transfer of another. In a middle stage each shift
 * needs the result of the previous compute, so nothing overlaps.
 *
 * The published program that this proxy reproduces has no compute times. By default forward_us is the layer's FLOPs
 * (24sh^2 + 4s^2h per sample, for sequence length s and hidden size h) divided by 119.8 TFLOP/s, the rate that the
 * times of gpt3 imply (one layer of 7.628e12 FLOP in 63,660 us), and backward_us is twice forward_us.
 *
 * --compute gemm runs the GEMMs and memory-bound kernels of forward and backward (cuda/work/kernel_list.h) for each
 * layer of the stage. With several micro-batches, gradients are accumulated in float after each backward. Adam updates
 * the stage's parameters after the gradients are reduced.
 */
#include "proxies/form/author/args.h"
#include "proxies/form/author/proxy.h"
#include "proxies/form/author/script.h"
#include "proxies/form/models/transformer_model.h"

#include <stdio.h>
#include <string.h>

enum stage_kind { FIRST, MIDDLE, LAST };

static const char *const role_names[] = {[FIRST] = "first stage", [MIDDLE] = "middle stage", [LAST] = "last stage"};

/* State while the step is built: options, model, and the role (ranks with the same program) that is being built. */
struct pipeline {
    const struct bb_proxy_config *config;
    const struct bb_model *model;
    struct bb_step *step;
    int stage_layers, replicas, comm_pp, comm_dp;
    /* Kernels of --compute gemm for one layer: [0] forward, [1] backward; NULL with other kinds of compute. */
    const struct bb_kernel_list *layer_kernels[2];
    const struct bb_kernel_list *accumulate[BB_LAYER_KINDS], *update[BB_LAYER_KINDS];
    const char *layers_text;

    struct bb_script s;
    enum stage_kind kind;
    struct bb_script_lane pp, dp;
    int send[2], recv[2], buffer_pairs;
    int reduced; /* program index of the latest all-reduce of gradients; BB_NONE: there is none yet */
};

/* ---- command-line options ---- */

static int read_numbers(struct bb_proxy_config *c, const char *const *words, int n)
{
    int rc;

    TRY(bb_args_number(c, words[0], "layers", c->layers, &c->layers));
    if (n != 2 && n != 3)
        return bb_err(BB_EUSAGE,
                      "%s: %d number%s, expected LAYERS STAGES or LAYERS STAGES MICRO_BATCHES; try: '%s %s%s'",
                      c->proxy, n, bb_plural(n), words[0], n > 1 ? words[1] : "4", n > 3 ? " 8" : "");
    TRY(bb_args_number(c, words[1], "stages", c->stages, &c->stages));
    if (n == 3)
        TRY(bb_args_number(c, words[2], "micro-batches", c->micro_batches, &c->micro_batches));
out:
    return rc;
}

static int fill_defaults(struct bb_proxy_config *c)
{
    struct bb_model model;
    int rc = bb_model_load(c->proxy, &model);

    if (rc)
        return rc;
    c->layers = c->layers ? c->layers : model.layers;
    c->stages = c->stages ? c->stages : model.stages;
    c->micro_batches = c->micro_batches ? c->micro_batches : model.micro_batches;
    c->tflops = c->tflops > 0 ? c->tflops : BB_DEFAULT_TFLOPS;
    if (c->forward_us == 0)
        c->forward_us = model.forward_flops / c->tflops * 1e-6;
    if (c->backward_us == 0)
        c->backward_us = 2 * c->forward_us;
    bb_model_release(&model);
    return 0;
}

/* Returns the largest number of stages up to `most` that divides the layers and the ranks. */
static int find_stages(const struct bb_proxy_config *c, int most)
{
    while (most > 1 && (c->layers % most || c->ranks % most))
        most--;
    return most;
}

static int validate_layout(const struct bb_proxy_config *c)
{
    int l = c->layers, s = c->stages, fitting = find_stages(c, s);
    char near[BB_MULTIPLES_TEXT];

    if (s < 2)
        return bb_err(BB_EUSAGE, "%s: %d stage, expected 2 or more; try: 2 stages", c->proxy, s);
    if (l < s)
        return bb_err(BB_EUSAGE, "%s: %d layers are too few for %d stages; try: %d layers", c->proxy, l, s, s);
    if (l % s)
        return bb_err(BB_EUSAGE, "%s: %d layers are not divisible by %d stages; try: %s layers", c->proxy, l, s,
                      bb_multiples(l, s, near));
    if (c->ranks % s && fitting > 1)
        return bb_err(BB_EUSAGE,
                      "%s: %d ranks are not a multiple of %d (stages); possible: %s ranks; with %d ranks: %s %d %d",
                      c->proxy, c->ranks, s, bb_multiples(c->ranks, s, near), c->ranks, c->proxy, l, fitting);
    return bb_args_check_ranks(c, s, "stages");
}

/* ---- program of one role (first, middle or last stage) ---- */

/* Adds the compute of one micro-batch. src, dst: indices of the buffers that the compute reads and writes. Because
 * of bb_script_new_thread at the end of this function, later operations wait for this compute only if they use one
 * of the two buffers. */
static void write_compute(struct pipeline *b, int src, int dst)
{
    bool forward = b->s.phase == BB_PHASE_FORWARD;
    double us = forward ? b->config->forward_us : b->config->backward_us;
    double flops = (forward ? 1 : 2) * b->model->forward_flops;

    bb_script_compute(&b->s, b->layers_text, b->stage_layers * us, b->stage_layers * flops, src, dst);
    bb_script_real_work(&b->s, b->layers_text, b->layer_kernels[!forward], b->stage_layers, src, dst);
    bb_script_new_thread(&b->s, BB_NONE);
}

/* Adds one shift (each stage sends one message to the next stage) and the compute of its micro-batch. If the stage
 * sends and receives, both messages are in one NCCL group call, because a separate send would block the receive. to,
 * from: rank offsets of the stages to which this stage sends and from which it receives; 0: there is no such stage. */
static void write_shift(struct pipeline *b, int to, int from)
{
    int now = b->s.micro_batch % b->buffer_pairs, next = (b->s.micro_batch + 1) % b->buffer_pairs;
    const char *what = b->s.phase == BB_PHASE_FORWARD ? "activations" : "activation gradients";

    if (!from)
        write_compute(b, BB_NONE, b->send[now]);
    if (to && from)
        bb_script_group_start(&b->s);
    if (to)
        bb_script_send(&b->s, b->pp, what, to, b->model->message, b->send[now]);
    if (from)
        bb_script_recv(&b->s, b->pp, what, from, b->model->message, b->recv[now]);
    bb_script_group_end(&b->s);
    if (from)
        write_compute(b, b->recv[now], to ? b->send[next] : BB_NONE);
}

/* Adds the kernels that accumulate the gradients, or update the parameters, of all layers of the stage. The first,
 * the inner and the last layers of the model have different kernel lists; one operation executes each list, once for
 * every such layer of the stage. The operations run after the last gradient all-reduce. */
static void write_each_layer(struct pipeline *b, const struct bb_kernel_list *const kernel_lists[],
                             const char *const what[])
{
    const int times[BB_LAYER_KINDS] = {[BB_LAYER_INNER] = b->stage_layers - (b->kind != MIDDLE),
                                       [BB_LAYER_FIRST] = b->kind == FIRST,
                                       [BB_LAYER_LAST] = b->kind == LAST};

    for (int kind = 0; kind < BB_LAYER_KINDS; kind++) {
        bb_script_new_thread(&b->s, b->reduced);
        if (times[kind])
            bb_script_real_work(&b->s, what[kind], kernel_lists[kind], times[kind], BB_NONE, BB_NONE);
    }
    bb_script_new_thread(&b->s, BB_NONE);
}

static void write_shifts(struct pipeline *b, enum bb_phase phase)
{
    static const char *const what[] = {[BB_LAYER_INNER] = "accumulate gradients, inner layers",
                                       [BB_LAYER_FIRST] = "accumulate gradients, first layer",
                                       [BB_LAYER_LAST] = "accumulate gradients, last layer"};
    bool forward = phase == BB_PHASE_FORWARD;
    enum stage_kind begin = forward ? FIRST : LAST, end = forward ? LAST : FIRST;
    int next_offset = forward ? 1 : -1, n = b->config->micro_batches;

    b->s.phase = phase;
    for (int i = 0; i < n; i++) {
        b->s.micro_batch = i;
        write_shift(b, b->kind == end ? 0 : next_offset, b->kind == begin ? 0 : -next_offset);
        if (!forward && n > 1)
            write_each_layer(b, b->accumulate, what);
    }
    b->s.micro_batch = BB_NONE;
}

static void write_all_reduce(struct pipeline *b, const char *what, size_t count)
{
    b->reduced = bb_script_all_reduce(&b->s, b->dp, what, count);
    bb_script_new_thread(&b->s, BB_NONE); /* the next all-reduce runs after this all-reduce in the same stream, so it
                                             needs no other wait */
}

/* Adds the gradient all-reduces of the stage's layers: one per layer, or with --per-tensor one per tensor. */
static void write_gradients(struct pipeline *b)
{
    if (b->replicas < 2)
        return;
    b->s.phase = BB_PHASE_GRADIENTS;
    bb_script_wait(&b->s, b->s.program->last[0]);
    bb_script_wait(&b->s, b->s.program->last[b->pp.stream]);
    for (int i = 0; i < b->stage_layers; i++) {
        bool first = b->kind == FIRST && i == 0, last = b->kind == LAST && i == b->stage_layers - 1;
        const struct bb_model_layer *l = &b->model->layer[first  ? BB_LAYER_FIRST
                                                          : last ? BB_LAYER_LAST
                                                                 : BB_LAYER_INNER];

        b->s.layer = i;
        if (!b->config->per_tensor)
            write_all_reduce(b, "weight gradients", l->count);
        for (int t = 0; t < l->n && b->config->per_tensor; t++)
            write_all_reduce(b, bb_step_text(b->step, "%s", l->tensors[t].name), l->tensors[t].count);
    }
    b->s.layer = BB_NONE;
}

static int build_role(struct pipeline *b, struct bb_role *role, enum stage_kind kind)
{
    static const char *const updates[] = {[BB_LAYER_INNER] = "Adam, inner layers",
                                          [BB_LAYER_FIRST] = "Adam, first layer",
                                          [BB_LAYER_LAST] = "Adam, last layer"};

    role->name = role_names[kind];
    bb_script_init(&b->s, &role->program, b->config);
    b->kind = kind;
    b->reduced = BB_NONE;
    b->buffer_pairs = b->s.timed || b->s.real ? 2 : 1;
    b->pp = bb_script_lane(&b->s, &b->step->layout, b->comm_pp);
    if (b->replicas > 1)
        b->dp = bb_script_lane(&b->s, &b->step->layout, b->comm_dp);
    for (int i = 0; i < b->buffer_pairs; i++) {
        b->send[i] = bb_script_buffer(&b->s, "send", BB_USE_COMMUNICATION, b->model->message);
        b->recv[i] = bb_script_buffer(&b->s, "receive", BB_USE_COMMUNICATION, b->model->message);
    }
    write_shifts(b, BB_PHASE_FORWARD);
    write_shifts(b, BB_PHASE_BACKWARD);
    write_gradients(b);
    b->s.phase = BB_PHASE_OPTIMIZER;
    write_each_layer(b, b->update, updates);
    return bb_script_result(&b->s);
}

/* ---- communicators, roles and summary of the step ---- */

static int build_layout(struct pipeline *b)
{
    struct bb_layout *l = &b->step->layout;
    const struct bb_axis axes[] = {{"pp", b->config->stages}, {"dp", b->replicas}};
    int rc, pp, dp;

    TRY(bb_layout_init(l, b->config->ranks, axes, 2));
    pp = bb_layout_add_group(l, "pp", 1u << 0);
    dp = bb_layout_add_group(l, "dp", 1u << 1);
    b->comm_pp = bb_layout_add_comm(l, "pp", pp);
    b->comm_dp = b->replicas > 1 ? bb_layout_add_comm(l, "dp", dp) : BB_NONE;
out:
    return rc;
}

static int build_roles(struct pipeline *b)
{
    struct bb_step *step = b->step;
    int stages = b->config->stages, n = stages > 2 ? 3 : 2, rc;

    TRY(bb_step_add_roles(step, n));
    for (int i = 0; i < n; i++)
        TRY(build_role(b, &step->roles[i], i == 0 ? FIRST : i == n - 1 ? LAST : MIDDLE));
    for (int r = 0; r < step->layout.ranks; r++) {
        int stage = r % stages;

        step->role_of[r] = stage == 0 ? 0 : stage == stages - 1 ? n - 1 : 1;
    }
out:
    return rc;
}

static void write_summary(struct pipeline *b)
{
    const struct bb_proxy_config *c = b->config;

    b->step->lock_step = true;
    b->step->parameters = bb_model_parameters(b->model, c->layers);
    b->step->samples = (double)b->replicas * c->micro_batches * b->model->micro_batch;
    b->layers_text = bb_step_text(b->step, "%d layer%s", b->stage_layers, bb_plural(b->stage_layers));
    b->step->summary = bb_step_text(
        b->step, "%d layer%s in %d stage%s of %d, %d micro-batch%s of %d, %d replica%s; lock step, no pipeline bubble",
        c->layers, bb_plural(c->layers), c->stages, bb_plural(c->stages), b->stage_layers, c->micro_batches,
        c->micro_batches == 1 ? "" : "es", b->model->micro_batch, b->replicas, bb_plural(b->replicas));
}

/* Creates the kernel lists of the forward and backward pass of one layer and one micro-batch, whose FLOPs must equal
 * those of the model file, and the lists of the kernels that accumulate gradients and that update parameters, each for
 * an inner layer, the first layer (with the embedding) and the last layer (with the output head). */
static int list_kernels(struct pipeline *b)
{
    const enum bb_dtype_id dtype = (enum bb_dtype_id)bb_dtype_find(b->config->dtype);
    const struct bb_model *m = b->model;
    const struct bb_transformer t = {.hidden = m->hidden,
                                     .ffn = m->ffn,
                                     .heads = m->heads,
                                     .sequence = m->sequence,
                                     .batch = m->micro_batch,
                                     .tensor_parallel = 1,
                                     .dtype = dtype};

    for (int backward = 0; backward < 2; backward++) {
        struct bb_kernel_list *list = bb_step_add_kernel_list(b->step);

        if (!bb_kernel_list_transformer(list, &t, backward) ||
            bb_kernel_list_flops(list) != (1 + backward) * m->forward_flops)
            return bb_err(BB_EUSAGE,
                          "%s: the GEMMs of a layer with %d heads do not add up to the model file's %.0f FLOPs",
                          b->config->proxy, m->heads, m->forward_flops);
        b->layer_kernels[backward] = list;
    }
    for (int kind = 0; kind < BB_LAYER_KINDS; kind++) {
        struct bb_kernel_list *sum = bb_step_add_kernel_list(b->step), *update = bb_step_add_kernel_list(b->step);

        bb_kernel_list_accumulate(sum, m->layer[kind].count, dtype);
        bb_kernel_list_optimizer(update, BB_MEMORY_KERNEL_ADAM, m->layer[kind].count, dtype);
        b->accumulate[kind] = sum;
        b->update[kind] = update;
    }
    return 0;
}

static int build_step(const struct bb_proxy_config *options, struct bb_step *step)
{
    struct bb_proxy_config resolved = *options, *c = &resolved;
    struct bb_model model = {0};
    struct pipeline b = {.config = c, .model = &model, .step = step};
    char made_of[64];
    int rc;

    TRY(validate_layout(c));
    TRY(bb_model_load(c->proxy, &model));
    b.stage_layers = c->layers / c->stages;
    b.replicas = c->ranks / c->stages;
    snprintf(made_of, sizeof(made_of), "%d replica%s x micro-batches of %d", b.replicas, bb_plural(b.replicas),
             model.micro_batch);
    TRY(bb_args_micro_batches(c, c->micro_batches, (long long)b.replicas * model.micro_batch, made_of, "",
                              &c->micro_batches));
    if (strcmp(c->compute, "gemm") == 0)
        TRY(list_kernels(&b));
    write_summary(&b);
    TRY(build_layout(&b));
    TRY(build_roles(&b));
    if (*(const bool *)c->variant)
        step->masked_flops = bb_step_flops(step) * 2.0 * model.micro_batch * model.sequence * model.sequence *
                             model.hidden / model.forward_flops;
out:
    bb_model_release(&model);
    return rc;
}

/* Whether the model's attention has a causal mask. */
static const bool causal = true, bidirectional = false;

#define PIPELINE(word, text, mask)                                                                                     \
    {                                                                                                                  \
        .name = word,                                                                                                  \
        .help = text ": lock-step pipeline (no bubble, unlike gpt3 and transformer), data-parallel gradients",         \
        .model = word,                                                                                                 \
        .features = BB_FEATURE_LAYERS | BB_FEATURE_STAGES | BB_FEATURE_MICRO_BATCHES | BB_FEATURE_GLOBAL_BATCH |       \
                    BB_FEATURE_PER_TENSOR | BB_FEATURE_TIMED | BB_FEATURE_GEMM | BB_FEATURE_LAYER_US |                 \
                    BB_FEATURE_TFLOPS,                                                                                 \
        .compute = "none", .with_compute = "transformer --model " word,                                                \
        .positional = "[LAYERS STAGES [MICRO_BATCHES]]", .parse_positionals = read_numbers, .defaults = fill_defaults, \
        .build = build_step, .variant = &(mask)                                                                        \
    }

const struct bb_proxy bb_gpt2_large_proxy = PIPELINE("gpt2_large", "GPT-2-like transformer", causal);
const struct bb_proxy bb_bert_large_proxy = PIPELINE("bert_large", "BERT-large", bidirectional);
