/*
 * dlrm.c - the proxy dlrm, a recommendation model: embedding tables are model parallel, one per rank; the MLPs are data
 * parallel.
 *
 * The order of a step is: embedding lookup; all-to-all of the embedding vectors and a wait for it; bottom MLP,
 * interaction, top MLP. Then the backward pass: top MLP, start of its all-reduce; interaction, bottom MLP, start of its
 * all-reduce; all-to-all of the gradients of the embedding vectors and a wait for it; embedding update. The all-reduces
 * overlap with all later operations. They have a separate communicator, because on the communicator of the all-to-all
 * they would delay the all-to-all.
 *
 * Each rank has one table and exchanges batch x features elements, independent of the number of ranks. If the number of
 * elements is not divisible by the number of ranks, the remainder is not sent.
 *
 * --compute gemm looks up one table row per sample, runs the GEMMs of the MLPs and of the interaction, and adds the row
 * gradients to the table. SGD with momentum updates the MLPs after their gradients are reduced. The MLPs and the
 * interaction always process batch / tables samples per rank, as if there were one rank per table of the model file,
 * even if the number of ranks differs.
 */
#include "proxies/form/author/args.h"
#include "proxies/form/author/proxy.h"
#include "proxies/form/author/script.h"
#include "proxies/form/models/model_file.h"

enum layer { EMBEDDING, BOTTOM, INTERACTION, TOP, LAYERS };

static const char *const layer_names[LAYERS] = {
    [EMBEDDING] = "embedding", [BOTTOM] = "bottom", [INTERACTION] = "interaction", [TOP] = "top"};

#define MAX_WIDTHS 32

/* Widths of an MLP: the width of its input, followed by the output width of each layer. */
struct mlp {
    int64_t width[MAX_WIDTHS];
    int n;
};

struct model {
    struct mlp layers[LAYERS]; /* widths of the bottom and the top MLP, indexed by enum layer; only [BOTTOM] and
                                  [TOP] are used */
    int rows, features;        /* rows: number of rows of one embedding table; features: number of elements per row */
    size_t bottom, top, exchange; /* bottom, top: number of parameters of the bottom MLP and of the top MLP;
                                     exchange: number of elements that a rank sends in one all-to-all */
    size_t table;                 /* number of parameters of one embedding table */
    int tables, batch;
    int64_t samples;   /* number of samples that the MLPs of one rank process in a training step: batch / tables */
    double parameters; /* number of parameters of the whole model with `tables` embedding tables */
    double forward_us[LAYERS], backward_us[LAYERS];
    double forward_flops[LAYERS]; /* FLOPs of each layer's forward pass on one rank, for batch / tables samples; the
                                     backward pass has twice as many */
};

/* ---- reading of the model file ---- */

/* Reads the layer widths of an MLP from the list `key` of the model file. *parameters: out: number of parameters of
 * the MLP; *flops: out: FLOPs of its forward pass on one rank. */
static int read_mlp(struct bb_model_file *file, const char *key, struct mlp *p, size_t *parameters, double *flops)
{
    const json_t *widths;
    size_t width, layer;
    double layer_flops;
    int n, rc;

    *parameters = 0;
    *flops = 0;
    TRY(bb_json_list_at(file->root, key, file->where, -MAX_WIDTHS, &widths, &n));
    for (int i = 0; i < n; i++) {
        TRY(bb_model_file_count_in(file, widths, key, i, &width));
        TRY(bb_model_file_set(file, "out", (double)width));
        p->width[p->n++] = (int64_t)width;
        if (i > 0) {
            TRY(bb_model_file_count_at(file, file->root, "mlp_parameters", &layer));
            *parameters += layer;
            TRY(bb_model_file_number_at(file, file->root, "mlp_flops", &layer_flops));
            *flops += layer_flops;
        }
        TRY(bb_model_file_set(file, "in", (double)width));
    }
out:
    return rc;
}

/* Returns the number of parameters of the model with `tables` embedding tables. The MLPs are always those of the
 * model file. */
static double parameters_of(const struct model *m, int tables)
{
    return (double)m->bottom + (double)m->top + (double)m->table * tables;
}

#define AT(member)        offsetof(struct model, member)
#define TIME(key, member) BB_FIELD(key, BB_JSON_NUMBER, AT(member))
#define TIMES(key, member)                                                                                             \
    TIME(key ".embedding", member[EMBEDDING]), TIME(key ".bottom", member[BOTTOM]),                                    \
        TIME(key ".interaction", member[INTERACTION]), TIME(key ".top", member[TOP])

