/*
 * search.c - the search for the best layouts (see layouts.h): branch and bound over the layouts listed by space.c.
 *
 * Layouts that differ only in schedule, model chunks per stage and recomputation per chunk share a base layout: the
 * layout with the 1f1b schedule and one chunk per stage. Each base layout is simulated, and the step times of the
 * layouts that share it are estimated from this simulation.
 *
 * Notation: a step has n micro-batches; t(m) is the simulated time of a step with m of them; c(r) is the time of the
 * kernels of the first micro-batch on rank r, without launch overhead and waiting; f is the smallest injected slowdown
 * factor of a GPU, at most 1.
 *
 * Two lower bounds on t(n):
 *   max_rank_bound_ns = n f max c(r), for layouts with one chunk per stage. Proof: with equally loaded experts, all
 *       micro-batches have the kernels of the first one, and from the second one on also the kernels that accumulate
 *       gradients. A rank executes its kernels one after another on one stream. Contention and launches only lengthen
 *       them, and an injected slowdown multiplies them by f or more. The schedule only changes their order, so the
 *       bound of the base layout is valid for 1f1b and zb-h1. With simulated unequal load the bound is 0.
 *   mean_rank_bound_ns = n f mean c(r), for layouts with several chunks per stage. Proof: these layouts execute the
 *       kernels of the base layout, but layers with different costs may be on other ranks, so max c(r) of the base
 *       layout may be too large. The sum over the ranks is the same (base_of() recomputes the same number of layers per
 *       stage), and the rank with most compute has at least the mean. With uneven stages the base may recompute one layer
 *       more on the first and on the last stage, so that the bound may exceed the step by less than 1 %.
 * A base layout passes its bounds on to base layouts with at least its kernels (have_same_compute): gradients are
 * synchronized after the kernels of the micro-batches, and recomputing more layers adds kernels.
 *
 * With unequal load of experts (--moe-imbalance) on more than EXACT_RANKS ranks, each rank of ep has a step of its own, whose
 * simulation takes up to ep times as long. The first three stages then assume equal load, of all ranks that of the busiest one
 * (bb_training_expert_load); the last stage computes memory and time with the unequal load.
 *
 * All times are compared after multiplication by 1 + penalty (penalty.h). The penalty of a layout is at least that of its
 * base layout, so a bound multiplied by 1 + penalty of the base layout is a bound for the layouts that share it; below,
 * bounds, estimates and the limit include this factor.
 *
 * A grid is the set of the layouts with equal tp, cp, ep, pp and dp; its estimate is the smallest of its layouts. A layout is
 * pruned only if its estimate would exceed the `wanted`-th smallest known estimate of a grid, limit_ns. Pruning then
 * changes neither which grids have the `wanted` smallest estimates nor these estimates:
 *   base layouts  estimate_ns() returns at least lower_bound_ns(), and that is at least mean_rank_bound_ns, because a
 *                 maximum is at least the mean. estimate_bases() proceeds in ascending order of mean_rank_bound_ns with the penalty. If
 *                 this bound exceeds the limit, so do the estimates of all layouts of this and of all later bases.
 *                 estimate_base() also stops after its first simulation if all estimates of the base exceed the limit:
 *                 with d >= b = max_rank_bound_ns / n, estimate_ns() returns at least
 *                 t(few) + (n - few) d - (pp - 1) d - (max_rank_bound_ns - mean_rank_bound_ns), which is smallest for
 *                 d = b if n - few >= pp - 1. If d is known from the leader of the base, it does not simulate a base at all
 *                 if that exceeds the limit with few b in place of t(few).
 *   simulations   extrapolate() estimates t(n) as t(few) + (n - few) d with d >= lower_bound_ns / n. Before the second
 *                 simulation it stops if t(few) + (n - few) lower_bound_ns / n exceeds the limit. Before the first one,
 *                 refine_row() stops if lower_bound_ns does, because t(few) >= few lower_bound_ns / n. After
 *                 ALL_REFINED layouts, and for uneven stages always, it also stops, which is no bound, if the estimate exceeds the limit although it is
 *                 reduced by ESTIMATE_ERROR and by the error of the layout whose estimate is too long by most: an
 *                 estimate leaves out bubble and imbalance, so it is rarely too long.
 * tests/proxies/offline/layouts/test_search_bounds.c compares the search with one that simulates all layouts.
 */
#include "bootstrap/base/alloc.h"
#include "bootstrap/base/stats.h"
#include "bootstrap/base/units.h"
#include "proxies/form/author/args.h"
#include "proxies/offline/layouts/layouts.h"
#include "proxies/offline/layouts/penalty.h"
#include "proxies/offline/layouts/pool.h"
#include "proxies/offline/layouts/recompute.h"
#include "proxies/offline/layouts/space.h"
#include "proxies/simulation/simulate/engine/op_time.h"
#include "proxies/simulation/simulate/predict.h"
#include "proxies/workloads/registry/registry.h"
#include "proxies/workloads/transformer/memory.h"
#include "proxies/workloads/transformer/training_bytes.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* number of layouts that the second search stage simulates: per grid to report (option --top), at most of one grid, and at
 * most of one schedule and micro-batch size in a grid, whose estimates rank the kinds of dp-sync as simulations do */
#define REFINED_PER_GRID 12
#define MAX_OF_GRID      20
#define MAX_OF_SCHEDULE  1
#define ALL_REFINED      64 /* number of layouts that the second search stage simulates whatever their estimates */
/* allowance for estimates that are longer than the simulation; at most 4.5 % in test_best_layout */
#define ESTIMATE_ERROR  1.05
#define MIN_GRIDS       10 /* minimum number of grids to report for which the search runs */
#define FULL_BEYOND_TOP 4  /* number of grids whose best layout is simulated in full in addition to the reported ones */
#define BASE_BATCH      64 /* number of base layouts that are simulated between two pruning steps */
/* number of operations of all stages of a pipeline above which the results of a step are extrapolated from shorter steps */
#define LONG_STEP   1e6
#define ROW_BATCH   16 /* number of layouts that the second search stage simulates between two pruning steps */
#define EXACT_RANKS 16 /* maximum number of ranks for which all stages simulate unequal load of experts */
#define TOO_SLOW    1  /* returned if the layout cannot be among the fastest (not an error) */

/* Layouts whose layers have the same kernels: those with tp, cp, ep and micro-batch size of the layout `of`. */
struct division {
    struct bb_layout_choice of;
    struct bb_recompute_cost cost;
};

/* State of the search, shared by all threads. rows: all layouts with their results. A job of the thread pool handles
 * one layout or one base layout (see the top of the file) and writes only to that layout. */
struct work {
    const struct bb_layout_search *search;
    struct bb_layouts *found;
    struct bb_progress *progress;
    const char *stage; /* current stage of the search, for the progress line */
    const struct bb_arch *arch;
    const struct bb_layout_space *space;
    struct division
        *divisions; /* [n_divisions] of a layer; none if recomputation is given, so its costs are not compared */
    int n_divisions;
    struct bb_layout_row *rows;
    int n; /* number of elements of `rows` that are still candidates; they come first */
    int n_grids;
    double *grid_ns,
        *sorted; /* [n_grids] for each grid, the smallest known estimate of its layouts; temporary storage */
    double *ratio, least_ratio; /* [space->n] simulated time of rows[i] by its estimate; the smallest one, at most 1 */
    int *rc;                    /* [space->n] return code of the latest thread-pool job for rows[i] */
    int *unfit;         /* [space->n] number of space->recomputes with which rows[i] does not fit (see fit_row) */
    struct base *bases; /* [n_bases] the base layouts, sorted by compare_choices */
    int n_bases;
    int *work_list;             /* indices in `bases` of the base layouts to simulate, in the order of simulation */
    int first;                  /* index in `rows` of the layout that job 0 of the thread pool simulates */
    double limit_ns;            /* layouts whose step time with the penalty is longer are pruned */
    bool equalizes;             /* the experts of all ranks get as many tokens as those of the busiest one */
    struct rank_loads *loads;   /* with equalizes: of each ep of the layouts */
    double fastest_rank_factor; /* smallest injected slowdown factor of a GPU's kernels; 1 if all are at least 1 */
};

/* bb_training_rank_loads of layouts with each ep. */
struct rank_loads {
    struct {
        int ep;
        double *loads;
    } * list;
    int n;
};

/* A base layout: 1f1b schedule, one model chunk per stage (see the top of the file). */
struct base {
    struct bb_layout_choice choice;
    double factor;                      /* 1 + penalty */
    double step_ns, per_micro_batch_ns; /* step_ns: time of a training step with all its micro-batches;
                                           per_micro_batch_ns: increase of the step time for each additional
                                           micro-batch */
    double max_rank_bound_ns;  /* lower bound in ns on the step time of layouts with one chunk per stage (see the top
                                 of the file) */
    double mean_rank_bound_ns; /* lower bound in ns on the step time of layouts with several chunks per stage (see
                                  the top of the file) */
    bool known;                /* true: the base layout was simulated, and step_ns, per_micro_batch_ns and rc are set */
    int rc;
};

#define DEFAULT_ORDER "tp-cp-ep-dp-pp"

/* Dispatch "dedup" as far as it applies to the layout's ep groups: plain alltoall within a node, and no more nodes per token
 * than a group spans. Other orders of the axes keep what was given. */
static void limit_dedup(struct bb_transformer_options *o, int gpus_per_node)
{
    const int nodes = gpus_per_node > 0 ? (o->etp > 1 ? o->etp : 1) * o->ep / gpus_per_node : 1;

    if (!o->dispatch || strcmp(o->dispatch, "dedup") != 0 || (o->order && strcmp(o->order, DEFAULT_ORDER) != 0))
        return;
    if (nodes < 2)
        o->dispatch = "alltoall";
    o->node_limit = nodes < 2 ? 0 : o->node_limit < nodes ? o->node_limit : nodes;
}

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
    o->first_layers = c->first_layers ? c->first_layers : o->first_layers;
    o->last_layers = c->last_layers ? c->last_layers : o->last_layers;
    o->pipeline_layout = c->pipeline_layout[0] ? c->pipeline_layout : o->pipeline_layout;
    o->schedule = bb_schedule_names[c->schedule];
    o->recompute = bb_recompute_names[c->recompute];
    o->recompute_modules = c->modules[0] ? c->modules : o->recompute_modules;
    o->recompute_layers = c->recompute_layers;
    o->sync = bb_sync_names[c->sync];
    o->sequence_parallel = c->tp > 1;
    o->tp_overlap = c->tp > 1 && (o->tp_overlap || c->tp_overlap);
    as.sync.precision_aware |= c->precision_aware != 0;
    as.sync.overlap_param_gather |= c->sync == BB_SYNC_DISTRIBUTED && !as.sync.no_overlap;
    limit_dedup(o, as.gpus_per_node);
    as.micro_batch_size = c->batch;
    as.micro_batches = c->micro_batches;
    as.global_batch = 0;
    return as;
}

