/*
 * gpt3.c - the proxies gpt3 and gpt3_moe, and their one_pipe_step variants: one transformer layer per pipeline stage,
 * each layer divided among tensor-parallel ranks or among experts. The model is profiles/models/gpt3; the four proxies
 * are defined at the end of this file.
 *
 * W is the number of ranks that share one layer: 4 tensor-parallel ranks, or 16 experts. S is the number of stages.
 * rank = (replica * W + w) * S + stage, with w from 0 to W - 1. Groups:
 *   pp            the S stages of a pipeline, which are consecutive ranks
 *   tp or moe_ep  the W ranks of one stage and replica, S ranks apart
 *   dp            tensor parallel: the ranks with the same w and stage in all replicas; experts: all ranks of a stage
 *   moe_dp        experts: the ranks with the same expert and stage in all replicas
 *
 * A step runs in GPipe's order: all forward micro-batches, then all backward micro-batches, then the gradients. For
 * each micro-batch a stage receives its input and waits for it, waits for its previous send, computes, starts the send,
 * and runs the two collectives of the layer (all-reduce or all-to-all), waiting for each. So a send overlaps with the
 * layer's collectives and with the next receive. For this reason micro-batches alternate between two communicators of
 * pp: with a single communicator, the next receive would wait for the send. At the end, the stage reduces its gradients
 * and waits for them, even if there is only one replica.
 *
 * one_pipe_step is one step in the steady state of 1F1B: even stages run a forward, odd stages a backward. Each stage
 * starts the receive of its next input before the compute, and the send of its result after the collectives. Each
 * direction has a separate communicator: with a single one, both partners would issue their receive first and deadlock.
 *
 * --compute gemm runs the GEMMs and memory-bound kernels of the layer. With tensor parallelism these are attention and
 * MLP, both divided among the ranks. With experts they are attention, a permutation of the tokens by expert, one expert
 * (an MLP of inner width 4h / 16, for hidden size h), and the reverse permutation. With several micro-batches,
 * gradients are accumulated in float after each backward. Adam runs after the gradients are reduced. A one_pipe_step
 * reduces no gradients and therefore has no optimizer.
 */
#include "proxies/form/author/args.h"
#include "proxies/form/author/proxy.h"
#include "proxies/form/author/script.h"
#include "proxies/form/models/model_file.h"

#include <string.h>

#define MAX_KERNELS   4
#define MAX_GRADIENTS 2

/* How the W ranks of one stage and replica divide the stage's layer: tensor parallelism (W = 4) or experts (W = 16). */
struct division {
    /* key: name of the JSON object in the model file with the values for this division, "tensor" or "expert"; axis,
     * group: names in the layout of the axis and of the group of the W ranks */
    const char *key, *axis, *group;
    enum bb_coll_kind kind; /* kind of the layer's two collectives: all-reduce for tensor parallelism, all-to-all for
                               experts */
    const char *what[2];    /* labels in the results of the layer's first and second collective */
    const char *members;    /* name of the W ranks in messages to the user, for example "experts" */
    /* [MAX_GRADIENTS] name of the group over which each gradient buffer of the stage is all-reduced, in the order of
     * the gradients in the model file; NULL: there is no such gradient buffer */
    const char *gradient_group[MAX_GRADIENTS];
    unsigned gradient_axes[MAX_GRADIENTS];
    bool separate_batches; /* true: each of the W ranks of a stage has its own samples; false: the W ranks share the
                              samples of each micro-batch */
};

enum { PP = 1u << 0, WIDTH = 1u << 1, REPLICAS = 1u << 2 };

static const struct division tensor = {.key = "tensor",
                                       .axis = "tp",
                                       .group = "tp",
                                       .kind = BB_ALL_REDUCE,
                                       .what = {"attention", "MLP"},
                                       .members = "tensor-parallel ranks",
                                       .gradient_group = {"dp"},
                                       .gradient_axes = {REPLICAS}};

static const struct division expert = {.key = "expert",
                                       .axis = "ep",
                                       .group = "moe_ep",
                                       .kind = BB_ALLTOALL,
                                       .what = {"dispatch", "combine"},
                                       .members = "experts",
                                       .gradient_group = {"moe_dp", "dp"},
                                       .gradient_axes = {REPLICAS, WIDTH | REPLICAS},
                                       .separate_batches = true};

