/* search.c - memory, estimates and predictions of the layouts of space.c (see layouts.h). */
#include "bootstrap/base/grow.h"
#include "bootstrap/base/units.h"
#include "proxies/layouts/layouts.h"
#include "proxies/layouts/pool.h"
#include "proxies/layouts/space.h"
#include "proxies/registry/registry.h"
#include "proxies/simulate/predict.h"
#include "proxies/transformer/memory.h"
#include "proxies/transformer/training_bytes.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#define REFINED_PER_ROW 8 /* layouts that are estimated from longer steps, and */
#define LEAST_REFINED   64
#define FULL_BEYOND_TOP 4 /* layouts that are predicted beside those that are shown */

/* What all pieces of work share; each has its own row. */
struct work {
    const struct bb_layout_search *search;
    const struct bb_arch *arch;
    const struct bb_layout_space *space;
    struct bb_layout_row *rows;
    int *rc; /* of each row */
    int *fits;
    struct bb_layout_row *bases; /* of the estimates: step_ns of the first, compute_ns of one micro-batch more */
    int n_bases;
};

struct bb_proxy_config bb_layouts_config(const struct bb_proxy_config *config, const struct bb_layout_choice *c)
{
    struct bb_proxy_config as = *config;
    struct bb_transformer_options *o = &as.transformer;

    o->tp = c->tp;
    o->cp = c->cp;
    o->ep = c->ep;
    o->pp = c->pp;
    o->dp = c->dp;
    o->vpp = c->vpp;
    o->schedule = bb_schedule_names[c->schedule];
    o->recompute = bb_recompute_names[c->recompute];
    o->sync = bb_sync_words[c->sync];
    o->sequence_parallel = c->tp > 1;
    as.micro_batch_size = c->batch;
    as.micro_batches = c->micro_batches;
    as.global_batch = 0;
    return as;
}

/* Of what cannot be nothing is said. */
static void try_each(struct work *w, int n, void (*do_one)(void *, int), struct bb_progress *progress)
{
    bb_err_try(true);
    bb_progress_expect(progress, n);
    bb_pool_run(w->search->threads, n, do_one, w, progress);
    bb_err_try(false);
}

/* ---- memory ---- */

/* The least recomputation with which it fits: fits[i] is its place in space->recomputes, n_recomputes: with none. The
 * row keeps the bytes of the last that was tried. */
static void try_memory(void *arg, int i)
{
    struct work *w = arg;
    struct bb_layout_row *row = &w->rows[i];

    row->choice = w->space->list[i];
    row->number = i;
    for (w->fits[i] = 0; w->fits[i] < w->space->n_recomputes; w->fits[i]++) {
        struct bb_proxy_config as;

        row->choice.recompute = (enum bb_recompute)w->space->recomputes[w->fits[i]];
        as = bb_layouts_config(w->search->config, &row->choice);
        w->rc[i] = bb_training_bytes(&as, w->arch, &row->bytes);
        if (w->rc[i] || row->bytes <= w->search->gpu_bytes)
            return;
    }
}

/* Counts what does not fit and moves what does to the front: n. */
static int keep_fitting(struct work *w, struct bb_layouts *found, const struct bb_layout_row **least, int *n)
{
    int all = w->space->n_recomputes;

    *least = NULL;
    for (int i = *n = 0; i < w->space->n; i++) {
        if (w->rc[i] && w->rc[i] != -BB_EUSAGE)
            return w->rc[i];
        if (w->rc[i]) {
            found->left_out[BB_LEFT_OUT_SHAPE] += all;
            continue;
        }
        found->left_out[BB_LEFT_OUT_MEMORY] += w->fits[i];
        if (w->fits[i] == all) {
            *least = !*least || w->rows[i].bytes < (*least)->bytes ? &w->rows[i] : *least;
            continue;
        }
        found->left_out[BB_LEFT_OUT_RECOMPUTE] += all - 1 - w->fits[i];
        w->rows[(*n)++] = w->rows[i];
    }
    return 0;
}

/* ---- times ---- */

/* Of a step of so many micro-batches; p is released by the caller. */
static int predict_choice(const struct work *w, const struct bb_layout_choice *choice, int micro_batches,
                          struct bb_step *step, struct bb_prediction *p)
{
    struct bb_proxy_config as = bb_layouts_config(w->search->config, choice);
    int rc;

    *p = (struct bb_prediction){0};
    as.micro_batches = micro_batches;
    TRY(bb_step_build(step, w->search->proxy, &as));
    TRY(bb_predict_step(step, w->search->cluster, p));
out:
    return rc;
}

static int time_of(const struct work *w, const struct bb_layout_choice *choice, int micro_batches, double *ns)
{
    struct bb_prediction p;
    struct bb_step step = {0};
    int rc = predict_choice(w, choice, micro_batches, &step, &p);

    *ns = rc ? NAN : (double)p.classes[p.slowest].all.step_ns;
    bb_prediction_release(&p);
    bb_step_release(&step);
    return rc;
}