static bool may_equalize(const struct bb_layout_search *search)
{
    return search->config->transformer.imbalance > 0 && search->config->ranks > EXACT_RANKS;
}

/* Replaces unequal load of experts by equal load, `times` that without imbalance. */
static void equalize_load(struct bb_transformer_options *o, double times)
{
    o->load = times;
    o->imbalance = 0;
    o->seed = 0;
}

static const double *loads_of(const struct work *w, int ep)
{
    for (int i = 0; i < w->loads->n; i++)
        if (w->loads->list[i].ep == ep)
            return w->loads->list[i].loads;
    return NULL;
}

/* Writes the load of the experts of a layout, whose configuration is `as`. Returns -BB_EUSAGE if it is invalid. */
static int load_of(const struct work *w, const struct bb_proxy_config *as, struct bb_expert_load *load)
{
    const double *loads = loads_of(w, as->transformer.ep);

    return loads ? bb_training_expert_load(as, w->arch, loads, load) : -BB_EUSAGE;
}

/* Computes the loads of each ep of the layouts that is not yet in the list. Invalid layouts are skipped. */
static void list_loads(struct work *w)
{
    bb_err_speculative(true);
    for (int i = 0; w->equalizes && i < w->space->n; i++) {
        const struct bb_layout_choice *c = &w->space->list[i];
        const struct bb_proxy_config as = bb_layouts_config(w->search->config, c);
        double *loads;

        if (loads_of(w, c->ep))
            continue;
        BB_NEW(loads, w->arch->layers * c->ep);
        if (bb_training_rank_loads(&as, w->arch, loads)) {
            free(loads);
            continue;
        }
        BB_GROW(w->loads->list, w->loads->n);
        w->loads->list[w->loads->n].ep = c->ep;
        w->loads->list[w->loads->n++].loads = loads;
    }
    bb_err_speculative(false);
}

static void release_loads(struct rank_loads *loads)
{
    for (int i = 0; i < loads->n; i++)
        free(loads->list[i].loads);
    free(loads->list);
}

static void begin_stage(struct work *w, const char *stage, int layouts)
{
    w->stage = stage;
    bb_progress_expect(w->progress, layouts);
}

/* Calls do_one(w, i) for 0 <= i < n on the thread pool. Suppresses the error messages for invalid layouts, because
 * the search skips these layouts. */
static void run_speculatively(struct work *w, int n, void (*do_one)(void *, int))
{
    bb_err_speculative(true);
    bb_pool_run(w->search->threads, n, do_one, w, w->stage, w->progress);
    bb_err_speculative(false);
}

/* ---- GPU memory ---- */

static struct division *division_of(const struct work *w, const struct bb_layout_choice *c)
{
    for (int i = 0; i < w->n_divisions; i++) {
        const struct bb_layout_choice *of = &w->divisions[i].of;

        if (of->tp == c->tp && of->cp == c->cp && of->ep == c->ep && of->batch == c->batch)
            return &w->divisions[i];
    }
    return NULL;
}

static void list_divisions(struct work *w)
{
    for (int i = 0; i < w->space->n; i++) {
        if (division_of(w, &w->space->list[i]))
            continue;
        BB_GROW(w->divisions, w->n_divisions);
        w->divisions[w->n_divisions++] = (struct division){.of = w->space->list[i]};
    }
}

static struct bb_recompute_subject subject_of(const struct work *w, const struct bb_proxy_config *as)
{
    return (struct bb_recompute_subject){w->search->proxy,        as, w->arch, w->search->config->transformer.software,
                                         w->search->usable_bytes, 0};
}

static void compute_cost(void *arg, int i)
{
    struct work *w = arg;
    const struct bb_proxy_config as = bb_layouts_config(w->search->config, &w->divisions[i].of);
    const struct bb_recompute_subject subject = subject_of(w, &as);

    bb_recompute_cost_compute(&subject, w->search->cluster, &w->divisions[i].cost);
}

/* Finds the modules or operations (found[0]) and the whole layers (found[1]) with the shortest kernels whose recomputation
 * makes a layout fit. none_bytes: memory need of the layout without. Returns 0, or -BB_EUSAGE if both are invalid. */
static int find_recompute(const struct work *w, const struct bb_layout_choice *layout, double none_bytes,
                          struct bb_recompute_candidate found[2])
{
    const struct bb_proxy_config as = bb_layouts_config(w->search->config, layout);
    const struct bb_recompute_subject subject = subject_of(w, &as);
    const struct division *division = division_of(w, layout);
    const struct bb_recompute_cost *cost = division ? &division->cost : NULL;
    const int modules = bb_recompute_modules(&subject, cost, none_bytes, &found[0]);
    const int layers = bb_recompute_layers(&subject, cost, &found[1]);

    return modules ? layers : 0;
}

static void set_recompute(struct bb_layout_row *row, const struct bb_recompute_candidate *c)
{
    row->choice.recompute = c->recompute;
    row->choice.recompute_layers = c->layers;
    memcpy(row->choice.modules, c->modules, sizeof(c->modules));
    row->bytes = c->bytes;
}

/* Computes the memory need of a layout with the recomputation that is given, or without. */
static int compute_fixed_bytes(const struct work *w, struct bb_layout_row *row)
{
    struct bb_proxy_config as;

    row->choice.recompute = (enum bb_recompute)w->space->recomputes[0];
    as = bb_layouts_config(w->search->config, &row->choice);
    return bb_training_bytes(&as, w->arch, &row->bytes);
}

/*
 * Finds the recomputation with which a layout fits into GPU memory and computes for the shortest time.
 * row: in: its choice; out. bytes: with the recomputation found, or with the most recomputation.
 * unfit: out, number of kinds of recomputation with which the layout does not fit.
 */
static int fit_load(const struct work *w, struct bb_layout_row *row, int *unfit)
{
    const double usable = w->search->usable_bytes;
    struct bb_recompute_candidate found[2], *fastest;
    int rc;

    row->choice.recompute_layers = w->search->given->transformer.recompute_layers;
    TRY(compute_fixed_bytes(w, row));
    *unfit = row->bytes > usable;
    if (row->bytes <= usable || w->space->n_recomputes == 1)
        return 0;
    TRY(find_recompute(w, &row->choice, row->bytes, found));
    fastest = &found[found[1].ns <= found[0].ns];
    if (fastest->bytes > 0) /* 0: other options exclude it */
        set_recompute(row, fastest);
    *unfit += isinf(found[0].ns) + isinf(found[1].ns);
out:
    return rc;
}

/* As fit_load, but with the load of the experts of the busiest rank for all ranks if w->equalizes. */
static int fit_row(const struct work *w, struct bb_layout_row *row, int *unfit)
{
    struct bb_proxy_config as, equal = *w->search->config;
    struct bb_layout_search search = *w->search;
    struct work other = *w;
    struct bb_expert_load load;
    int rc;

    if (!w->equalizes)
        return fit_load(w, row, unfit);
    row->choice.recompute = (enum bb_recompute)w->space->recomputes[0];
    row->choice.recompute_layers = w->search->given->transformer.recompute_layers;
    as = bb_layouts_config(w->search->config, &row->choice);
    TRY(load_of(w, &as, &load));
    equalize_load(&equal.transformer, load.of_stage);
    search.config = &equal;
    other.search = &search;
    TRY(fit_load(&other, row, unfit));
out:
    return rc;
}

/* Finds the recomputation of layout i and sets w->unfit[i]. */
static void try_memory(void *arg, int i)
{
    struct work *w = arg;

    w->rows[i].choice = w->space->list[i];
    w->rows[i].number = i;
    w->rc[i] = fit_row(w, &w->rows[i], &w->unfit[i]);
}

/* Gives layout i the precision-aware optimizer, which requires dp-sync distributed, if it does not fit without
 * recomputation. Without replicas all values of dp-sync are equivalent. */
static void try_precision_aware(void *arg, int i)
{
    struct work *w = arg;
    struct bb_layout_row row = {.choice = w->space->list[i], .number = i};
    const bool alone = row.choice.dp * row.choice.cp == 1 && !w->search->given->transformer.sync;
    int unfit = 0;

    if (w->rc[i] || w->unfit[i] == 0 || (row.choice.sync != BB_SYNC_DISTRIBUTED && !alone))
        return;
    row.choice.sync = BB_SYNC_DISTRIBUTED;
    row.choice.precision_aware = 1;
    if (fit_row(w, &row, &unfit))
        return;
    w->rows[i] = row;
    w->unfit[i] = unfit;
}

/* Finds the recomputation of a layout again, with the unequal load of its experts. Returns -BB_EUSAGE if it does not fit. */
static int refit_load(const struct work *w, struct bb_layout_row *row)
{
    int rc, unfit;

    memset(row->choice.modules, 0, sizeof(row->choice.modules));
    TRY(fit_load(w, row, &unfit));
    rc = unfit < w->space->n_recomputes ? 0 : -BB_EUSAGE;
out:
    return rc;
}

/* Rejects a layout that does not fit with the unequal load of its experts. */
static void try_unequal_load(void *arg, int i)
{
    struct work *w = arg;
    struct bb_layout_row row = w->rows[i];

    w->rc[i] = w->equalizes ? refit_load(w, &row) : 0;
}

/* Returns whether layout i, with the memory of try_memory, fits with the unequal load of its experts, too. */
static bool fits(struct work *w, int i)
{
    if (w->rc[i] != 0 || w->unfit[i] >= w->space->n_recomputes)
        return false;
    try_unequal_load(w, i);
    return w->rc[i] == 0;
}