/* Properties in which the four proxies of this file differ. */
struct variant {
    const struct division *division;
    bool one_step;
};

/* ---- reading of the model file ---- */

struct kernel {
    const char *what, *kind; /* kind: what the kernel computes: "layer" (a whole transformer layer), "attention" or
                                "expert" */
    double forward_us, backward_us, forward_flops;
};

struct gradient {
    const char *what;
    size_t count;
};

struct model {
    struct bb_model_file file; /* the open model file, which owns the strings in this struct */
    int stages, scale, micro_batch, width, hidden, sequence, heads;
    size_t message, exchange, layer_parameters;
    struct kernel kernels[MAX_KERNELS];
    struct gradient gradients[MAX_GRADIENTS];
    int n_kernels, n_gradients;
};

static const struct bb_json_field kernel_fields[] = {
    BB_FIELD("what", BB_JSON_TEXT, offsetof(struct kernel, what)),
    BB_FIELD("work", BB_JSON_TEXT, offsetof(struct kernel, kind)),
    BB_FIELD("forward_us", BB_JSON_NUMBER, offsetof(struct kernel, forward_us)),
    BB_FIELD("backward_us", BB_JSON_NUMBER, offsetof(struct kernel, backward_us)),
    BB_FIELD("forward_flops", BB_MODEL_FORMULA, offsetof(struct kernel, forward_flops)),
    {0}};

#define AT(member) offsetof(struct model, member)

static const struct bb_json_field model_fields[] = {
    BB_FIELD("defaults.stages", BB_JSON_WHOLE, AT(stages), .min = 2, .max = BB_MAX_LAYERS),
    BB_FIELD("defaults.scale", BB_JSON_WHOLE, AT(scale), .min = 1, .max = BB_MAX_LAYERS),
    BB_FIELD("micro_batch", BB_MODEL_SHAPE, AT(micro_batch)),
    BB_FIELD("h", BB_MODEL_SHAPE, AT(hidden)),
    BB_FIELD("sequence", BB_MODEL_SHAPE, AT(sequence)),
    BB_FIELD("heads", BB_MODEL_SHAPE, AT(heads)),
    BB_FIELD("message", BB_MODEL_COUNT, AT(message)),
    BB_FIELD("layer_parameters", BB_MODEL_COUNT, AT(layer_parameters)),
    BB_FIELD("totals.message", BB_JSON_COUNT_TOTAL, AT(message)),
    {0}};

/* Reads the object d->key ("tensor" or "expert") of the model file, with the values that depend on how a layer is
 * divided among W ranks. */
static int read_division(const struct bb_model_file *file, const struct division *d, struct model *m)
{
    const int n_gradients = d->gradient_group[1] ? 2 : 1;
    const json_t *list;
    const char *width;
    json_t *part;
    int rc;

    TRY(bb_json_object_at(file->root, d->key, file->where, &part));
    TRY(bb_json_text_at(part, "width", file->where, &width));
    TRY(bb_model_file_shape(file, width, &m->width));
    TRY(bb_model_file_count_at(file, part, "exchange", &m->exchange));
    TRY(bb_json_list_at(part, "gradients", file->where, n_gradients, &list, &m->n_gradients));
    for (int g = 0; g < m->n_gradients; g++)
        TRY(bb_model_file_named_in(file, list, "gradients", g, &m->gradients[g].what, &m->gradients[g].count));
    TRY(bb_json_list_at(part, "compute", file->where, -MAX_KERNELS, &list, &m->n_kernels));
    for (int k = 0; k < m->n_kernels; k++)
        TRY(bb_model_file_read(file, json_array_get(list, (size_t)k), kernel_fields, &m->kernels[k]));
out:
    return rc;
}

static int check_totals(const struct bb_model_file *file, const struct division *d, struct model *m)
{
    size_t made[] = {m->exchange, m->gradients[0].count, m->gradients[1].count};
    const struct bb_json_field fields[] = {
        BB_FIELD("exchange", BB_JSON_COUNT_TOTAL, 0),
        BB_FIELD("gradients", BB_JSON_COUNT_TOTALS, sizeof(size_t), .n = m->n_gradients),
        {0}};
    json_t *totals, *part, *parameters, *value;
    const char *layers;
    int rc;

    TRY(bb_json_object_at(file->root, "totals", file->where, &totals));
    TRY(bb_json_object_at(totals, d->key, file->where, &part));
    TRY(bb_json_read(part, file->where, fields, made));
    TRY(bb_json_object_at(totals, "parameters", file->where, &parameters));
    json_object_foreach(parameters, layers, value) TRY(bb_json_check_total(
        file->where, "parameters", json_number_value(value), (double)m->layer_parameters * atoi(layers)));
out:
    return rc;
}

