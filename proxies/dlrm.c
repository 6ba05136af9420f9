/*
 * dlrm.c - the recommendation model: embedding tables divided over the ranks, perceptrons data parallel.
 *
 * A step: look up; exchange the vectors (all-to-all, waited for); bottom perceptron, interaction, top perceptron;
 * backward: top, start its all-reduce; interaction, bottom, start its all-reduce; exchange the gradients of the vectors
 * (waited for); embedding. The all-reduces run under all that follows them, so they have a communicator of their own:
 * on that of the all-to-all they would hold it up.
 *
 * Each rank holds one table and exchanges batch x features elements, whatever the number of ranks; what does not divide
 * by them is dropped.
 */
#include "proxies/builders.h"

#include "proxies/script.h"
#include "proxies/sheet.h"

enum layer { EMBEDDING, BOTTOM, INTERACTION, TOP, LAYERS };

static const char *const layer_names[LAYERS] = {
    [EMBEDDING] = "embedding", [BOTTOM] = "bottom", [INTERACTION] = "interaction", [TOP] = "top"};

#define MOST_WIDTHS 32

struct model {
    size_t bottom, top, exchange; /* parameters of the perceptrons; elements that a rank gives away */
    size_t table;                 /* parameters of an embedding table */
    int tables, batch;
    double forward_us[LAYERS], backward_us[LAYERS];
    double forward_flops[LAYERS]; /* of the perceptrons, of a rank of as many as tables; backward twice */
};

/* ---- the model's file ------------------------------------------------------------------------------------------ */

/* The parameters of a perceptron with these widths, from its input to its output. */
static int read_perceptron(struct bb_sheet *sheet, const char *key, size_t *parameters, double *flops)
{
    const json_t *widths;
    size_t width, layer;
    double layer_flops;
    int n, rc;

    *parameters = 0;
    *flops = 0;
    TRY(bb_sheet_list(sheet, sheet->root, key, -MOST_WIDTHS, &widths, &n));
    for (int i = 0; i < n; i++) {
        const char *formula = json_string_value(json_array_get(widths, (size_t)i));

        if (!formula)
            return bb_err(BB_EUSAGE, "%s: width %d of '%s' must be a formula as text", sheet->where, i, key);
        TRY(bb_sheet_count(sheet, formula, &width));
        TRY(bb_sheet_set(sheet, "out", (double)width));
        if (i > 0) {
            TRY(bb_sheet_count_at(sheet, sheet->root, "perceptron_parameters", &layer));
            *parameters += layer;
            TRY(bb_sheet_number_at(sheet, sheet->root, "perceptron_flops", &layer_flops));
            *flops += layer_flops;
        }
        TRY(bb_sheet_set(sheet, "in", (double)width));
    }
out:
    return rc;
}

static int read_times(const struct bb_sheet *sheet, const char *key, double us[LAYERS])
{
    json_t *times;
    int rc = bb_profile_object(sheet->root, key, sheet->where, &times);

    for (int i = 0; rc == 0 && i < LAYERS; i++)
        rc = bb_profile_number(times, layer_names[i], sheet->where, 0, &us[i]);
    return rc;
}

/* With so many tables: the perceptrons stay those of the model's own. */
static double parameters_of(const struct model *m, int tables)
{
    return (double)m->bottom + (double)m->top + (double)m->table * tables;
}

static int check_totals(const struct bb_sheet *sheet, const struct model *m)
{
    json_t *totals;
    int rc;

    TRY(bb_profile_object(sheet->root, "totals", sheet->where, &totals));
    TRY(bb_sheet_total(sheet, totals, "parameters", parameters_of(m, m->tables)));
    TRY(bb_sheet_total(sheet, totals, "bottom", (double)m->bottom));
    TRY(bb_sheet_total(sheet, totals, "top", (double)m->top));
    TRY(bb_sheet_total(sheet, totals, "exchange", (double)m->exchange));
out:
    return rc;
}