static int count_fitting(const struct work *w)
{
    int n = 0;

    for (int i = 0; i < w->space->n; i++)
        n += w->rc[i] == 0 && w->unfit[i] < w->space->n_recomputes;
    return n;
}

static bool may_add_optimizer(const struct work *w)
{
    const struct bb_sync_options *given = &w->search->given->sync;

    return w->search->optimizer != BB_OPTIMIZER_GIVEN && !given->precision_aware && bb_sync_uses_adam(given);
}

/* Finds the recomputation of each layout, and if fewer than `few` layouts fit, the optimizer. Returns whether it did the
 * latter. */
static bool try_memory_of_all(struct work *w, int few)
{
    const bool adds = may_add_optimizer(w);

    run_speculatively(w, w->space->n, try_memory);
    if (!adds || (w->search->optimizer == BB_OPTIMIZER_IF_FEW && count_fitting(w) >= few))
        return false;
    begin_stage(w, w->stage, w->space->n);
    run_speculatively(w, w->space->n, try_precision_aware);
    return true;
}

static double penalty_of(const struct work *w, const struct bb_layout_choice *c)
{
    return w->search->penalizes ? bb_layouts_penalty(c, &w->found->subject) : 0;
}

double bb_layouts_ranked_ns(const struct bb_layout_row *row)
{
    return row->step_ns * (1 + row->penalty);
}

bool bb_layouts_are_of_one_grid(const struct bb_layout_choice *a, const struct bb_layout_choice *b)
{
    return a->tp == b->tp && a->cp == b->cp && a->ep == b->ep && a->pp == b->pp && a->dp == b->dp;
}

/* Sets `penalty`, `grid` and `variants` of the layouts that fit. The layouts of a grid follow each other (space.c). */
static void number_grids(struct work *w)
{
    for (int i = 0, first = 0; i < w->n; i++) {
        if (!bb_layouts_are_of_one_grid(&w->rows[first].choice, &w->rows[i].choice)) {
            first = i;
            w->n_grids++;
        }
        w->rows[i].penalty = penalty_of(w, &w->rows[i].choice);
        w->rows[i].grid = w->n_grids;
        for (int k = first; k <= i; k++)
            w->rows[k].variants = i - first + 1;
    }
    w->n_grids += w->n > 0;
}

/* Counts the rejected layouts and moves the layouts that fit into GPU memory to the front of w->rows. smallest: out,
 * the layout with the smallest memory need among the layouts that do not fit; NULL: none. */
static int keep_fitting(struct work *w, const struct bb_layout_row **smallest)
{
    int all = w->space->n_recomputes;

    *smallest = NULL;
    for (int i = 0; i < w->space->n; i++) {
        if (w->rc[i] && w->rc[i] != -BB_EUSAGE)
            return w->rc[i];
        if (w->rc[i]) {
            w->found->rejected[BB_REJECTED_SHAPE] += all;
            continue;
        }
        w->found->rejected[BB_REJECTED_MEMORY] += w->unfit[i];
        if (w->unfit[i] == all) {
            *smallest = !*smallest || w->rows[i].bytes < (*smallest)->bytes ? &w->rows[i] : *smallest;
            continue;
        }
        w->found->rejected[BB_REJECTED_RECOMPUTE] += all - 1 - w->unfit[i];
        w->rows[w->n++] = w->rows[i];
    }
    number_grids(w);
    return 0;
}

/* ---- grids ---- */

static void forget_grid_estimates(struct work *w)
{
    for (int g = 0; g < w->n_grids; g++)
        w->grid_ns[g] = INFINITY;
}

static void add_grid_estimate(struct work *w, const struct bb_layout_row *row, double step_ns)
{
    w->grid_ns[row->grid] = fmin(w->grid_ns[row->grid], step_ns * (1 + row->penalty));
}

/* Returns the wanted-th smallest estimate of a grid; infinity if there are fewer than `wanted` of them. */
static double wanted_grid_ns(struct work *w, int wanted)
{
    memcpy(w->sorted, w->grid_ns, (size_t)w->n_grids * sizeof(*w->sorted));
    bb_sort_doubles(w->sorted, (size_t)w->n_grids);
    return wanted > w->n_grids ? INFINITY : w->sorted[wanted - 1];
}

/* ---- step times ---- */

/* Builds the training step of a layout with the given number of micro-batches. The caller releases the step. */
static int build_choice(const struct work *w, const struct bb_layout_choice *choice, int micro_batches,
                        struct bb_step *step)
{
    struct bb_proxy_config as = bb_layouts_config(w->search->config, choice);
    struct bb_expert_load load;
    int rc;

    as.micro_batches = micro_batches;
    if (w->equalizes) {
        TRY(load_of(w, &as, &load));
        equalize_load(&as.transformer, load.of_layers);
    }
    TRY(bb_step_build(step, w->search->proxy, &as));
out:
    return rc;
}

static int time_of(const struct work *w, const struct bb_layout_choice *choice, int micro_batches, double *ns)
{
    struct bb_step step = {0};
    int64_t step_ns = 0;
    int rc;

    TRY(build_choice(w, choice, micro_batches, &step));
    TRY(bb_predict_step_ns(&step, w->search->cluster, w->search->conditions, &step_ns));
out:
    *ns = rc ? NAN : (double)step_ns;
    bb_step_release(&step);
    return rc;
}

/* Estimates the step time *ns from simulated steps with `few` and with `more` micro-batches: each additional
 * micro-batch of a full pipeline takes the same time, which is at least micro_batch_bound_ns. Returns TOO_SLOW
 * without the second simulation if this lower bound shows that the step is longer than limit_ns.
 * per_micro_batch_ns: in, the time of an additional micro-batch if it is known, else 0; out, this time. */
static int extrapolate(const struct work *w, const struct bb_layout_choice *c, int few, int more,
                       double micro_batch_bound_ns, double limit_ns, double *ns, double *per_micro_batch_ns)
{
    double longer;
    int rc;

    if (c->micro_batches <= more)
        return time_of(w, c, c->micro_batches, ns);
    TRY(time_of(w, c, few, ns));
    if (*ns + (c->micro_batches - few) * micro_batch_bound_ns > limit_ns)
        return TOO_SLOW;
    if (*per_micro_batch_ns == 0) {
        TRY(time_of(w, c, more, &longer));
        *per_micro_batch_ns = fmax(micro_batch_bound_ns, (longer - *ns) / (more - few));
    }
    *ns += (c->micro_batches - few) * *per_micro_batch_ns;
out:
    return rc;
}

/* Returns whether the search found the stages, because pp does not divide the layers. */
static bool is_uneven(const struct bb_layout_choice *c)
{
    return c->first_layers || c->last_layers || c->pipeline_layout[0];
}

/* Returns the number of layers of the longest stage of a layout with one chunk per stage. */
static int longest_stage(const struct work *w, const struct bb_layout_choice *c)
{
    const struct bb_transformer_options o = bb_layouts_config(w->search->config, c).transformer;
    const struct bb_pipe_split split = {w->arch->layers, c->pp, 1, o.first_layers, o.last_layers, o.pipeline_layout};
    int longest = 0, first;

    for (int stage = 0; stage < c->pp; stage++) {
        const int layers = bb_pipe_split_layers(&split, stage, &first);

        longest = layers > longest ? layers : longest;
    }
    return longest;
}

/* Returns the base layout of a layout: 1f1b with one chunk per stage, and the same number of recomputed layers per
 * stage, at most all of them. */
static struct bb_layout_choice base_of(const struct work *w, struct bb_layout_choice c)
{
    const struct bb_transformer_options *given = &w->search->given->transformer;
    const bool uneven = given->pipeline_layout || is_uneven(&c);
    const struct bb_pipe_split split = {.layers = w->arch->layers, .stages = c.pp, .chunks = 1};
    int longest;

    c.schedule = BB_1F1B;
    c.recompute_layers *= c.vpp;
    if (c.vpp > 1 && uneven) {
        c.vpp = 1;
        if (given->pipeline_layout)
            bb_pipe_layout_suggest(&split, w->arch->mtp, c.pipeline_layout);
        else
            bb_layout_divide(given, w->arch, &c);
        longest = longest_stage(w, &c);
        c.recompute_layers = c.recompute_layers < longest ? c.recompute_layers : longest;
    }
    c.vpp = 1;
    return c;
}

static int compare_choices(const void *a, const void *b)
{
    const struct base *x = a, *y = b;

    return memcmp(&x->choice, &y->choice, sizeof(x->choice));
}

static int find_base(const struct work *w, const struct bb_layout_choice *c)
{
    const struct base key = {.choice = base_of(w, *c)};
    const struct base *found = bsearch(&key, w->bases, (size_t)w->n_bases, sizeof(*w->bases), compare_choices);

    return (int)(found - w->bases);
}

/* Returns whether one of two layouts shards the parameters: frozen parameters then have other kernels. */
static bool differ_in_sharding(const struct bb_layout_choice *a, const struct bb_layout_choice *b)
{
    return bb_sync_gathers_parameters(a->sync) != bb_sync_gathers_parameters(b->sync);
}

/* Returns whether the lower bounds of base layout a are also valid for base layout b, which follows a in the sorted
 * list. They are valid if a and b are equal except for the gradient synchronization (dp-sync), with or without sharded parameters, and
 * the number of recomputed layers, and b recomputes at least as many layers as a. */
static bool have_same_compute(const struct bb_layout_choice *a, const struct bb_layout_choice *b)
{
    struct bb_layout_choice same = *b;

    same.sync = a->sync;
    if (a->recompute_layers > 0 && b->recompute_layers >= a->recompute_layers)
        same.recompute_layers = a->recompute_layers;
    return memcmp(a, &same, sizeof(same)) == 0;
}

/* Stores in w->bases, sorted and without duplicates, the base layouts (1f1b, one chunk per stage) of the layouts in
 * w->rows. */
