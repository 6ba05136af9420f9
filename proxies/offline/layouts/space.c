/* space.c - lists the layouts to search (see space.h). Only values of tp, cp, pp and ep that divide the number of
 * ranks are listed. */
#include "proxies/offline/layouts/space.h"

#include "bootstrap/base/alloc.h"
#include "proxies/form/author/args.h"
#include "proxies/workloads/transformer/grid/grid.h"
#include "proxies/workloads/transformer/memory.h"

#include <stdlib.h>
#include <string.h>

#define MIN_TOKENS                                                                                                     \
    4096 /* minimum number of tokens of a sequence on each context-parallel rank, as in published steps */
#define MAX_CHUNKS 64
#define VALUES     64
#define MAX_UNEVEN_CHUNKS                                                                                              \
    4 /* model chunks per stage that are searched where pp does not divide the layers; bounds the search */
#define MAX_EXCESS                                                                                                     \
    1.1 /* longest chunk by the mean one; with more, the stages of shorter chunks idle in each micro-batch */

/* The possible values of one layout option, such as tp. */
struct values {
    int value[VALUES];
    int n;
};

static void add_value(struct values *v, int value)
{
    if (v->n < VALUES)
        v->value[v->n++] = value;
}

/* Returns the divisors of the number `of` up to `max`. If the user set the value (`given` is not 0), returns only
 * `given`, or nothing if `given` is not a divisor. */
static struct values divisors(int of, int max, int given)
{
    struct values v = {{0}, 0};

    for (int i = 1; i <= max && i <= of && !given; i++)
        if (of % i == 0)
            add_value(&v, i);
    if (given && of % given == 0)
        add_value(&v, given);
    return v;
}

/* ---- schedules ---- */

struct pipeline_schedule {
    enum bb_schedule_kind schedule;
    int vpp;
};

struct pipeline_schedules {
    struct pipeline_schedule list[MAX_CHUNKS + BB_SCHEDULES];
    int n;
};

/* Returns the pipeline schedules that are possible with pp stages and the options set by the user. Each schedule
 * contains the number of model chunks per stage. */
static struct pipeline_schedules list_schedules(const struct bb_transformer_options *o, int pp, int layers)
{
    int given = bb_args_index(o->schedule, bb_schedule_names, BB_SCHEDULES);
    struct pipeline_schedules w = {.n = 0};

    if (o->schedule && given != BB_INTERLEAVED) {
        if (o->vpp <= 1)
            w.list[w.n++] = (struct pipeline_schedule){(enum bb_schedule_kind)given, 1};
        return w;
    }
    if (!o->schedule && o->vpp <= 1)
        w.list[w.n++] = (struct pipeline_schedule){BB_1F1B, 1};
    for (int v = 2; v <= MAX_CHUNKS && v <= (layers + 2) / pp && pp > 1 && o->vpp == 0; v++)
        w.list[w.n++] = (struct pipeline_schedule){BB_INTERLEAVED, v};
    if (o->vpp > 1 && pp > 1)
        w.list[w.n++] = (struct pipeline_schedule){BB_INTERLEAVED, o->vpp};
    if (!o->schedule && o->vpp <= 1 && pp > 1)
        w.list[w.n++] = (struct pipeline_schedule){BB_ZB_H1, 1};
    return w;
}

/* ---- division of the layers ---- */

bool bb_layout_divide(const struct bb_transformer_options *given, const struct bb_arch *arch,
                      struct bb_layout_choice *c)
{
    const struct bb_pipe_split split = {arch->layers,          c->pp, c->vpp, given->first_layers, given->last_layers,
                                        given->pipeline_layout};
    const int parts = c->pp * c->vpp, modules = arch->layers + arch->mtp + 2; /* with embedding and head */
    const int longest = (modules + parts - 1) / parts * c->vpp;               /* of the stages of a pipeline layout */
    struct bb_pipe_split ends;
    bool has_layout;