/* A pipeline that is full takes as long for each micro-batch more. */
static int extrapolate(const struct work *w, const struct bb_layout_choice *c, int few, int more, double *ns,
                       double *each_ns)
{
    double longer;
    int rc;

    *each_ns = 0;
    if (c->micro_batches <= more)
        return time_of(w, c, c->micro_batches, ns);
    TRY(time_of(w, c, few, ns));
    TRY(time_of(w, c, more, &longer));
    *each_ns = (longer - *ns) / (more - few);
    *ns += (c->micro_batches - few) * *each_ns;
out:
    return rc;
}

/* Other schedules are estimated from 1f1b. */
static struct bb_layout_choice base_of(struct bb_layout_choice c)
{
    c.schedule = BB_1F1B;
    c.vpp = 1;
    return c;
}

static int compare_choices(const void *a, const void *b)
{
    const struct bb_layout_row *x = a, *y = b;

    return memcmp(&x->choice, &y->choice, sizeof(x->choice));
}

/* One for each base, which many schedules share. */
static int list_bases(struct work *w, int n)
{
    int unique = 0, rc = BB_NEW(w->bases, n);

    if (rc)
        return rc;
    for (int i = 0; i < n; i++)
        w->bases[i].choice = base_of(w->rows[i].choice);
    qsort(w->bases, (size_t)n, sizeof(*w->bases), compare_choices);
    for (int i = 0; i < n; i++)
        if (i == 0 || compare_choices(&w->bases[unique - 1], &w->bases[i]) != 0)
            w->bases[unique++] = w->bases[i];
    w->n_bases = unique;
    return 0;
}

static void estimate_base(void *arg, int i)
{
    struct work *w = arg;
    struct bb_layout_row *base = &w->bases[i];
    int few = base->choice.pp > 1 ? 1 : 2; /* with one micro-batch alone no gradients are added up */

    w->rc[i] = extrapolate(w, &base->choice, few, few + 1, &base->step_ns, &base->compute_ns);
}

/* What a schedule leaves of the bubble of 1f1b: chunks make it shorter, delayed weights fill two thirds. */
static double bubble_left(const struct bb_layout_choice *c)
{
    return c->schedule == BB_INTERLEAVED ? 1.0 / c->vpp : c->schedule == BB_ZB_H1 ? 1.0 / 3 : 1;
}

static int estimate_rows(struct work *w, int *n, struct bb_layouts *found)
{
    int kept = 0;

    for (int i = 0; i < *n; i++) {
        struct bb_layout_row *row = &w->rows[i], key = {.choice = base_of(row->choice)};
        const struct bb_layout_row *base =
            bsearch(&key, w->bases, (size_t)w->n_bases, sizeof(*w->bases), compare_choices);
        int rc = w->rc[base - w->bases];

        if (rc == -BB_EUSAGE) {
            found->left_out[BB_LEFT_OUT_SHAPE]++;
            continue;
        }
        if (rc)
            return rc;
        row->step_ns = base->step_ns - (row->choice.pp - 1) * base->compute_ns * (1 - bubble_left(&row->choice));
        w->rows[kept++] = *row;
    }
    *n = kept;
    return 0;
}

/* ---- the best of them ---- */

static void refine_row(void *arg, int i)
{
    struct work *w = arg;
    struct bb_layout_row *row = &w->rows[i];
    int pp = row->choice.pp, few = pp > 1 ? 2 * pp : 2;
    double each_ns;

    w->rc[i] = extrapolate(w, &row->choice, few, pp > 1 ? 3 * pp : 3, &row->step_ns, &each_ns);
}

static double flops_of(const struct bb_step *step)
{
    double sum = 0, role_flops;
    int ranks = step->layout.ranks;

    for (int r = 0; r < step->n_roles; r++) {
        const struct bb_program *p = &step->roles[r].program;

        role_flops = 0;
        for (size_t i = 0; i < p->n_ops; i++)
            role_flops += p->ops[i].flops;
        for (int rank = 0; rank < ranks; rank++)
            sum += step->role_of[rank] == r ? role_flops : 0;
    }
    return sum;
}

static void predict_row(void *arg, int i)
{
    struct work *w = arg;
    struct bb_layout_row *row = &w->rows[i];
    const struct bb_predicted_rank *slowest;
    struct bb_step step = {0};
    struct bb_prediction p;

    w->rc[i] = predict_choice(w, &row->choice, row->choice.micro_batches, &step, &p);
    if (w->rc[i] == 0) {
        slowest = &p.classes[p.slowest];
        row->step_ns = (double)slowest->all.step_ns;
        row->compute_ns = (double)slowest->all.compute_ns;
        row->transfer_ns = (double)slowest->exposed.transfer_ns;
        row->bubble_ns = (double)slowest->exposed.bubble_ns;
        row->waiting_ns = (double)slowest->exposed.waiting_ns;
        row->flops = flops_of(&step);
        row->bytes = bb_step_training_bytes(&step);
        row->tokens = step.tokens;
        row->samples = step.samples;
    }
    bb_prediction_release(&p);
    bb_step_release(&step);
}