static void list_bases(struct work *w)
{
    BB_NEW(w->bases, w->n);
    for (int i = 0; i < w->n; i++)
        w->bases[i].choice = base_of(w, w->rows[i].choice);
    qsort(w->bases, (size_t)w->n, sizeof(*w->bases), compare_choices);
    for (int i = 0; i < w->n; i++)
        if (i == 0 || compare_choices(&w->bases[w->n_bases - 1], &w->bases[i]) != 0)
            w->bases[w->n_bases++] = w->bases[i];
    for (int i = 0; i < w->n; i++)
        w->rows[i].base = find_base(w, &w->rows[i].choice);
    for (int i = 0; i < w->n_bases; i++)
        w->bases[i].factor = 1 + penalty_of(w, &w->bases[i].choice);
}

/* Returns the smaller of the two numbers of micro-batches from which extrapolate() estimates a step time. Without a
 * pipeline the number is 2, because a step with a single micro-batch does not accumulate gradients. */
static int few_micro_batches(const struct bb_layout_choice *c)
{
    return c->pp > 1 ? 1 : 2;
}

/* Returns the first base layout that differs from `base` at most in the kind of a gradient synchronization that happens
 * once per step. */
static const struct base *leader_of(const struct work *w, const struct base *base)
{
    const struct base *leader = base;

    for (const struct base *b = base; bb_sync_reduces_once(base->choice.sync) && b >= w->bases; b--) {
        struct bb_layout_choice same = b->choice;

        same.sync = base->choice.sync;
        if (memcmp(&same, &base->choice, sizeof(same)) != 0)
            break;
        leader = bb_sync_reduces_once(b->choice.sync) ? b : leader;
    }
    return leader;
}

/* Estimates the step time of a base layout from simulations; per_micro_batch_ns: as in extrapolate(). */
static void estimate_base(struct work *w, struct base *base, double per_micro_batch_ns)
{
    const struct bb_layout_choice *c = &base->choice;
    const int few = few_micro_batches(c);
    const double bound_ns = base->max_rank_bound_ns / c->micro_batches, added_ns = fmax(bound_ns, per_micro_batch_ns);
    /* the most that estimate_ns() subtracts */
    const double most_ns = (c->pp - 1) * added_ns + base->max_rank_bound_ns - base->mean_rank_bound_ns;
    const double limit_ns = c->micro_batches - few >= c->pp - 1 ? w->limit_ns / base->factor + most_ns : INFINITY;

    base->per_micro_batch_ns = per_micro_batch_ns;
    base->rc = few * bound_ns + (c->micro_batches - few) * added_ns > limit_ns
                   ? TOO_SLOW
                   : extrapolate(w, c, few, few + 1, added_ns, limit_ns, &base->step_ns, &base->per_micro_batch_ns);
    base->known = base->rc != TOO_SLOW;
}

static void estimate_leader(void *arg, int i)
{
    struct work *w = arg;
    struct base *base = &w->bases[w->work_list[i]];

    if (leader_of(w, base) == base)
        estimate_base(w, base, 0);
}

/* The leader of base layout i was handled before. */
static void estimate_follower(void *arg, int i)
{
    struct work *w = arg;
    struct base *base = &w->bases[w->work_list[i]];
    const struct base *leader = leader_of(w, base);

    if (leader != base)
        estimate_base(w, base, leader->known && leader->rc == 0 ? leader->per_micro_batch_ns : 0);
}

/* Computes the kernel time of the first micro-batch on each rank, in ns, without launch overhead and waiting. most_ns:
 * out, maximum over the ranks; mean_ns: out, mean over the ranks. */
static void sum_kernel_times(const struct bb_step *step, const struct bb_cluster *cluster, double *most_ns,
                             double *mean_ns)
{
    double *ns;

    BB_NEW(ns, step->n_roles);
    *most_ns = *mean_ns = 0;
    for (int r = 0; r < step->n_roles; r++) {
        const struct bb_program *p = &step->roles[r].program;

        for (size_t i = 0; i < p->n_ops; i++)
            ns[r] += p->ops[i].micro_batch == 0 ? (double)bb_op_kernels_ns(cluster, &p->ops[i]) : 0;
        *most_ns = fmax(*most_ns, ns[r]);
    }
    for (int rank = 0; rank < step->layout.ranks; rank++)
        *mean_ns += ns[step->role_of[rank]] / step->layout.ranks;
    free(ns);
}

/* Sets both lower bounds on the step time for base layout w->work_list[i] and for the base layouts after it with the
 * same compute (have_same_compute). With simulated unequal load of the experts, the bounds stay 0. */
static void bound_bases(void *arg, int i)
{
    struct work *w = arg;
    struct base *first = &w->bases[w->work_list[i]];
    struct bb_step step = {0};
    double most_ns = 0, mean_ns = 0;
    int rc = -BB_EUSAGE;

    if (w->search->config->transformer.imbalance <= 0 || w->equalizes)
        rc = build_choice(w, &first->choice, few_micro_batches(&first->choice), &step);
    if (rc == 0)
        sum_kernel_times(&step, w->search->cluster, &most_ns, &mean_ns);
    first->rc = rc == -BB_EUSAGE ? 0 : rc; /* -BB_EUSAGE: the base layout is invalid, which estimate_base reports
                                              later */
    bb_step_release(&step);
    for (struct base *b = first; b < w->bases + w->n_bases; b++) {
        if (differ_in_sharding(&first->choice, &b->choice))
            continue;
        if (!have_same_compute(&first->choice, &b->choice))
            break;
        b->max_rank_bound_ns = b->choice.micro_batches * most_ns * w->fastest_rank_factor;
        b->mean_rank_bound_ns = b->choice.micro_batches * mean_ns * w->fastest_rank_factor;
    }
}

/* Returns the fraction of the 1f1b bubble that remains with the schedule: 1/chunks with interleaving; 1/3 with ZB-H1
 * (Qi et al., "Zero bubble pipeline parallelism", 2023), which fills two thirds with delayed weight gradients. */
static double bubble_left(const struct bb_layout_choice *c)
{
    return c->schedule == BB_INTERLEAVED ? 1.0 / c->vpp : c->schedule == BB_ZB_H1 ? 1.0 / 3 : 1;
}

static const struct base *base_of_row(const struct work *w, const struct bb_layout_row *row)
{
    return &w->bases[row->base];
}

static double lower_bound_ns(const struct base *base, const struct bb_layout_choice *c)
{
    return c->vpp > 1 ? base->mean_rank_bound_ns : base->max_rank_bound_ns;
}

/* Estimates the step time of a layout: the time of its base layout (1f1b, one chunk per stage), minus the share of
 * the pipeline bubble that the layout's schedule removes. With several chunks per stage, the estimate also subtracts
 * the compute by which the busiest rank exceeds the mean, because several chunks can distribute the layers more
 * evenly. */
static double estimate_ns(const struct base *base, const struct bb_layout_choice *c)
{
    const double bound_ns = lower_bound_ns(base, c);
    const double ns = base->step_ns - (c->pp - 1) * base->per_micro_batch_ns * (1 - bubble_left(c)) -
                      (base->max_rank_bound_ns - bound_ns);

    return fmax(ns, bound_ns);
}

/* Removes the layouts of w->rows that no simulation accepts (w->rc is -BB_EUSAGE) and those that are too slow to be
 * among the fastest (TOO_SLOW), and adds their numbers to the rejections of the search. invalid: the reason for layouts
 * that no simulation accepts. */
static int drop_rows(struct work *w, enum bb_rejection invalid)
{
    int kept = 0;

    for (int i = 0; i < w->n; i++) {
        if (w->rc[i] == -BB_EUSAGE)
            w->found->rejected[invalid]++;
        else if (w->rc[i] == TOO_SLOW)
            w->found->rejected[BB_REJECTED_SLOWER]++;
        else if (w->rc[i])
            return w->rc[i];
        else
            w->rows[kept++] = w->rows[i];
    }
    w->n = kept;
    return 0;
}

/* Sets step_ns of the layouts in w->rows to the estimate from the base layout (see the top of the file). Removes the
 * layouts whose base layout is invalid or was pruned. */
static int estimate_rows(struct work *w)
{
    for (int i = 0; i < w->n; i++) {
        const struct base *base = base_of_row(w, &w->rows[i]);

        w->rc[i] = base->known ? base->rc : TOO_SLOW;
        w->rows[i].step_ns = estimate_ns(base, &w->rows[i].choice);
    }
    return drop_rows(w, BB_REJECTED_SHAPE);
}

/* ---- pruning of base layouts ---- */

/* Returns the wanted-th shortest estimate of a grid, of the layouts whose base layout is already simulated; infinity if
 * there are fewer than `wanted` of them. */
static double find_cutoff(struct work *w, int wanted)
{
    forget_grid_estimates(w);
    for (int i = 0; i < w->n; i++) {
        const struct base *base = base_of_row(w, &w->rows[i]);

        if (base->known && base->rc == 0)
            add_grid_estimate(w, &w->rows[i], estimate_ns(base, &w->rows[i].choice));
    }
    return wanted_grid_ns(w, wanted);
}

static int list_compute_classes(struct work *w)
{
    int n = 0, last[2] = {-1, -1}; /* first base layout of the latest class of each software */

    for (int i = 0; i < w->n_bases; i++) {
        int *of = &last[bb_sync_gathers_parameters(w->bases[i].choice.sync)];

        if (*of < 0 || !have_same_compute(&w->bases[*of].choice, &w->bases[i].choice))
            w->work_list[n++] = *of = i;
    }
    return n;
}

/* Returns the lower bound of the layouts that share a base layout, with the penalty. */
static double ranked_bound_ns(const struct base *base)
{
    return base->mean_rank_bound_ns * base->factor;
}

/* Compares two indices in `bases` for qsort_r: by ranked_bound_ns of the base layouts, and if equal by index. */
static int compare_bounds(const void *a, const void *b, void *bases)
{
    const int x = *(const int *)a, y = *(const int *)b;
    const double x_ns = ranked_bound_ns((const struct base *)bases + x);
    const double y_ns = ranked_bound_ns((const struct base *)bases + y);

    return x_ns == y_ns ? x - y : (x_ns > y_ns) - (x_ns < y_ns);
}

/* Simulates base layouts in ascending order of their lower bounds, BASE_BATCH at a time, until the bound of the next
 * base layout exceeds the wanted-th shortest estimated step time. BASE_BATCH, and therefore the result, does not
 * depend on the number of threads. */