    c->first_layers = c->last_layers = 0;
    memset(c->pipeline_layout, 0, sizeof(c->pipeline_layout));
    /* the rule of proxies/workloads/transformer/transformer.c */
    if (c->pp == 1 || bb_pipe_split_is_valid(&split))
        return true;
    if (split.first || split.last || split.layout || bb_grid_layers_divide(arch->layers, c->pp) ||
        (c->vpp > 1 && longest * c->pp > MAX_EXCESS * modules) || (c->vpp > MAX_UNEVEN_CHUNKS && !given->vpp))
        return false;
    has_layout = bb_pipe_layout_suggest(&split, arch->mtp, c->pipeline_layout);
    if (!bb_pipe_split_nearest(&split, &ends) || (has_layout && bb_pipe_split_longest(&ends, arch->mtp) > longest))
        return has_layout;
    memset(c->pipeline_layout, 0, sizeof(c->pipeline_layout));
    c->first_layers = ends.first;
    c->last_layers = ends.last;
    return true;
}

/* ---- layouts ---- */

struct listing {
    const struct bb_layout_search *search;
    const struct bb_arch *arch;
    struct bb_layout_space *space;
    struct values syncs, batches;
    bool needs_shards; /* the given --dp-sync shards: without replicas (dp x cp = 1) it would not */
    int sharding;      /* number of grids with replicas */
};

static void reject(struct listing *l, enum bb_rejection reason, long long choices)
{
    l->space->evaluated += choices * l->space->n_recomputes;
    l->space->rejected[reason] += choices * l->space->n_recomputes;
}

/* Returns whether the global batch size is divisible by dp x micro-batch size and yields enough micro-batches for
 * the schedule. Sets c->micro_batches. */
static bool batch_divides(const struct listing *l, struct bb_layout_choice *c)
{
    long long at_once = (long long)c->dp * c->batch, n = l->search->config->global_batch;

    if (n % at_once || n / at_once > BB_MAX_LAYERS)
        return false;
    c->micro_batches = (int)(n / at_once);
    return c->schedule != BB_INTERLEAVED ||
           (c->micro_batches >= c->pp && (c->micro_batches % c->pp == 0 || l->search->given->transformer.group > 0));
}

static void list_batches(struct listing *l, struct bb_layout_choice c)
{
    for (int b = 0; b < l->batches.n; b++) {
        c.batch = l->batches.value[b];
        if (!batch_divides(l, &c)) {
            reject(l, BB_REJECTED_BATCH, 1);
            continue;
        }
        l->space->evaluated += l->space->n_recomputes;
        BB_GROW(l->space->list, l->space->n);
        l->space->list[l->space->n++] = c;
    }
}

static void list_syncs(struct listing *l, struct bb_layout_choice c)
{
    /* with dp x cp = 1 there is no gradient synchronization, so all values of dp-sync are equivalent and only one is
     * listed: one that allows the precision-aware optimizer if that is given */
    const enum bb_sync_kind alone = l->search->given->sync.precision_aware ? BB_SYNC_DISTRIBUTED : BB_SYNC_ALL_REDUCE;

    /* zero2 reduces gradients in every micro-batch, for which no framework combines it with a pipeline */
    for (int s = 0; s < l->syncs.n; s++) {
        c.sync = (enum bb_sync_kind)l->syncs.value[s];
        if (l->syncs.n > 1 && ((c.dp * c.cp == 1 && c.sync != alone) || (c.pp > 1 && c.sync == BB_SYNC_ZERO2)))
            continue;
        list_batches(l, c);
    }
}

static void list_schedules_of(struct listing *l, struct bb_layout_choice c)
{
    const struct bb_transformer_options *o = &l->search->given->transformer;
    struct pipeline_schedules w = list_schedules(o, c.pp, l->arch->layers);

    for (int i = 0; i < w.n; i++) {
        c.schedule = w.list[i].schedule;
        c.vpp = w.list[i].vpp;
        if (bb_layout_divide(o, l->arch, &c))
            list_syncs(l, c);
        else
            reject(l, BB_REJECTED_SHAPE, (long long)l->syncs.n * l->batches.n);
    }
}

/* Lists the layouts for each valid expert parallel size ep: ep divides the number of experts, and ep x expert tensor
 * parallel size divides the number of ranks of a pipeline stage. */