static int compare_rows(const void *a, const void *b)
{
    const struct bb_layout_row *x = a, *y = b;

    if (x->step_ns != y->step_ns)
        return x->step_ns < y->step_ns ? -1 : 1;
    return x->number - y->number;
}

/* Sorts rows and leaves out all but the quickest. */
static int keep_quickest(struct work *w, int n, int most, struct bb_layouts *found)
{
    qsort(w->rows, (size_t)n, sizeof(*w->rows), compare_rows);
    if (n <= most)
        return n;
    found->left_out[BB_LEFT_OUT_SLOWER] += n - most;
    return most;
}

/* Runs and drops the rows that cannot be built whole. */
static int run_rows(struct work *w, void (*do_one)(void *, int), int *n, struct bb_layouts *found,
                    struct bb_progress *progress)
{
    int kept = 0;

    try_each(w, *n, do_one, progress);
    for (int i = 0; i < *n; i++) {
        if (w->rc[i] == -BB_EUSAGE)
            found->left_out[BB_LEFT_OUT_SIZE]++;
        else if (w->rc[i])
            return w->rc[i];
        else
            w->rows[kept++] = w->rows[i];
    }
    *n = kept;
    return 0;
}

static int refuse_all(const struct work *w, const struct bb_layout_row *least)
{
    char need[BB_BYTES_TEXT], have[BB_BYTES_TEXT];
    const struct bb_layout_search *s = w->search;

    if (!least)
        return bb_err(BB_EUSAGE,
                      "%s: no layout of %d ranks with a batch of %d samples can be; nearest: --global-batch-size %d",
                      s->proxy->name, s->config->ranks, s->config->global_batch, s->config->ranks);
    return bb_err(BB_EUSAGE,
                  "%s: no layout of %d ranks fits: training would hold %s at least (tp %d, cp %d, ep %d, pp %d, "
                  "micro-batch %d, recompute %s, %s), a GPU has %s",
                  s->proxy->name, s->config->ranks, bb_format_bytes((size_t)least->bytes, need), least->choice.tp,
                  least->choice.cp, least->choice.ep, least->choice.pp, least->choice.batch,
                  bb_recompute_names[least->choice.recompute], bb_sync_words[least->choice.sync],
                  bb_format_bytes((size_t)s->gpu_bytes, have));
}

static int find_rows(struct work *w, struct bb_layouts *found, struct bb_progress *progress)
{
    const struct bb_layout_row *least;
    int n, rc, wanted = REFINED_PER_ROW * w->search->top;

    try_each(w, w->space->n, try_memory, progress);
    TRY(keep_fitting(w, found, &least, &n));
    found->fitting = n;
    if (n == 0)
        return refuse_all(w, least);
    TRY(list_bases(w, n));
    try_each(w, w->n_bases, estimate_base, progress);
    TRY(estimate_rows(w, &n, found));
    n = found->refined = keep_quickest(w, n, wanted > LEAST_REFINED ? wanted : LEAST_REFINED, found);
    TRY(run_rows(w, refine_row, &n, found, progress));
    n = keep_quickest(w, n, w->search->top + FULL_BEYOND_TOP, found);
    TRY(run_rows(w, predict_row, &n, found, progress));
    found->n = keep_quickest(w, n, n, found);
    if (n == 0)
        rc = bb_err(BB_EUSAGE,
                    "%s: of %lld layouts that fit none can be built with the options given; a layout without "
                    "--best-layout says why",
                    w->search->proxy->name, found->fitting);
out:
    return rc;
}

int bb_layouts_search(const struct bb_layout_search *search, struct bb_layouts *found)
{
    struct bb_layout_space space = {0};
    struct bb_progress progress;
    struct bb_arch arch;
    struct work w = {.search = search, .arch = &arch, .space = &space};
    int rc;

    *found = (struct bb_layouts){.gpus = search->config->ranks, .gpu_bytes = search->gpu_bytes};
    bb_progress_init(&progress, 0, search->quiet);
    TRY(bb_training_arch(search->config, &arch));
    TRY(bb_layout_space_init(&space, search, &arch));
    found->looked_at = space.looked_at;
    memcpy(found->left_out, space.left_out, sizeof(found->left_out));
    TRY(BB_NEW(w.rows, space.n));
    TRY(BB_NEW(w.rc, space.n));
    TRY(BB_NEW(w.fits, space.n));
    rc = find_rows(&w, found, &progress);
    found->rows = w.rows;
    w.rows = NULL;
out:
    bb_progress_end(&progress);
    free(w.rows);
    free(w.rc);
    free(w.fits);
    free(w.bases);
    bb_layout_space_release(&space);
    return rc;
}

void bb_layouts_release(struct bb_layouts *found)
{
    free(found->rows);
    *found = (struct bb_layouts){0};
}