static int estimate_bases(struct work *w, int wanted)
{
    int *work_list, done = 0, n_classes, rc = 0;

    BB_NEW(w->work_list, w->n_bases);
    work_list = w->work_list;
    n_classes = list_compute_classes(w);
    begin_stage(w,
                w->search->given->transformer.tp ? "stage 2 of 4, estimates"
                                                 : "stage 2 of 4, estimates (faster with a given --tp)",
                n_classes + 2 * w->n_bases);
    run_speculatively(w, n_classes, bound_bases);
    for (int i = 0; i < n_classes; i++)
        TRY(w->bases[work_list[i]].rc);
    for (int i = 0; i < w->n_bases; i++)
        work_list[i] = i;
    qsort_r(work_list, (size_t)w->n_bases, sizeof(*work_list), compare_bounds, w->bases);
    while (done < w->n_bases) {
        const int round = w->n_bases - done < BASE_BATCH ? w->n_bases - done : BASE_BATCH;

        w->limit_ns = find_cutoff(w, wanted);
        if (ranked_bound_ns(&w->bases[work_list[done]]) > w->limit_ns)
            break;
        w->work_list = work_list + done;
        run_speculatively(w, round, estimate_leader);
        run_speculatively(w, round, estimate_follower);
        done += round;
    }
    w->work_list = work_list;
    w->limit_ns = INFINITY;
out:
    return rc;
}

/* ---- second and third stage: simulation of the best layouts ---- */

/* Extrapolates the step time of a layout from two steps of few micro-batches; bound_ns, limit_ns: as in extrapolate(). */
static int simulate_row(const struct work *w, double bound_ns, double limit_ns, struct bb_layout_row *row)
{
    /* with few stages, the difference between steps of pp and 2 pp micro-batches is too inexact (test_search_bounds) */
    const int pp = row->choice.pp, few = pp > 4 ? pp : pp > 1 ? 2 * pp : 2;
    double per_micro_batch_ns = 0;

    return extrapolate(w, &row->choice, few, few + (pp > 1 ? pp : 1), bound_ns / row->choice.micro_batches, limit_ns,
                       &row->step_ns, &per_micro_batch_ns);
}

static void refine_row(void *arg, int i)
{
    struct work *w = arg;
    const int at = w->first + i;
    struct bb_layout_row *row = &w->rows[at];
    const double bound_ns = lower_bound_ns(base_of_row(w, row), &row->choice);
    /* only the fastest of a grid is reported */
    const double limit_ns = fmin(w->limit_ns, w->grid_ns[row->grid]) / (1 + row->penalty);
    const bool too_slow = bound_ns > limit_ns || ((at >= ALL_REFINED || is_uneven(&row->choice)) &&
                                                  row->step_ns * w->least_ratio > ESTIMATE_ERROR * limit_ns);
    const double estimate_ns = row->step_ns;

    w->rc[at] = too_slow ? TOO_SLOW : simulate_row(w, bound_ns, limit_ns, row);
    w->ratio[at] = w->rc[at] == 0 ? row->step_ns / estimate_ns : INFINITY;
}

/* Simulates a step of a layout with n micro-batches and sets the results of *row. rank: the rank whose times they are;
 * BB_NONE: the slowest. */
static int predict_step(const struct work *w, int n, int rank, struct bb_layout_row *row)
{
    const struct bb_cluster *cluster = w->search->cluster;
    const struct bb_predicted_rank *slowest;
    struct bb_step step = {0};
    struct bb_prediction p = {0};
    int64_t baseline_ns = 0;
    int rc;

    TRY(build_choice(w, &row->choice, n, &step));
    TRY(bb_predict_step(&step, cluster, w->search->conditions, &p));
    slowest = &p.classes[rank == BB_NONE ? p.slowest : p.class_of[rank]];
    row->rank = slowest->rank;
    row->step_ns = (double)p.step_ns;
    row->compute_ns = (double)slowest->all.compute_ns;
    row->launch_wait_ns = cluster->eager ? fmin((double)p.launch_wait_ns, row->compute_ns) : 0;
    row->transfer_ns = (double)slowest->exposed.transfer_ns;
    row->bubble_ns = (double)slowest->exposed.bubble_ns;
    row->waiting_ns = (double)slowest->exposed.waiting_ns;
    row->flops = bb_step_flops(&step);
    row->utilisation = bb_predicted_utilisation(&step, &p);
    row->causal_share = bb_step_causal_share(&step);
    row->flops_note = bb_step_flops_note(&step);
    row->operations = bb_step_operations(&step);
    row->tokens = step.tokens;
    row->samples = step.samples;
    if (w->search->conditions->slow.n > 0)
        TRY(bb_predict_step_ns(&step, cluster, NULL, &baseline_ns));
    row->baseline_ns = (double)baseline_ns;
out:
    bb_prediction_release(&p);
    bb_step_release(&step);
    return rc;
}

static int count_operations(const struct work *w, const struct bb_layout_choice *c, int n, double *operations)
{
    struct bb_step step = {0};
    const int rc = build_choice(w, c, n, &step);

    *operations = rc ? 0 : bb_step_operations(&step);
    bb_step_release(&step);
    return rc;
}

/* Sets the results of *row, of a step with n micro-batches, from those of shorter steps. */
static void extrapolate_results(const struct bb_layout_row *few, int n_few, const struct bb_layout_row *more,
                                int n_more, int n, struct bb_layout_row *row)
{
    static const size_t at[] = {
#define AT(name) offsetof(struct bb_layout_row, name)
        AT(step_ns),    AT(compute_ns), AT(transfer_ns), AT(bubble_ns), AT(waiting_ns),    AT(flops),
        AT(operations), AT(tokens),     AT(baseline_ns), AT(samples),   AT(launch_wait_ns)};

    *row = *more;
    for (size_t i = 0; i < sizeof(at) / sizeof(at[0]); i++) {
        const double *a = (const void *)((const char *)few + at[i]), *b = (const void *)((const char *)more + at[i]);
        double *out = (void *)((char *)row + at[i]);

        *out = fmax(0, *b + (*b - *a) / (n_more - n_few) * (n - n_more));
    }
    row->utilisation *= row->flops / row->step_ns / (more->flops / more->step_ns);
}

/* Returns whether a step of row i is so long that its results are extrapolated. Sets w->rc[i]. */
static bool is_long(struct work *w, int i)
{
    const struct bb_layout_choice *c = &w->rows[i].choice;
    const int n_few = 2 * c->pp;
    double operations = 0;

    w->rc[i] = c->micro_batches > 6 * c->pp ? count_operations(w, c, n_few, &operations) : 0;
    return w->rc[i] == 0 && operations / w->search->config->ranks * c->pp * c->micro_batches / n_few > LONG_STEP;
}

static void predict_row(void *arg, int i)
{
    struct work *w = arg;
    struct bb_layout_row *row = &w->rows[i], few = *row, more = *row;
    const struct bb_proxy_config config = bb_layouts_config(w->search->config, &row->choice);
    const int n = row->choice.micro_batches, n_few = 2 * row->choice.pp, n_more = 3 * row->choice.pp;

    row->tp_comm_overlap = more.tp_comm_overlap = config.transformer.tp_overlap;
    row->overlap_param_gather = more.overlap_param_gather = config.sync.overlap_param_gather;
    row->precision_aware = more.precision_aware = config.sync.precision_aware;
    row->extrapolated = more.extrapolated = is_long(w, i);
    if (row->extrapolated) {
        w->rc[i] = predict_step(w, n_more, BB_NONE, &more);
        w->rc[i] = w->rc[i] ? w->rc[i] : predict_step(w, n_few, more.rank, &few);
        extrapolate_results(&few, n_few, &more, n_more, n, row);
    } else if (w->rc[i] == 0) {
        w->rc[i] = predict_step(w, n, BB_NONE, row);
    }
}

/* Simulates the first layout in full, too: its parts are printed with the command that plans it. Keeps the results of shorter
 * steps if the step has too many operations. */
static void predict_first(void *arg, int i)
{
    struct work *w = arg;
    struct bb_layout_row full = w->rows[i];

    w->rows[i].extrapolated = false;
    full.extrapolated = false;
    if (predict_step(w, full.choice.micro_batches, BB_NONE, &full) == 0)
        w->rows[i] = full;
}

static int compare_rows(const void *a, const void *b)
{
    const struct bb_layout_row *x = a, *y = b;
    const double x_ns = bb_layouts_ranked_ns(x), y_ns = bb_layouts_ranked_ns(y);

    if (x_ns != y_ns)
        return x_ns < y_ns ? -1 : 1;
    return x->number - y->number;
}

/* Returns the number of the first n layouts of w->rows in the grid of `row`; of_schedule: with its schedule. */
static int count_of_grid(const struct work *w, int n, const struct bb_layout_row *row, bool of_schedule)
{
    int count = 0;

    for (int i = 0; i < n; i++) {
        const struct bb_layout_row *other = &w->rows[i];

        count += other->grid == row->grid &&
                 (!of_schedule || (other->choice.schedule == row->choice.schedule &&
                                   other->choice.vpp == row->choice.vpp && other->choice.batch == row->choice.batch));
    }
    return count;
}

/* Sorts the first w->n layouts in w->rows by step time with the penalty and keeps the `max` fastest, at most of_grid of each grid and
 * of_schedule of each schedule in a grid (reduces w->n). */
static void keep_fastest(struct work *w, int max, int of_grid, int of_schedule)
{
    int kept = 0;

    qsort(w->rows, (size_t)w->n, sizeof(*w->rows), compare_rows);
    for (int i = 0; i < w->n && kept < max; i++)
        if (count_of_grid(w, kept, &w->rows[i], false) < of_grid &&
            count_of_grid(w, kept, &w->rows[i], true) < of_schedule)
            w->rows[kept++] = w->rows[i];
    w->found->rejected[BB_REJECTED_SLOWER] += w->n - kept;
    w->n = kept;
}

/* Replaces the recomputation of a layout by that of the other kind if the step is shorter: the kernels of both were
 * compared (try_memory), not their communication. */