static int read_model(const struct division *d, struct model *m)
{
    struct bb_model_file *file = &m->file;
    int rc;

    *m = (struct model){0};
    TRY(bb_model_file_open(file, "gpt3", "layered_transformer"));
    TRY(bb_model_file_read(file, file->root, model_fields, m));
    TRY(read_division(file, d, m));
    TRY(check_totals(file, d, m));
out:
    return rc;
}

/* ---- command-line options ---- */

static int read_numbers(struct bb_proxy_config *c, const char *const *words, int n)
{
    int rc;

    if (n > 2)
        return bb_err(BB_EUSAGE, "%s: %d numbers, expected STAGES or STAGES SCALE; try: '%s %s'", c->proxy, n, words[0],
                      words[1]);
    TRY(bb_args_number(c, words[0], "stages", c->stages, &c->stages));
    if (n == 2)
        TRY(bb_args_number(c, words[1], "micro-batches per stage", c->scale, &c->scale));
out:
    return rc;
}

/* Without --micro-batches, the number of micro-batches is --scale (default: that of the model file) times the number of
 * stages. */
static int fill_defaults(struct bb_proxy_config *c)
{
    long long micro_batches;
    struct model m;
    int rc;

    TRY(read_model(((const struct variant *)c->variant)->division, &m));
    if (c->layers && c->stages && c->layers != c->stages) {
        rc = bb_err(BB_EUSAGE, "%s: %d layers in %d stages, but a stage has exactly one layer; try: --layers %d",
                    c->proxy, c->layers, c->stages, c->stages);
        goto out;
    }
    c->stages = c->stages ? c->stages : c->layers ? c->layers : m.stages;
    c->layers = c->stages;
    micro_batches = (long long)c->stages * (c->scale ? c->scale : m.scale);
    if (c->scale && c->micro_batches && c->micro_batches != micro_batches)
        rc = bb_err(BB_EUSAGE,
                    "%s: --scale %d sets %lld micro-batches for %d stages, but --micro-batches is %d; leave one out",
                    c->proxy, c->scale, micro_batches, c->stages, c->micro_batches);
    else if (c->micro_batches == 0 && micro_batches > BB_MAX_LAYERS)
        rc = bb_err(BB_EUSAGE, "%s: %lld micro-batches, expected at most %d; try: --scale %d", c->proxy, micro_batches,
                    BB_MAX_LAYERS, BB_MAX_LAYERS / c->stages);
    else if (c->micro_batches == 0)
        c->micro_batches = (int)micro_batches;
out:
    bb_model_file_close(&m.file);
    return rc;
}

static int validate_layout(const struct bb_proxy_config *c, const struct variant *v, int width)
{
    long long unit = (long long)c->stages * width;
    const char *why;

    if (c->stages < 2)
        return bb_err(BB_EUSAGE, "%s: %d stage, expected 2 or more", c->proxy, c->stages);
    if (v->one_step && c->stages % 2)
        return bb_err(BB_EUSAGE, "%s: %d stages, expected an even number, because stages run in pairs", c->proxy,
                      c->stages);
    if (unit > c->ranks)
        return bb_err(BB_EUSAGE, "%s: %d rank%s, too few for %d stages with %d %s each; possible: %lld ranks", c->proxy,
                      c->ranks, bb_plural(c->ranks), c->stages, width, v->division->members, unit);
    why = v->division == &tensor ? "stages x tensor-parallel ranks" : "stages x experts";
    return bb_args_check_ranks(c, (int)unit, why);
}

/* ---- program of one role (stages with the same program) ---- */

/* Position of a stage in the pipeline. The one_pipe_step variants use FIRST for even stages and LAST for odd stages. */
enum stage_kind { FIRST, MIDDLE, LAST };