static const struct bb_json_field model_fields[] = {
    BB_FIELD("tables", BB_MODEL_SHAPE, AT(tables)),
    BB_FIELD("batch", BB_MODEL_SHAPE, AT(batch)),
    BB_FIELD("rows", BB_MODEL_SHAPE, AT(rows)),
    BB_FIELD("features", BB_MODEL_SHAPE, AT(features)),
    BB_FIELD("interaction_flops", BB_MODEL_FORMULA, AT(forward_flops[INTERACTION])),
    BB_FIELD("exchange", BB_MODEL_COUNT, AT(exchange)),
    BB_FIELD("table_parameters", BB_MODEL_COUNT, AT(table)),
    TIMES("forward_us", forward_us),
    TIMES("backward_us", backward_us),
    BB_FIELD("totals.exchange", BB_JSON_COUNT_TOTAL, AT(exchange)),
    {0}};

static const struct bb_json_field totals[] = {BB_FIELD("totals.bottom", BB_JSON_COUNT_TOTAL, AT(bottom)),
                                              BB_FIELD("totals.top", BB_JSON_COUNT_TOTAL, AT(top)),
                                              BB_FIELD("totals.parameters", BB_JSON_TOTAL, AT(parameters)),
                                              {0}};

static int read_model(struct model *m)
{
    struct bb_model_file file;
    int rc;

    TRY(bb_model_file_open(&file, "dlrm", "recommendation"));
    TRY(bb_model_file_read(&file, file.root, model_fields, m));
    TRY(read_mlp(&file, "bottom", &m->layers[BOTTOM], &m->bottom, &m->forward_flops[BOTTOM]));
    TRY(read_mlp(&file, "top", &m->layers[TOP], &m->top, &m->forward_flops[TOP]));
    m->samples = m->batch / m->tables;
    m->parameters = parameters_of(m, m->tables);
    TRY(bb_json_read(file.root, file.where, totals, m));
out:
    bb_model_file_close(&file);
    return rc;
}

/* ---- program of a rank and the step ---- */

struct recommender {
    const struct model *model;
    struct bb_step *step;
    enum bb_dtype_id dtype;
    const struct bb_kernel_list *kernel_lists[2][LAYERS]; /* kernels of --compute gemm: [0: forward, 1:
                                                             backward][layer]; NULL with other kinds of compute */
    struct bb_script script;
    struct bb_script_lane exchange, gradients;
    size_t per_peer;
    int ranks;
};

static bool add_mlp_kernels(const struct recommender *r, enum layer layer, bool backward, struct bb_kernel_list *w)
{
    const struct mlp *p = &r->model->layers[layer];
    int64_t rows = r->model->samples;
    bool fits = true;

    for (int i = 1; i < p->n; i++) {
        int l = backward ? p->n - i : i;
        enum bb_activation act = l < p->n - 1 || layer == BOTTOM ? BB_ACT_RELU : BB_ACT_NONE;

        if (backward && l == 1 && layer == BOTTOM) /* the first layer of the bottom MLP reads input data, which needs
                                                      no gradient */
            fits &= bb_kernel_list_dense_first_backward(w, rows, p->width[0], p->width[1], act, r->dtype);
        else
            fits &= bb_kernel_list_dense(w, rows, p->width[l - 1], p->width[l], act, r->dtype, backward);
    }
    return fits;
}

/* Appends the kernels of a layer. The forward pass of the embedding table looks up one row per sample of the batch; its
 * backward pass permutes the gradients into row order and adds them to the rows. */
static bool add_layer_kernels(const struct recommender *r, enum layer layer, bool backward, struct bb_kernel_list *w)
{
    const struct model *m = r->model;
    uint64_t batch = (uint64_t)m->batch, features = (uint64_t)m->features;

    if (layer == INTERACTION)
        return bb_kernel_list_interaction(w, m->samples, m->tables + 1, m->features, r->dtype, backward);
    if (layer != EMBEDDING)
        return add_mlp_kernels(r, layer, backward, w);
    bb_kernel_list_embedding(w, batch, features, backward ? batch : (uint64_t)m->rows, r->dtype);
    if (backward)
        bb_kernel_list_accumulate(w, batch * features, r->dtype);
    return true;
}

/* Returns the FLOPs of a layer's forward or backward pass according to the model file. The backward pass of the
 * bottom MLP excludes the gradient of the MLP's input. */
static double flops_of(const struct recommender *r, enum layer layer, bool backward)
{
    const int64_t *width = r->model->layers[BOTTOM].width;
    double first = layer == BOTTOM && backward ? 2.0 * (double)(r->model->samples * width[0] * width[1]) : 0;

    return (backward ? 2 : 1) * r->model->forward_flops[layer] - first;
}