static void try_other_recompute(void *arg, int i)
{
    struct work *w = arg;
    struct bb_layout_row *row = &w->rows[i], other = *row;
    struct bb_recompute_candidate found[2];
    const bool layers = row->choice.recompute != BB_RECOMPUTE_FULL;

    if (w->space->n_recomputes == 1 || row->choice.recompute == BB_RECOMPUTE_NONE)
        return;
    memset(other.choice.modules, 0, sizeof(other.choice.modules));
    other.choice.recompute_layers = 0;
    w->rc[i] = compute_fixed_bytes(w, &other);
    w->rc[i] = w->rc[i] ? w->rc[i] : find_recompute(w, &other.choice, other.bytes, found);
    if (w->rc[i] || isinf(found[layers].ns))
        return;
    set_recompute(&other, &found[layers]);
    w->rc[i] = simulate_row(w, 0, INFINITY, &other);
    if (w->rc[i] == 0 && other.step_ns < row->step_ns)
        *row = other;
}

/* Removes the overlap of tensor parallelism from a layout if the step is shorter without. */
static void try_without_overlap(void *arg, int i)
{
    struct work *w = arg;
    struct bb_layout_row *row = &w->rows[i], other = *row;

    if (!row->choice.tp_overlap || w->search->given->transformer.tp_overlap)
        return;
    other.choice.tp_overlap = 0;
    w->rc[i] = simulate_row(w, 0, INFINITY, &other);
    if (w->rc[i] == 0 && other.step_ns < row->step_ns)
        *row = other;
}

/* Finds the recomputation of a layout with the unequal load of its experts, and if it differs, its time with equal load. */
static void refit_row(void *arg, int i)
{
    struct work *w = arg;
    struct bb_layout_row *row = &w->rows[i];
    const struct bb_layout_choice before = row->choice;

    if (!w->equalizes)
        return;
    w->rc[i] = refit_load(w, row);
    if (w->rc[i] == 0 && memcmp(&before, &row->choice, sizeof(before)) != 0)
        w->rc[i] = simulate_row(w, 0, INFINITY, row);
}

/* Simulates the layouts of the second search stage, ROW_BATCH at a time. Stops the simulation of a layout as soon as
 * it cannot be the fastest of one of the `wanted` fastest grids. */
static int refine_rows(struct work *w, int wanted)
{
    begin_stage(w, "stage 3 of 4, steps of few micro-batches", 2 * w->n); /* each row also by try_unequal_load */
    w->least_ratio = 1;
    forget_grid_estimates(w);
    for (w->first = 0; w->first < w->n; w->first += ROW_BATCH) {
        const int round = w->n - w->first < ROW_BATCH ? w->n - w->first : ROW_BATCH;

        run_speculatively(w, round, refine_row);
        forget_grid_estimates(w);
        for (int i = 0; i < w->first + round; i++) {
            w->least_ratio = fmin(w->least_ratio, w->ratio[i]);
            if (w->rc[i] == 0)
                add_grid_estimate(w, &w->rows[i], w->rows[i].step_ns);
        }
        w->limit_ns = wanted_grid_ns(w, wanted);
    }
    return drop_rows(w, BB_REJECTED_SIZE);
}

/* Rejects parallel sizes set by the user whose product does not divide the number of ranks, and --recompute-num-layers
 * without full recomputation. */
static int validate_given(const struct bb_layout_search *s)
{
    const struct bb_transformer_options *o = &s->given->transformer;
    const struct {
        const char *option;
        int value;
    } given[] = {{"tp", o->tp}, {"cp", o->cp}, {"pp", o->pp}, {"dp", o->dp}};
    const int ranks = s->config->ranks;
    char divided[100] = "", quotient[20] = "";
    int left = ranks, length = 0;

    if (o->recompute_layers && (!o->recompute || strcmp(o->recompute, bb_recompute_names[BB_RECOMPUTE_FULL]) != 0))
        return bb_err(BB_EUSAGE, "%s: --recompute-num-layers %d requires --recompute full; try: --recompute full",
                      s->proxy->name, o->recompute_layers);
    for (size_t i = 0; i < sizeof(given) / sizeof(given[0]); i++) {
        int nearest = given[i].value < left ? given[i].value : left;

        if (given[i].value <= 1)
            continue;
        while (left % nearest != 0)
            nearest--;
        if (nearest != given[i].value)
            return bb_err(BB_EUSAGE, "%s: --%s %d does not divide the %d ranks%s%s; try: --%s %d", s->proxy->name,
                          given[i].option, given[i].value, ranks, divided, quotient, given[i].option, nearest);
        left /= nearest;
        length += snprintf(divided + length, sizeof(divided) - (size_t)length, " / %s %d", given[i].option, nearest);
        snprintf(quotient, sizeof(quotient), " = %d", left);
    }
    return 0;
}

/* Returns the state of a search for other options, to be started by begin_trial. */
static struct work trial_of(const struct work *w, const struct bb_layout_search *search, struct bb_layout_space *space)
{
    return (struct work){.search = search, .space = space, .arch = w->arch, .progress = w->progress, .loads = w->loads};
}

/* Lists the layouts of w->search in *space, which is that of w. end_trial frees them. */
static void begin_trial(struct work *w, struct bb_layout_space *space)
{
    bb_layout_space_init(space, w->search, w->arch);
    w->equalizes = may_equalize(w->search); /* the ranks may be others, too */
    list_loads(w);
    BB_NEW(w->rows, space->n);
    BB_NEW(w->rc, space->n);
    BB_NEW(w->unfit, space->n);
    begin_stage(w, "memory with other options", space->n);
}

static void end_trial(struct work *w, struct bb_layout_space *space)
{
    free(w->rows);
    free(w->rc);
    free(w->unfit);
    bb_layout_space_release(space);
}

/* Returns the configuration of a trial, with the software that is the default of its --dp-sync. */
static struct bb_proxy_config config_of_trial(const struct work *w, const struct bb_proxy_config *given,
                                              const struct bb_proxy_config *config)
{
    struct bb_proxy_config changed = *config;

    if (!given->transformer.sync && w->search->free_software)
        changed.transformer.software = w->search->free_software;
    return changed;
}

/* Returns whether layouts are valid with other options; in_memory: whether one of them fits into GPU memory, too.
 * given, config: as in struct bb_layout_search */
static bool has_layouts(const struct work *w, const struct bb_proxy_config *given, const struct bb_proxy_config *config,
                        bool in_memory)
{
    struct bb_layout_search search = *w->search;
    struct bb_layout_space space;
    struct work other = trial_of(w, &search, &space);
    const struct bb_proxy_config changed = config_of_trial(w, given, config);
    bool found = false;

    search.given = given;
    search.config = &changed;
    begin_trial(&other, &space);
    try_memory_of_all(&other, other.equalizes ? space.n + 1 : 1); /* equal load alone may fit */
    bb_err_speculative(true);
    for (int i = 0; i < space.n && !found; i++)
        found = in_memory ? fits(&other, i) : other.rc[i] == 0;
    bb_err_speculative(false);
    end_trial(&other, &space);
    return found;
}

/* The options that a search keeps if they are given, in the order in which it suggests to leave one out. */
static const char *const kept_names[] = {
    "recompute-num-layers", "recompute", "vpp", "schedule", "dp-sync", "ep", "cp", "pp", "tp", "dp",
    "micro-batch-size"};
enum { KEPT = sizeof(kept_names) / sizeof(kept_names[0]) };

/* Clears kept option i in *given and appends its text, for example " --tp 2". Returns false if it is not given. */
static bool clear_kept(struct bb_proxy_config *given, int i, char text[BB_KEPT_TEXT])
{
    static const struct bb_opt_table tables[] = {BB_STEP_TABLES(0), {0}};
    size_t at, length = strlen(text);
    const struct bb_opt *opt =
        bb_opts_find(&(struct bb_opts){.tables = tables}, 0, kept_names[i], strlen(kept_names[i]), &at);
    const bool is_text = opt->kind == BB_OPT_CHOICE;
    void *field = (char *)given + at;
    const char *word = is_text ? *(const char **)field : NULL;
    const int value = is_text ? 0 : *(int *)field;

    if (!word && !value)
        return false;
    if (word)
        snprintf(text + length, BB_KEPT_TEXT - length, " --%s %s", kept_names[i], word);
    else
        snprintf(text + length, BB_KEPT_TEXT - length, " --%s %d", kept_names[i], value);
    memset(field, 0, is_text ? sizeof(word) : sizeof(value));
    return true;
}

/* Returns a configuration without all kept options. text: out: those that were given; empty: none. */
static struct bb_proxy_config clear_all_kept(const struct bb_proxy_config *given, char text[BB_KEPT_TEXT])
{
    struct bb_proxy_config cleared = *given;

    text[0] = '\0';
    for (int i = 0; i < KEPT; i++)
        clear_kept(&cleared, i, text);
    return cleared;
}

/* Writes the given option to leave out so that layouts are valid or, with in_memory, fit. Returns whether there is one. */
static bool suggest_leaving_out(const struct work *w, bool in_memory, char text[BB_KEPT_TEXT])
{
    for (int i = 0; i < KEPT; i++) {
        struct bb_proxy_config given = *w->search->given;

        snprintf(text, BB_KEPT_TEXT, "leave out");
        if (clear_kept(&given, i, text) && has_layouts(w, &given, w->search->config, in_memory))
            return true;
    }
    return false;
}

enum { ADVICE_TEXT = 2 * BB_KEPT_TEXT }; /* bytes of an advice, which may contain all given options */

/* Appends options with which a layout fits in addition to the given ones. Returns whether there are such options. */
static bool suggest_saving(const struct work *w, const struct bb_proxy_config *given, char text[ADVICE_TEXT])
{
    const char *sync = given->transformer.sync;
    const bool may_shrink = !given->sync.grad_dtype;
    const bool may_offload = !given->sync.cpu_offload && bb_sync_uses_adam(&given->sync) &&
                             w->search->cluster->pcie_gbps > 0 && w->search->cluster->models_training &&
                             (!sync || strcmp(sync, bb_sync_names[BB_SYNC_DISTRIBUTED]) == 0);
    const size_t length = strlen(text);

    for (int saving = 1; saving <= 3; saving++) {
        const bool shrinks = saving & 1, offloads = saving & 2;
        struct bb_proxy_config other = *given, config = *w->search->config;

        if ((shrinks && !may_shrink) || (offloads && !may_offload))
            continue;
        other.transformer.sync = offloads ? bb_sync_names[BB_SYNC_DISTRIBUTED] : sync;
        config.sync.precision_aware |= offloads;
        config.sync.cpu_offload |= offloads;
        config.sync.grad_dtype = shrinks ? "bfloat16" : config.sync.grad_dtype;
        other.sync = config.sync;
        snprintf(text + length, ADVICE_TEXT - length, "try:%s%s", shrinks ? " --grad-dtype bfloat16" : "",
                 offloads ? " --dp-sync distributed --use-precision-aware-optimizer --optimizer-cpu-offload" : "");
        if (has_layouts(w, &other, &config, true))
            return true;
    }
    text[length] = '\0';
    return false;
}