struct pipeline {
    const struct bb_proxy_config *config;
    const struct variant *variant;
    const struct model *model;
    struct bb_step *step;
    enum bb_dtype_id dtype;
    /* chains: number of pipelines that process different samples: one per replica, or W per replica if each of the W
     * ranks of a stage has its own samples */
    int replicas, chains, lanes;
    int comm_pp[2], comm_width, comm_gradients[MAX_GRADIENTS];
    struct bb_script script;
    struct bb_script_lane pp[2], width, gradients[MAX_GRADIENTS];
    int collective_src[2], collective_dst[2]; /* buffer indices of the send buffers and of the receive buffers of the
                                                 layer's two collectives: [0] first, [1] second collective */
    /* kernels of --compute gemm, indexed by [0: forward, 1: backward][kernel of the model file]; NULL with other
     * kinds of compute */
    const struct bb_kernel_list *kernel_lists[2][MAX_KERNELS];
    const struct bb_kernel_list *accumulate; /* kernels of --compute gemm that accumulate the stage's gradients over
                                                micro-batches; NULL with other kinds of compute */
};

/* ---- kernels of --compute gemm ---- */

/* Appends the kernels of one expert: a permutation of the rank's tokens by expert, the MLP of the expert, and the
 * reverse permutation. Returns false if the MLP's inner width is not divisible by the number of experts, or if a
 * size overflows. */
static bool add_expert_kernels(const struct model *m, const struct bb_transformer *t, bool backward,
                               struct bb_kernel_list *w)
{
    const uint64_t tokens = (uint64_t)(t->batch * t->sequence), hidden = (uint64_t)t->hidden;
    struct bb_transformer own = *t;
    bool fits;

    own.ffn = t->ffn / m->width;
    bb_kernel_list_permute(w, tokens, hidden, 1, t->dtype);
    fits = t->ffn % m->width == 0 && bb_kernel_list_mlp(w, &own, backward);
    bb_kernel_list_unpermute(w, tokens, hidden, 1, t->dtype);
    return fits;
}

static bool add_kernels(const struct pipeline *b, const struct kernel *k, bool backward, struct bb_kernel_list *w)
{
    const struct model *m = b->model;
    const struct bb_transformer t = {.hidden = m->hidden,
                                     .ffn = 4 * (int64_t)m->hidden,
                                     .heads = m->heads,
                                     .sequence = m->sequence,
                                     .batch = m->micro_batch,
                                     .tensor_parallel = b->variant->division == &tensor ? m->width : 1,
                                     .dtype = b->dtype};

    if (strcmp(k->kind, "layer") == 0)
        return bb_kernel_list_transformer(w, &t, backward);
    if (strcmp(k->kind, "attention") == 0)
        return bb_kernel_list_attention(w, &t, backward);
    return strcmp(k->kind, "expert") == 0 && add_expert_kernels(m, &t, backward, w);
}

/* Creates the kernel lists of the forward and of the backward pass, and the list of the kernels that add the gradients
 * of one micro-batch to those of earlier micro-batches. The FLOPs of the passes must equal those of the model file,
 * where the backward pass has twice the FLOPs of the forward pass. */
static int list_kernels(struct pipeline *b)
{
    struct bb_kernel_list *sum;

    for (int i = 0; i < 2 * b->model->n_kernels; i++) {
        const struct kernel *k = &b->model->kernels[i / 2];
        struct bb_kernel_list *w = bb_step_add_kernel_list(b->step);
        int backward = i % 2;

        if (!add_kernels(b, k, backward, w) || bb_kernel_list_flops(w) != (1 + backward) * k->forward_flops)
            return bb_err(BB_EUSAGE, "%s: the GEMMs of '%s' do not add up to the model file's %.0f FLOPs",
                          b->config->proxy, k->what, (1 + backward) * k->forward_flops);
        b->kernel_lists[backward][i / 2] = w;
    }
    sum = bb_step_add_kernel_list(b->step);
    for (int g = 0; g < b->model->n_gradients; g++)
        bb_kernel_list_accumulate(sum, b->model->gradients[g].count, b->dtype);
    b->accumulate = sum;
    return 0;
}

/* ---- operations of the program of one role ---- */