static void list_experts(struct listing *l, struct bb_layout_choice c)
{
    const struct bb_transformer_options *o = &l->search->given->transformer;
    int inside = l->search->config->ranks / c.pp, experts = l->arch->experts > 0 ? l->arch->experts : 1;
    struct values eps = divisors(experts, inside / (o->etp > 0 ? o->etp : 1), o->ep);

    for (int i = 0; i < eps.n; i++) {
        c.ep = eps.value[i];
        if (inside % (c.ep * (o->etp > 0 ? o->etp : 1)) == 0)
            list_schedules_of(l, c);
    }
}

static void list_grids(struct listing *l)
{
    const struct bb_proxy_config *config = l->search->config;
    const struct bb_transformer_options *o = &l->search->given->transformer;
    int sequence = o->sequence ? o->sequence : l->arch->sequence, ranks = config->ranks;
    struct values tps = divisors(ranks, config->gpus_per_node, o->tp), cps, pps;
    struct bb_layout_choice c = {0};

    for (int t = 0; t < tps.n; t++) {
        c.tp = tps.value[t];
        c.tp_overlap = l->search->overlaps_tp && c.tp > 1;
        cps = divisors(ranks / c.tp, sequence < MIN_TOKENS ? 1 : sequence / MIN_TOKENS, o->cp);
        for (int k = 0; k < cps.n; k++) {
            c.cp = cps.value[k];
            pps = divisors(ranks / c.tp / c.cp, l->arch->layers, o->pp);
            for (int p = 0; p < pps.n; p++) {
                c.pp = pps.value[p];
                c.dp = ranks / c.tp / c.cp / c.pp;
                l->sharding += c.dp * c.cp > 1 && (!o->dp || o->dp == c.dp);
                if ((!o->dp || o->dp == c.dp) && (!l->needs_shards || c.dp * c.cp > 1))
                    list_experts(l, c);
            }
        }
    }
}

void bb_layout_space_init(struct bb_layout_space *space, const struct bb_layout_search *search,
                          const struct bb_arch *arch)
{
    static const int syncs[] = {BB_SYNC_ALL_REDUCE, BB_SYNC_ZERO1, BB_SYNC_ZERO2, BB_SYNC_ZERO3, BB_SYNC_DISTRIBUTED};
    static const int batches[] = {1, 2, 4, BB_MAX_MICRO_BATCH};
    const struct bb_proxy_config *c = search->given;
    const char *recompute = c->transformer.recompute           ? c->transformer.recompute
                            : c->transformer.recompute_modules ? bb_recompute_names[BB_RECOMPUTE_SELECTIVE]
                                                               : NULL;
    struct listing l = {.search = search, .arch = arch, .space = space};

    *space = (struct bb_layout_space){0};
    for (int r = 0; r < BB_RECOMPUTES; r++)
        if (recompute ? r == bb_args_index(recompute, bb_recompute_names, 0) : r != BB_RECOMPUTE_OPS)
            space->recomputes[space->n_recomputes++] = r;
    for (size_t i = 0; i < sizeof(syncs) / sizeof(syncs[0]) && !c->transformer.sync; i++)
        if (bb_sync_accepts_optimizer(&c->sync, (enum bb_sync_kind)syncs[i]))
            add_value(&l.syncs, syncs[i]);
    if (c->transformer.sync)
        add_value(&l.syncs, bb_args_index(c->transformer.sync, bb_sync_names, 0));
    for (size_t i = 0; i < sizeof(batches) / sizeof(batches[0]) && !c->micro_batch_size; i++)
        add_value(&l.batches, batches[i]);
    if (c->micro_batch_size)
        add_value(&l.batches, c->micro_batch_size);
    l.needs_shards = c->transformer.sync && bb_sync_is_sharded((enum bb_sync_kind)l.syncs.value[0]) &&
                     !c->sync.precision_aware && !c->sync.cpu_offload; /* which require dp-sync distributed */
    list_grids(&l);
    if (l.needs_shards && l.sharding == 0) { /* the other given options leave no replicas */
        l.needs_shards = false;
        list_grids(&l);
    }
}

void bb_layout_space_release(struct bb_layout_space *space)
{
    free(space->list);
    *space = (struct bb_layout_space){0};
}