/* Prints why the proxy rejects the first layout, and returns -BB_EUSAGE. Returns 0 if the proxy does not. */
static int report_reason(const struct work *w)
{
    const struct bb_layout_choice *c = &w->rows[0].choice;
    struct bb_step step = {0};
    int rc = build_choice(w, c, c->micro_batches, &step);

    bb_step_release(&step);
    return rc;
}

#define MAX_BATCH 1000000000 /* of --global-batch-size */

struct batches {
    int below, above; /* 0: none */
};

/* Returns whether layout i of the list is valid with a global batch size and, with in_memory, fits into GPU memory. */
static bool is_valid_with(struct work *w, int i, long long batch, bool in_memory)
{
    struct bb_layout_choice *c = &w->space->list[i];
    const long long n = batch / ((long long)c->dp * c->batch);

    if (batch <= 0 || batch > MAX_BATCH || n > BB_MAX_LAYERS)
        return false;
    c->micro_batches = (int)n;
    try_memory(w, i);
    if (in_memory && may_add_optimizer(w))
        try_precision_aware(w, i);
    return in_memory ? fits(w, i) : w->rc[i] == 0;
}

/* Returns the nearest global batch sizes below and above the given one with which a layout is valid and, with in_memory,
 * fits into GPU memory. w: a search with a global batch size that suits each layout. */
static struct batches find_nearest(struct work *w, int given, bool in_memory)
{
    struct batches found = {0};

    bb_err_speculative(true);
    for (int i = 0; i < w->space->n; i++) {
        const struct bb_layout_choice *c = &w->space->list[i];
        const long long unit = (long long)c->dp * c->batch * (c->schedule == BB_INTERLEAVED ? c->pp : 1);
        const long long below = given / unit * unit, above = below + unit;

        if (below > found.below && is_valid_with(w, i, below, in_memory))
            found.below = (int)below;
        if ((!found.above || above < found.above) && is_valid_with(w, i, above, in_memory))
            found.above = (int)above;
    }
    bb_err_speculative(false);
    return found;
}

/* Finds the nearest global batch sizes with which a layout fits or, with in_memory false, is only valid. */
static struct batches find_batches(const struct work *w, bool *in_memory)
{
    struct bb_proxy_config config = *w->search->config;
    struct bb_layout_search search = *w->search;
    struct bb_layout_space space;
    struct work other = trial_of(w, &search, &space);
    const int given = config.global_batch, largest = search.given->micro_batch_size;
    struct batches found;

    config.global_batch = (int)fmin((double)config.ranks * (largest ? largest : BB_MAX_MICRO_BATCH), MAX_BATCH);
    search.config = &config;
    begin_trial(&other, &space);
    found = find_nearest(&other, given, true);
    *in_memory = found.below || found.above;
    if (!*in_memory)
        found = find_nearest(&other, given, false);
    end_trial(&other, &space);
    return found;
}

/* Reports that no layout is valid: the nearest global batch sizes with which some are, or why the proxy rejects the first
 * one, or an option to leave out. */
static int report_invalid(const struct work *w)
{
    const struct bb_layout_search *s = w->search;
    const struct bb_transformer_options *t = &s->given->transformer;
    const struct bb_pipe_split split = {w->arch->layers, t->pp, 1, t->first_layers, t->last_layers, NULL};
    char suggestion[BB_KEPT_TEXT];
    bool in_memory;
    const struct batches near = find_batches(w, &in_memory);
    int length;

    if (near.below || near.above) {
        length = snprintf(suggestion, sizeof(suggestion),
                          in_memory ? "try: --global-batch-size %d" : "layouts are valid with %d",
                          near.below ? near.below : near.above);
        if (near.below && near.above)
            length += snprintf(suggestion + length, sizeof(suggestion) - (size_t)length, " or %d", near.above);
        if (!in_memory)
            snprintf(suggestion + length, sizeof(suggestion) - (size_t)length, ", but do not fit into GPU memory");
    } else if (w->space->n > 0 && report_reason(w))
        return -BB_EUSAGE;
    else if (t->pp > 1 && !t->vpp && !t->pipeline_layout &&
             bb_pipe_split_validate(&split, w->arch->mtp, "", s->proxy->name))
        return -BB_EUSAGE;
    else if (!suggest_leaving_out(w, false, suggestion))
        snprintf(suggestion, sizeof(suggestion), "to see the reason, plan a single layout without --best-layout");
    return bb_err(BB_EUSAGE, "%s: no valid layout for %d rank%s with global batch size %d and the given options; %s",
                  s->proxy->name, s->config->ranks, bb_plural(s->config->ranks), s->config->global_batch, suggestion);
}

/* Returns the smallest global batch size with which a layout fits into GPU memory; 0: none. Training needs the least memory
 * with as few micro-batches as the schedule allows. config: its batch suits each layout. */
static int find_smallest_batch(const struct work *w, const struct bb_proxy_config *given,
                               const struct bb_proxy_config *config)
{
    struct bb_proxy_config smallest = *given;
    struct bb_layout_search search = *w->search;
    struct bb_layout_space space;
    struct work other = trial_of(w, &search, &space);
    const struct bb_proxy_config changed = config_of_trial(w, given, config);
    long long found = 0;

    smallest.micro_batch_size = given->micro_batch_size ? given->micro_batch_size : 1;
    search.given = &smallest;
    search.config = &changed;
    begin_trial(&other, &space);
    for (int i = 0; i < space.n; i++)
        space.list[i].micro_batches = space.list[i].schedule == BB_INTERLEAVED ? space.list[i].pp : 1;
    try_memory_of_all(&other, other.equalizes ? space.n + 1 : 1); /* equal load alone may fit */
    bb_err_speculative(true);
    for (int i = 0; i < space.n; i++) {
        const struct bb_layout_choice *c = &space.list[i];
        const long long batch = (long long)c->dp * c->batch * c->micro_batches;

        if ((!found || batch < found) && fits(&other, i))
            found = batch;
    }
    bb_err_speculative(false);
    end_trial(&other, &space);
    return (int)found;
}

/* Returns a global batch size with which a layout fits on `ranks` ranks; 0: none. given: with a global batch size, only that
 * one; otherwise one micro-batch per rank, or the smallest one. */
static int find_fitting_batch(const struct work *w, const struct bb_proxy_config *given, int ranks)
{
    struct bb_proxy_config config = *w->search->config;
    const double each = given->micro_batch_size ? given->micro_batch_size : 1;
    int smallest;

    config.ranks = ranks;
    config.global_batch = given->global_batch ? given->global_batch : (int)fmin(ranks * each, MAX_BATCH);
    if (given->global_batch)
        return has_layouts(w, given, &config, true) ? given->global_batch : 0;
    smallest = find_smallest_batch(w, given, &config);
    return smallest && has_layouts(w, given, &config, true) ? config.global_batch : smallest;
}

#define MAX_NODE_COUNTS 32

/* Finds the first number of ranks from `ranks` on, in whole nodes, on which a layout fits, of the next MAX_NODE_COUNTS
 * numbers of nodes. fit: out: ranks, batch, last */
static void find_fitting_ranks(const struct work *w, const struct bb_proxy_config *given, int ranks,
                               struct bb_fitting *fit)
{
    const int node = w->search->config->gpus_per_node;

    ranks = ranks > node ? (ranks + node - 1) / node * node : ranks;
    for (int i = 0; i < MAX_NODE_COUNTS && !fit->ranks; i++, ranks += ranks < node ? 1 : node) {
        fit->last = ranks;
        fit->batch = find_fitting_batch(w, given, ranks);
        fit->ranks = fit->batch ? ranks : 0;
    }
}

/* Writes how training could fit: without one of the given options, with options that save memory, without the given
 * options and with such options, or on more ranks. */
static void suggest_fitting(const struct work *w, char text[ADVICE_TEXT])
{
    char given[BB_KEPT_TEXT];
    const struct bb_proxy_config cleared = clear_all_kept(w->search->given, given);
    struct bb_proxy_config any_batch = *w->search->given;
    struct bb_fitting fit = {0};
    size_t length;

    text[0] = '\0';
    if (suggest_leaving_out(w, true, text))
        return;
    text[0] = '\0';
    if (suggest_saving(w, w->search->given, text))
        return;
    snprintf(text, ADVICE_TEXT, "leave out%s; ", given);
    if (given[0] && (has_layouts(w, &cleared, w->search->config, true) || suggest_saving(w, &cleared, text))) {
        length = strlen(text);
        if (strcmp(text + length - 2, "; ") == 0)
            text[length - 2] = '\0';
        return;
    }
    find_fitting_ranks(w, w->search->given, w->search->config->ranks + 1, &fit);
    any_batch.global_batch = 0;
    if (!fit.ranks)
        find_fitting_ranks(w, &any_batch, w->search->config->ranks + 1, &fit);
    snprintf(
        text, ADVICE_TEXT,
        "neither recomputation nor --grad-dtype bfloat16 nor the optimizer (precision-aware, in host memory) saves "
        "enough; more ranks are needed%s%s",
        given[0] ? " with" : "", given);
    length = strlen(text);
    if (fit.ranks)
        snprintf(text + length, ADVICE_TEXT - length, "; try: --ranks %d --global-batch-size %d", fit.ranks, fit.batch);
}