static void write_kernels(struct pipeline *b, int src, int dst)
{
    bool forward = b->script.phase == BB_PHASE_FORWARD;
    double given = forward ? b->config->forward_us : b->config->backward_us, known = 0, scale;
    int last = b->model->n_kernels - 1;

    for (int k = 0; k <= last; k++)
        known += forward ? b->model->kernels[k].forward_us : b->model->kernels[k].backward_us;
    scale = given > 0 && known > 0 ? given / known : 1;
    for (int k = 0; k <= last; k++) {
        const struct kernel *kernel = &b->model->kernels[k];
        const char *what = bb_step_text(b->step, "%s", kernel->what);

        bb_script_compute(&b->script, what, scale * (forward ? kernel->forward_us : kernel->backward_us),
                          (forward ? 1 : 2) * kernel->forward_flops, k == 0 ? src : BB_NONE, k == last ? dst : BB_NONE);
        bb_script_real_work(&b->script, what, b->kernel_lists[!forward][k], 1, k == 0 ? src : BB_NONE,
                            k == last ? dst : BB_NONE);
    }
}

/* Adds the kernels that accumulate gradients over micro-batches, after each backward pass. Adds nothing if the step
 * has a single micro-batch. */
static void accumulate_gradients(struct pipeline *b)
{
    if (b->script.real && b->script.phase == BB_PHASE_BACKWARD && b->config->micro_batches > 1)
        bb_script_accumulate(&b->script, b->accumulate);
}

static int add_buffer(struct pipeline *b, bool wanted, const char *name, size_t count)
{
    return wanted ? bb_script_buffer(&b->script, name, BB_USE_COMMUNICATION, count) : BB_NONE;
}

/* Adds a send buffer and a receive buffer for each of the layer's two collectives, for all later calls of
 * write_layer_collectives. */
static void add_collective_buffers(struct pipeline *b)
{
    const struct division *d = b->variant->division;
    size_t whole = b->model->exchange * (d->kind == BB_ALLTOALL ? (size_t)b->model->width : 1);

    for (int i = 0; i < 2; i++) {
        b->collective_src[i] = add_buffer(b, true, "layer send", whole);
        b->collective_dst[i] = add_buffer(b, true, "layer receive", whole);
    }
}

/* Adds the two collectives of a layer, and a wait after each: the all-reduces after attention and MLP, or the
 * dispatch and combine all-to-alls of experts. */
static void write_layer_collectives(struct pipeline *b)
{
    const struct division *d = b->variant->division;

    for (int i = 0; i < 2; i++)
        bb_script_wait(&b->script, bb_script_collective(&b->script, b->width, d->what[i], d->kind, b->model->exchange,
                                                        b->collective_src[i], b->collective_dst[i]));
}

/* Adds all forward or all backward micro-batches (phase). to, from: rank offsets of the stages to which this stage
 * sends and from which it receives; 0: there is no such stage. */
static void write_micro_batches(struct pipeline *b, enum bb_phase phase, int to, int from)
{
    const char *what = phase == BB_PHASE_FORWARD ? "activations" : "activation gradients";
    struct bb_script *s = &b->script;
    size_t count = b->model->message;
    int send = add_buffer(b, to != 0, "send", count), recv = add_buffer(b, from != 0, "receive", count), sent = BB_NONE;

    add_collective_buffers(b);
    s->phase = phase;
    for (s->micro_batch = 0; s->micro_batch < b->config->micro_batches; s->micro_batch++) {
        struct bb_script_lane lane = b->pp[s->micro_batch % b->lanes];

        if (from)
            bb_script_wait(s, bb_script_recv(s, lane, what, from, count, recv));
        bb_script_wait(s, sent);
        write_kernels(b, recv, send);
        if (to)
            sent = bb_script_send(s, lane, what, to, count, send);
        accumulate_gradients(b);
        write_layer_collectives(b);
    }
    s->micro_batch = BB_NONE;
}

static void write_full_step(struct pipeline *b, enum stage_kind kind)
{
    int previous = kind == FIRST ? 0 : -1, next = kind == LAST ? 0 : 1;
    const char *what[MAX_GRADIENTS];

    write_micro_batches(b, BB_PHASE_FORWARD, next, previous);
    write_micro_batches(b, BB_PHASE_BACKWARD, previous, next);
    b->script.phase = BB_PHASE_GRADIENTS;
    for (int g = 0; g < b->model->n_gradients; g++) {
        what[g] = bb_step_text(b->step, "%s", b->model->gradients[g].what);
        bb_script_wait(&b->script,
                       bb_script_all_reduce(&b->script, b->gradients[g], what[g], b->model->gradients[g].count));
    }
    for (int g = 0; b->script.real && g < b->model->n_gradients; g++)
        bb_script_optimizer(&b->script, b->step, BB_MEMORY_KERNEL_ADAM, what[g], b->model->gradients[g].count);
}