static int list_kernels(struct recommender *r)
{
    for (int i = 0; i < 2 * LAYERS; i++) {
        struct bb_kernel_list *w = bb_step_add_kernel_list(r->step);
        enum layer layer = (enum layer)(i / 2);
        bool backward = i % 2;

        if (!add_layer_kernels(r, layer, backward, w) || bb_kernel_list_flops(w) != flops_of(r, layer, backward))
            return bb_err(BB_EUSAGE, "%s: the GEMMs of %s do not add up to the model file's %.0f FLOPs", r->step->proxy,
                          layer_names[layer], flops_of(r, layer, backward));
        r->kernel_lists[backward][layer] = w;
    }
    return 0;
}

static void write_layer(struct recommender *r, enum layer layer)
{
    bool forward = r->script.phase == BB_PHASE_FORWARD;

    bb_script_compute(&r->script, layer_names[layer],
                      forward ? r->model->forward_us[layer] : r->model->backward_us[layer],
                      (forward ? 1 : 2) * r->model->forward_flops[layer], BB_NONE, BB_NONE);
    bb_script_real_work(&r->script, layer_names[layer], r->kernel_lists[!forward][layer], 1, BB_NONE, BB_NONE);
}

static void exchange_vectors(struct recommender *r, const char *what)
{
    struct bb_script *s = &r->script;
    int src = bb_script_buffer(s, "send", BB_USE_COMMUNICATION, r->per_peer * (size_t)r->ranks);
    int dst = bb_script_buffer(s, "receive", BB_USE_COMMUNICATION, r->per_peer * (size_t)r->ranks);

    bb_script_wait(s, bb_script_collective(s, r->exchange, what, BB_ALLTOALL, r->per_peer, src, dst));
}

static int reduce_gradients(struct recommender *r, const char *what, size_t count)
{
    int op;

    r->script.phase = BB_PHASE_GRADIENTS;
    op = bb_script_all_reduce(&r->script, r->gradients, what, count);
    r->script.phase = BB_PHASE_BACKWARD;
    return op;
}

static void write_step(struct recommender *r)
{
    int reduced;

    r->script.phase = BB_PHASE_FORWARD;
    write_layer(r, EMBEDDING);
    exchange_vectors(r, "embedding vectors");
    write_layer(r, BOTTOM);
    write_layer(r, INTERACTION);
    write_layer(r, TOP);
    r->script.phase = BB_PHASE_BACKWARD;
    write_layer(r, TOP);
    (void)reduce_gradients(r, "top gradients", r->model->top);
    write_layer(r, INTERACTION);
    write_layer(r, BOTTOM);
    reduced = reduce_gradients(r, "bottom gradients", r->model->bottom);
    exchange_vectors(r, "embedding gradients");
    write_layer(r, EMBEDDING);
    if (!r->script.real)
        return;
    bb_script_wait(&r->script, reduced);
    bb_script_optimizer(&r->script, r->step, BB_MEMORY_KERNEL_SGD, "bottom", r->model->bottom);
    bb_script_optimizer(&r->script, r->step, BB_MEMORY_KERNEL_SGD, "top", r->model->top);
}

static int build_role(const struct bb_proxy_config *c, const struct model *m, struct bb_step *step)
{
    struct recommender r = {.model = m,
                            .step = step,
                            .dtype = (enum bb_dtype_id)bb_dtype_find(c->dtype),
                            .per_peer = m->exchange / (size_t)c->ranks,
                            .ranks = c->ranks};
    int rc;

    TRY(bb_world_role(c, step, "worker", &r.script));
    r.exchange = bb_world_lane(step, &r.script, "world exchange");
    r.gradients = bb_world_lane(step, &r.script, "world gradients");
    if (r.script.real)
        TRY(list_kernels(&r));
    write_step(&r);
    rc = bb_script_result(&r.script);
out:
    return rc;
}

static int build_step(const struct bb_proxy_config *c, struct bb_step *step)
{
    struct model m = {0};
    int rc;

    TRY(read_model(&m));
    if ((size_t)c->ranks > m.exchange)
        return bb_err(BB_EUSAGE, "%s: %d ranks are more than the %zu elements of an all-to-all; possible: %zu ranks",
                      c->proxy, c->ranks, m.exchange, m.exchange);
    step->parameters = parameters_of(&m, c->ranks);
    /* With another number of ranks, the MLPs together process another number of samples than each table. */
    step->samples = c->ranks == m.tables ? m.batch : 0;
    step->summary = bb_step_text(step,
                                 "one embedding table on each of %d rank%s, batch %d; the MLPs of each rank process "
                                 "%lld samples (batch / %d tables)",
                                 c->ranks, bb_plural(c->ranks), m.batch, (long long)m.samples, m.tables);
    rc = build_role(c, &m, step);
out:
    return rc;
}

const struct bb_proxy bb_dlrm_proxy = {
    .name = "dlrm",
    .help = "DLRM: all-to-all of embedding vectors, MLP gradients overlap the backward pass",
    .model = "dlrm",
    .features = BB_FEATURE_TIMED | BB_FEATURE_GEMM,
    .compute = "timed",
    .build = build_step};