static int report_none(const struct work *w, const struct bb_layout_row *smallest)
{
    char need[BB_BYTES_TEXT], have[BB_BYTES_TEXT], suggestion[ADVICE_TEXT];
    const struct bb_layout_search *s = w->search;

    if (!smallest)
        return report_invalid(w);
    if (smallest->bytes <= s->gpu_bytes)
        snprintf(suggestion, sizeof(suggestion), "less than --memory-margin would be free; try: --memory-margin 0%%");
    else
        suggest_fitting(w, suggestion);
    return bb_err(BB_EUSAGE,
                  "%s: no layout for %d rank%s fits into GPU memory: training needs at least %s (tp %d, cp %d, ep %d, "
                  "pp %d, micro-batch size %d, recompute %s, dp-sync %s%s), a GPU has %s; %s",
                  s->proxy->name, s->config->ranks, bb_plural(s->config->ranks),
                  bb_format_bytes_beside((size_t)smallest->bytes, (size_t)s->gpu_bytes, need), smallest->choice.tp,
                  smallest->choice.cp, smallest->choice.ep, smallest->choice.pp, smallest->choice.batch,
                  bb_recompute_names[smallest->choice.recompute], bb_sync_names[smallest->choice.sync],
                  smallest->choice.precision_aware ? ", precision-aware optimizer" : "",
                  bb_format_bytes((size_t)s->gpu_bytes, have), suggestion);
}

static int find_rows(struct work *w)
{
    const int grids = FULL_BEYOND_TOP + (w->search->top > MIN_GRIDS ? w->search->top : MIN_GRIDS);
    const struct bb_layout_row *smallest;
    int rc;

    list_loads(w);
    if (w->space->n_recomputes > 1)
        list_divisions(w);
    begin_stage(w, "stage 1 of 4, memory of all layouts", w->n_divisions + w->space->n);
    run_speculatively(w, w->n_divisions, compute_cost);
    w->found->added_optimizer = try_memory_of_all(w, REFINED_PER_GRID * grids);
    TRY(keep_fitting(w, &smallest));
    w->found->fitting = w->n;
    if (w->n == 0)
        return report_none(w, smallest);
    BB_NEW(w->grid_ns, w->n_grids);
    BB_NEW(w->sorted, w->n_grids);
    list_bases(w);
    TRY(estimate_bases(w, grids));
    TRY(estimate_rows(w));
    keep_fastest(w, REFINED_PER_GRID * grids, MAX_OF_GRID, MAX_OF_SCHEDULE);
    w->found->refined = w->n;
    TRY(refine_rows(w, grids));
    run_speculatively(w, w->n, try_unequal_load);
    TRY(drop_rows(w, BB_REJECTED_MEMORY));
    keep_fastest(w, grids, 1, 1);
    begin_stage(w, "stage 4 of 4, full steps", 5 * w->n); /* five times each row at most */
    run_speculatively(w, w->n, refit_row);
    TRY(drop_rows(w, BB_REJECTED_MEMORY));
    run_speculatively(w, w->n, try_other_recompute);
    TRY(drop_rows(w, BB_REJECTED_SIZE));
    run_speculatively(w, w->n, try_without_overlap);
    TRY(drop_rows(w, BB_REJECTED_SIZE));
    w->equalizes = false;
    run_speculatively(w, w->n, predict_row);
    TRY(drop_rows(w, BB_REJECTED_SIZE));
    keep_fastest(w, w->n, 1, 1);
    while (w->n > 0 && w->rows[0].extrapolated) { /* the full step may be longer than that of the next layout */
        run_speculatively(w, 1, predict_first);
        keep_fastest(w, w->n, 1, 1);
    }
    w->found->n = w->n;
    rc = w->n == 0 ? report_reason(w) : 0;
    if (w->n == 0 && rc == 0)
        rc = bb_err(BB_EUSAGE,
                    "%s: none of the %lld layouts that fit can be simulated with the given options; to see the reason, "
                    "plan a single layout without --best-layout",
                    w->search->proxy->name, w->found->fitting);
out:
    return rc;
}

/* Finds ranks and batch for bb_layouts_fitting_ranks. given: as in struct bb_layout_search, but with or without batch. */
static void find_ranks_and_batch(const struct work *w, const struct bb_proxy_config *given, int ranks,
                                 struct bb_fitting *fit)
{
    const struct bb_proxy_config *config = w->search->config;

    if (ranks <= config->ranks) {
        fit->batch =
            has_layouts(w, given, config, true) ? config->global_batch : find_fitting_batch(w, given, config->ranks);
        fit->ranks = fit->batch ? config->ranks : 0;
    }
    if (!fit->ranks)
        find_fitting_ranks(w, given, ranks > config->ranks ? ranks : config->ranks + 1, fit);
}

/* Finds a layout that fits without one of the given options, on the ranks of config, or without all of them. fit: out: ranks,
 * batch, without */
static void find_superfluous(const struct work *w, int ranks, struct bb_fitting *fit)
{
    const struct bb_proxy_config *config = w->search->config;
    char given[BB_KEPT_TEXT], one[BB_KEPT_TEXT], *omitted = one, *left, *word;
    struct bb_proxy_config cleared = clear_all_kept(w->search->given, given);
    struct bb_fitting without = {0};
    size_t length = 0;

    if (!given[0])
        return;
    if (ranks <= config->ranks && suggest_leaving_out(w, true, one)) {
        fit->ranks = config->ranks;
        fit->batch = config->global_batch;
    } else {
        omitted = given;
        cleared.global_batch = 0;
        find_ranks_and_batch(w, &cleared, ranks, &without);
        fit->ranks = without.ranks;
        fit->batch = without.batch;
    }
    for (word = strtok_r(omitted, " ", &left); word && fit->ranks; word = strtok_r(NULL, " ", &left))
        if (strncmp(word, "--", 2) == 0)
            length += (size_t)snprintf(fit->without + length, BB_KEPT_TEXT - length, " without %s", word);
}

/* Finds a layout that fits on the ranks of config with another micro-batch size than the given one. fit: out: as in
 * find_superfluous. */
static void find_micro_batch(const struct work *w, int ranks, struct bb_fitting *fit)
{
    const struct bb_proxy_config *config = w->search->config;
    struct bb_proxy_config other = *w->search->given;

    other.micro_batch_size = 0;
    if (!w->search->given->micro_batch_size || ranks > config->ranks ||
        has_layouts(w, w->search->given, config, true) || !has_layouts(w, &other, config, true))
        return;
    fit->ranks = config->ranks;
    fit->batch = config->global_batch;
    snprintf(fit->without, BB_KEPT_TEXT, " without --micro-batch-size");
}

int bb_layouts_fitting_ranks(const struct bb_layout_search *search, int ranks, struct bb_fitting *fit)
{
    struct bb_progress progress;
    struct bb_arch arch;
    struct work w = {.search = search, .progress = &progress, .arch = &arch};
    struct rank_loads loads = {0};
    struct bb_proxy_config any_batch = *search->given;
    int rc, length = 0;

    w.loads = &loads;
    *fit = (struct bb_fitting){0};
    any_batch.global_batch = 0;
    bb_progress_init(&progress, 0, search->quiet);
    TRY(bb_training_load_arch(search->config, &arch));
    find_micro_batch(&w, ranks, fit);
    if (!fit->ranks)
        find_ranks_and_batch(&w, search->given, ranks, fit);
    if (search->given->global_batch && fit->ranks)
        length = snprintf(fit->kept, BB_KEPT_TEXT, " --global-batch-size %d", search->given->global_batch);
    else if (search->given->global_batch)
        find_ranks_and_batch(&w, &any_batch, ranks, fit);
    clear_all_kept(search->given, fit->kept + length);
    if (!fit->ranks)
        find_superfluous(&w, ranks, fit);
    fit->nodes = fit->ranks > search->config->gpus_per_node ? fit->ranks / search->config->gpus_per_node : 0;
out:
    release_loads(&loads);
    bb_progress_end(&progress);
    return rc;
}

static double fastest_rank_factor(const struct bb_slow *slow)
{
    double smallest = 1;

    for (int i = 0; i < slow->n; i++)
        if (slow->items[i].kind == BB_SLOW_RANK && slow->items[i].factor < smallest)
            smallest = slow->items[i].factor;
    return smallest;
}

int bb_layouts_search(const struct bb_layout_search *search, struct bb_layouts *found)
{
    struct rank_loads loads = {0};
    struct bb_layout_space space = {0};
    struct bb_progress progress;
    struct bb_arch arch;
    struct work w = {.search = search,
                     .found = found,
                     .progress = &progress,
                     .arch = &arch,
                     .space = &space,
                     .limit_ns = INFINITY,
                     .equalizes = may_equalize(search),
                     .loads = &loads,
                     .fastest_rank_factor = fastest_rank_factor(&search->conditions->slow)};
    int rc;

    *found = (struct bb_layouts){.gpus = search->config->ranks,
                                 .gpu_bytes = search->gpu_bytes,
                                 .usable_bytes = search->usable_bytes,
                                 .penalized = search->penalizes};
    bb_progress_init(&progress, 0, search->quiet);
    TRY(validate_given(search));
    TRY(bb_training_load_arch(search->config, &arch));
    TRY(bb_grid_validate_ep(search->given->transformer.ep, arch.experts > 0, search->proxy->name));
    found->assumes_equal_load =
        arch.experts > 0 && search->config->transformer.capacity <= 0 && search->config->transformer.imbalance <= 0;
    found->given_modules = search->config->transformer.recompute_modules;
    found->subject = (struct bb_layout_subject){
        arch.experts, search->config->transformer.sequence > 0 ? search->config->transformer.sequence : arch.sequence,
        search->config->ranks > search->config->gpus_per_node};
    bb_layout_space_init(&space, search, &arch);
    found->evaluated = space.evaluated;
    memcpy(found->rejected, space.rejected, sizeof(found->rejected));
    BB_NEW(w.rows, space.n);
    BB_NEW(w.rc, space.n);
    BB_NEW(w.unfit, space.n);
    BB_NEW(w.ratio, space.n);
    found->rows = w.rows;
    rc = find_rows(&w);
out:
    bb_progress_end(&progress);
    release_loads(&loads);
    free(w.rc);
    free(w.unfit);
    free(w.ratio);
    free(w.divisions);
    free(w.bases);
    free(w.grid_ns);
    free(w.sorted);
    free(w.work_list);
    bb_layout_space_release(&space);
    return rc;
}

void bb_layouts_release(struct bb_layouts *found)
{
    free(found->rows);
    *found = (struct bb_layouts){0};
}