/* Adds one step in the steady state of 1F1B: an even stage (kind FIRST) runs a forward, an odd stage (kind LAST) a
 * backward. Each stage starts the receive of its next input before it computes. */
static void write_steady_step(struct pipeline *b, enum stage_kind kind)
{
    static const char *const what[] = {"activations", "activation gradients"};
    struct bb_script *s = &b->script;
    size_t count = b->model->message;
    int own = kind == FIRST ? 0 : 1, partner = own == 0 ? 1 : -1;
    int send = add_buffer(b, true, "send", count), recv = add_buffer(b, true, "receive", count);

    add_collective_buffers(b);
    s->phase = own == 0 ? BB_PHASE_FORWARD : BB_PHASE_BACKWARD;
    (void)bb_script_recv(s, b->pp[1 - own], what[1 - own], partner, count, recv);
    write_kernels(b, BB_NONE, send);
    accumulate_gradients(b);
    write_layer_collectives(b);
    (void)bb_script_send(s, b->pp[own], what[own], partner, count, send);
}

static int build_role(struct pipeline *b, struct bb_role *role, enum stage_kind kind)
{
    static const char *const names[2][3] = {{"first stage", "middle stage", "last stage"},
                                            {"even stage", NULL, "odd stage"}};
    struct bb_script *s = &b->script;
    const struct bb_layout *l = &b->step->layout;

    role->name = names[b->variant->one_step][kind];
    bb_script_init(s, &role->program, b->config);
    for (int i = 0; i < b->lanes; i++)
        b->pp[i] = bb_script_lane(s, l, b->comm_pp[i]);
    b->width = bb_script_lane(s, l, b->comm_width);
    for (int g = 0; !b->variant->one_step && g < b->model->n_gradients; g++)
        b->gradients[g] = bb_script_lane(s, l, b->comm_gradients[g]);
    if (b->variant->one_step)
        write_steady_step(b, kind);
    else
        write_full_step(b, kind);
    return bb_script_result(s);
}

/* ---- communicators, roles and summary of the step ---- */

static int build_layout(struct pipeline *b)
{
    static const char *const turns[] = {"pp 0", "pp 1"}, *const directions[] = {"pp forward", "pp backward"};
    const struct division *d = b->variant->division;
    struct bb_layout *l = &b->step->layout;
    const struct bb_axis axes[] = {{"pp", b->config->stages}, {d->axis, b->model->width}, {"dp", b->replicas}};
    int rc = bb_layout_init(l, b->config->ranks, axes, 3), group;

    if (rc)
        return rc;
    group = bb_layout_add_group(l, "pp", PP);
    b->lanes = b->variant->one_step || b->config->micro_batches > 1 ? 2 : 1;
    for (int i = 0; i < b->lanes; i++)
        b->comm_pp[i] = bb_layout_add_stage_comm(l, b->variant->one_step ? directions[i] : turns[i], group);
    b->comm_width = bb_layout_add_comm(l, d->group, bb_layout_add_group(l, d->group, WIDTH));
    for (int g = 0; !b->variant->one_step && g < b->model->n_gradients; g++) {
        group = bb_layout_add_group(l, d->gradient_group[g], d->gradient_axes[g]);
        b->comm_gradients[g] = bb_layout_add_comm(l, d->gradient_group[g], group);
    }
    return 0;
}

static int build_roles(struct pipeline *b)
{
    struct bb_step *step = b->step;
    bool one_step = b->variant->one_step;
    int stages = b->config->stages, n = one_step || stages == 2 ? 2 : 3, rc;

    TRY(bb_step_add_roles(step, n));
    for (int i = 0; i < n; i++)
        TRY(build_role(b, &step->roles[i], i == 0 ? FIRST : i == n - 1 ? LAST : MIDDLE));
    for (int r = 0; r < step->layout.ranks; r++) {
        int stage = r % stages;

        step->role_of[r] = one_step ? stage % 2 : stage == 0 ? 0 : stage == stages - 1 ? n - 1 : 1;
    }
out:
    return rc;
}

/* Sets the number of micro-batches from --global-batch-size. Rejects this option for the one_pipe_step proxies and
 * in combination with --scale. */