static int read_model(struct model *m)
{
    struct bb_sheet sheet;
    int rc;

    TRY(bb_sheet_open(&sheet, "dlrm", "recommendation"));
    TRY(bb_sheet_shape(&sheet, "tables", &m->tables));
    TRY(bb_sheet_shape(&sheet, "batch", &m->batch));
    TRY(read_perceptron(&sheet, "bottom", &m->bottom, &m->forward_flops[BOTTOM]));
    TRY(read_perceptron(&sheet, "top", &m->top, &m->forward_flops[TOP]));
    TRY(bb_sheet_count_at(&sheet, sheet.root, "exchange", &m->exchange));
    TRY(bb_sheet_count_at(&sheet, sheet.root, "table_parameters", &m->table));
    TRY(read_times(&sheet, "forward_us", m->forward_us));
    TRY(read_times(&sheet, "backward_us", m->backward_us));
    TRY(check_totals(&sheet, m));
out:
    bb_sheet_close(&sheet);
    return rc;
}

/* ---- the step -------------------------------------------------------------------------------------------------- */

struct recommender {
    const struct model *model;
    struct bb_script script;
    struct bb_script_lane exchange, gradients;
    size_t per_peer;
    int ranks;
};

static void compute(struct recommender *r, enum layer layer)
{
    bool forward = r->script.phase == BB_PHASE_FORWARD;

    bb_script_compute(&r->script, layer_names[layer],
                      forward ? r->model->forward_us[layer] : r->model->backward_us[layer],
                      (forward ? 1 : 2) * r->model->forward_flops[layer], BB_NONE, BB_NONE);
}

static void exchange(struct recommender *r, const char *what)
{
    struct bb_script *s = &r->script;
    int src = bb_script_buffer(s, "send", BB_USE_COMMUNICATION, r->per_peer * (size_t)r->ranks);
    int dst = bb_script_buffer(s, "receive", BB_USE_COMMUNICATION, r->per_peer * (size_t)r->ranks);

    bb_script_wait(s, bb_script_collective(s, r->exchange, what, BB_ALLTOALL, r->per_peer, src, dst));
}

static void reduce(struct recommender *r, const char *what, size_t count)
{
    r->script.phase = BB_PHASE_GRADIENTS;
    (void)bb_script_reduce(&r->script, r->gradients, what, count);
    r->script.phase = BB_PHASE_BACKWARD;
}

static void write_step(struct recommender *r)
{
    r->script.phase = BB_PHASE_FORWARD;
    compute(r, EMBEDDING);
    exchange(r, "embedding vectors");
    compute(r, BOTTOM);
    compute(r, INTERACTION);
    compute(r, TOP);
    r->script.phase = BB_PHASE_BACKWARD;
    compute(r, TOP);
    reduce(r, "top gradients", r->model->top);
    compute(r, INTERACTION);
    compute(r, BOTTOM);
    reduce(r, "bottom gradients", r->model->bottom);
    exchange(r, "embedding gradients");
    compute(r, EMBEDDING);
}

static int build_role(const struct bb_proxy_config *c, const struct model *m, struct bb_step *step)
{
    struct recommender r = {.model = m, .per_peer = m->exchange / (size_t)c->ranks, .ranks = c->ranks};
    int world, comms[2], rc;

    world = bb_world_layout(&step->layout, c->ranks);
    TRY(world < 0 ? world : 0);
    comms[0] = bb_layout_add_comm(&step->layout, "world exchange", world);
    comms[1] = bb_layout_add_comm(&step->layout, "world gradients", world);
    TRY(bb_step_add_roles(step, 1));
    step->roles[0].name = "worker";
    bb_script_init(&r.script, &step->roles[0].program, c);
    r.exchange = bb_script_lane(&r.script, &step->layout, comms[0]);
    r.gradients = bb_script_lane(&r.script, &step->layout, comms[1]);
    write_step(&r);
    rc = bb_script_result(&r.script);
out:
    return rc;
}

int bb_dlrm_build(const struct bb_proxy_config *c, struct bb_step *step)
{
    struct model m = {0};
    int rc;

    TRY(read_model(&m));
    if ((size_t)c->ranks > m.exchange)
        return bb_err(BB_EUSAGE, "%s: %d ranks leave nothing of %zu elements for each; nearest: %zu ranks", c->proxy,
                      c->ranks, m.exchange, m.exchange);
    step->parameters = parameters_of(&m, c->ranks);
    step->samples = m.batch;
    step->summary = bb_step_text(step, "one embedding table on each of %d rank%s, perceptrons of %d tables, batch %d",
                                 c->ranks, c->ranks == 1 ? "" : "s", m.tables, m.batch);
    TRY(step->summary ? 0 : -BB_EFAIL);
    TRY(build_role(c, &m, step));
out:
    return rc;
}