static int resolve_batch(const struct pipeline *b, struct bb_proxy_config *c)
{
    char made_of[64];

    if (c->global_batch && b->variant->one_step)
        return bb_err(BB_EUSAGE,
                      "%s: --global-batch-size is not supported: this proxy is one steady step of a pipeline",
                      c->proxy);
    if (c->global_batch && c->scale)
        return bb_err(BB_EUSAGE,
                      "%s: --global-batch-size %d and --scale %d both set the number of micro-batches; leave one out",
                      c->proxy, c->global_batch, c->scale);
    snprintf(made_of, sizeof(made_of), "%d pipeline%s x micro-batches of %d", b->chains, bb_plural(b->chains),
             b->model->micro_batch);
    return bb_args_micro_batches(c, c->micro_batches, (long long)b->chains * b->model->micro_batch, made_of, "",
                                 &c->micro_batches);
}

static void write_summary(struct pipeline *b)
{
    const struct bb_proxy_config *c = b->config;

    b->step->parameters = (double)b->model->layer_parameters * c->stages;
    b->step->samples = b->variant->one_step ? 0 : (double)b->chains * c->micro_batches * b->model->micro_batch;
    b->step->summary = bb_step_text(b->step, "%d stages of one layer, %d %s, %d replica%s, %s%d micro-batch%s",
                                    c->stages, b->model->width, b->variant->division->members, b->replicas,
                                    bb_plural(b->replicas), b->variant->one_step ? "one steady step of " : "",
                                    c->micro_batches, c->micro_batches == 1 ? "" : "es");
}

static int build_step(const struct bb_proxy_config *options, struct bb_step *step)
{
    struct bb_proxy_config resolved = *options, *c = &resolved;
    struct model m;
    struct pipeline b = {.config = c,
                         .variant = c->variant,
                         .model = &m,
                         .step = step,
                         .dtype = (enum bb_dtype_id)bb_dtype_find(c->dtype)};
    int rc;

    TRY(read_model(b.variant->division, &m));
    TRY(validate_layout(c, b.variant, m.width));
    b.replicas = c->ranks / (c->stages * m.width);
    b.chains = b.replicas * (b.variant->division->separate_batches ? m.width : 1);
    TRY(resolve_batch(&b, c));
    TRY(build_layout(&b));
    write_summary(&b);
    if (strcmp(c->compute, "gemm") == 0)
        TRY(list_kernels(&b));
    TRY(build_roles(&b));
    /* a layer has 24 s h^2 + 4 s^2 h FLOPs per sample, and the mask hides 2 s^2 h of them */
    step->masked_flops = bb_step_flops(step) * m.sequence / (12.0 * m.hidden + 2.0 * m.sequence);
out:
    bb_model_file_close(&m.file);
    return rc;
}

enum {
    FEATURES = BB_FEATURE_LAYERS | BB_FEATURE_STAGES | BB_FEATURE_MICRO_BATCHES | BB_FEATURE_GLOBAL_BATCH |
               BB_FEATURE_SCALE | BB_FEATURE_TIMED | BB_FEATURE_GEMM | BB_FEATURE_LAYER_US | BB_FEATURE_OWN_AXES
};

#define GPT3(word, text, ...)                                                                                          \
    {                                                                                                                  \
        .name = word, .help = text, .model = "gpt3", .features = FEATURES, .compute = "timed",                         \
        .positional = "[STAGES [SCALE]]", .parse_positionals = read_numbers, .defaults = fill_defaults,                \
        .build = build_step, .variant = &(const struct variant)                                                        \
        {                                                                                                              \
            __VA_ARGS__                                                                                                \
        }                                                                                                              \
    }

const struct bb_proxy bb_gpt3_proxy =
    GPT3("gpt3", "GPT-3: data x tensor (4) x pipeline parallel, one layer per stage", .division = &tensor);
const struct bb_proxy bb_gpt3_one_pipe_step_proxy =
    GPT3("gpt3_one_pipe_step", "GPT-3: 1F1B in steady state: even stages run one forward, odd stages one backward",
         .division = &tensor, .one_step = true);
const struct bb_proxy bb_gpt3_moe_proxy =
    GPT3("gpt3_moe", "GPT-3 with 16 experts: data x expert x pipeline parallel", .division = &expert);
const struct bb_proxy bb_gpt3_moe_one_pipe_step_proxy =
    GPT3("gpt3_moe_one_pipe_step",
         "GPT-3 with 16 experts: 1F1B in steady state: even stages run one forward, odd stages one backward",
         .division = &expert, .one_step = true);
