/* recompute.c - the recomputation with which a layout fits into GPU memory (see recompute.h). */
#include "proxies/offline/layouts/recompute.h"

#include "bootstrap/base/alloc.h"
#include "proxies/simulation/simulate/engine/op_time.h"
#include "proxies/workloads/registry/registry.h"
#include "proxies/workloads/transformer/memory.h"
#include "proxies/workloads/transformer/training_bytes.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* ---- costs ---- */

/* Returns whether a layer of both layouts has the same kernels. Their software may have other rates. */
static bool is_of(const struct bb_layout_choice *a, const struct bb_layout_choice *b)
{
    return a->tp == b->tp && a->cp == b->cp && a->ep == b->ep && a->batch == b->batch;
}

static const struct bb_recompute_cost *cost_of(const struct bb_recompute_costs *costs, const struct bb_layout_choice *c)
{
    int i = 0;

    while (i < costs->n && !is_of(&costs->list[i].of, c))
        i++;
    return i < costs->n ? &costs->list[i] : NULL;
}

void bb_recompute_costs_list(struct bb_recompute_costs *costs, const struct bb_layout_space *space,
                             const struct bb_arch *arch)
{
    costs->modules = bb_recompute_modules_of(arch);
    for (int i = 0; i < space->n; i++) {
        const struct bb_layout_choice *c = &space->list[i];

        if (cost_of(costs, c))
            continue;
        BB_GROW(costs->list, costs->n);
        costs->list[costs->n++] = (struct bb_recompute_cost){.of = *c};
    }
}

/* Returns whether two layers have the same kernels. */
static bool are_alike(const struct bb_arch *a, int sequence, int layer, int other)
{
    return bb_arch_equal_layers(a, layer, other) &&
           bb_arch_attended_keys(a, layer, sequence) == bb_arch_attended_keys(a, other, sequence);
}

/* Returns the smallest number of layers, from the first, that contain each kind of layer. */
static int distinct_layers(const struct bb_arch *a, int sequence)
{
    int n = 1;

    for (int layer = 1; layer < a->layers; layer++) {
        int same = 0;

        while (same < n && !are_alike(a, sequence, same, layer))
            same++;
        n = same < n ? n : layer + 1;
    }
    return n;
}

/* Returns the number of layers of the model that are like `layer`, divided by those of the first n layers. */
static double weight_of(const struct bb_arch *a, int sequence, int n, int layer)
{
    int all = 0, built = 0;

    for (int other = 0; other < a->layers; other++) {
        all += are_alike(a, sequence, layer, other);
        built += other < n && are_alike(a, sequence, layer, other);
    }
    return (double)all / built;
}

/* Returns the time of the kernels of the layers of the model, for one micro-batch on one rank; NAN if the step is invalid.
 * n: number of layers that are built. */
static double layers_ns(const struct bb_layout_search *search, const struct bb_arch *arch,
                        const struct bb_layout_choice *c, int n)
{
    struct bb_proxy_config as = bb_layouts_config(search->config, c);
    const int sequence = as.transformer.sequence ? as.transformer.sequence : arch->sequence;
    struct bb_step step = {0};
    double sum = 0;

    as.layers = n;
    as.transformer.imbalance = 0; /* role 0 would be an arbitrary rank */
    as.transformer.seed = 0;
    as.transformer.first_layers = as.transformer.last_layers = 0;
    as.transformer.pipeline_layout = NULL;
    if (bb_step_build(&step, search->proxy, &as)) {
        bb_step_release(&step);
        return NAN;
    }
    for (size_t i = 0; i < step.roles[0].program.n_ops; i++) {
        const struct bb_op *op = &step.roles[0].program.ops[i];

        if (op->layer != BB_NONE && op->micro_batch == 0)
            sum += weight_of(arch, sequence, n, op->layer) * (double)bb_op_kernels_ns(search->cluster, op);
    }
    bb_step_release(&step);
    return sum;
}

void bb_recompute_cost_compute(const struct bb_layout_search *search, const struct bb_arch *arch,
                               const struct bb_recompute_costs *costs, struct bb_recompute_cost *cost)
{
    const struct bb_transformer_options *o = &search->config->transformer;
    const int n = distinct_layers(arch, o->sequence ? o->sequence : arch->sequence);
    struct bb_layout_choice c = cost->of;
    double none_ns;

    c.dp *= c.pp;
    c.pp = c.vpp = c.micro_batches = 1;
    c.schedule = BB_1F1B;
    none_ns = layers_ns(search, arch, &c, n);
    c.recompute = BB_RECOMPUTE_FULL;
    cost->layers_ns = layers_ns(search, arch, &c, n) - none_ns;
    c.recompute = BB_RECOMPUTE_SELECTIVE;
    for (int m = 0; m < BB_MODULES; m++) {
        if (!(costs->modules >> m & 1))
            continue;
        snprintf(c.modules, sizeof(c.modules), "%s", bb_recompute_module_names[m]);
        cost->module_ns[m] = layers_ns(search, arch, &c, n) - none_ns;
        memset(c.modules, 0, sizeof(c.modules));
    }
    cost->known = isfinite(none_ns);
}

/* ---- candidates ---- */

static void write_modules(unsigned modules, char text[BB_MODULES_TEXT])
{
    int length = 0;

    memset(text, 0, BB_MODULES_TEXT);
    for (int m = 0; m < BB_MODULES; m++)
        if (modules >> m & 1)
            length += snprintf(text + length, (size_t)(BB_MODULES_TEXT - length), "%s%s", length ? "," : "",
                               bb_recompute_module_names[m]);
}

static int bytes_with(const struct bb_layout_search *search, const struct bb_arch *arch, unsigned modules,
                      struct bb_layout_choice *c, double *bytes)
{
    struct bb_proxy_config as;

    c->recompute = BB_RECOMPUTE_SELECTIVE;
    write_modules(modules, c->modules);
    as = bb_layouts_config(search->config, c);
    return bb_training_bytes(&as, arch, bytes);
}

/* The recomputation of moe contains its parts. */
static bool is_valid(unsigned modules, unsigned of)
{
    const unsigned parts = 1u << BB_MODULE_EXPERT_ACTIVATION | 1u << BB_MODULE_SHARED_EXPERTS;

    return (modules & ~of) == 0 && !(modules >> BB_MODULE_MOE & 1 && modules & parts);
}

#define MAX_TRIES 3 /* number of sets whose memory is computed: the sum of what their modules save is nearly exact */

/* Returns the set of modules that saves `missing` bytes with the shortest kernels of more than min_ns; 0: none. */
static unsigned shortest_set(const struct bb_recompute_cost *cost, unsigned of, const double saved[BB_MODULES],
                             double missing, double min_ns, double *set_ns)
{
    unsigned shortest = 0;

    *set_ns = INFINITY;
    for (unsigned set = 1; set < 1u << BB_MODULES; set++) {
        double ns = 0, bytes = 0;

        if (!is_valid(set, of))
            continue;
        for (int m = 0; m < BB_MODULES; m++) {
            ns += set >> m & 1 ? cost->module_ns[m] : 0;
            bytes += set >> m & 1 ? saved[m] : 0;
        }
        if (bytes >= missing && ns > min_ns && ns < *set_ns) {
            shortest = set;
            *set_ns = ns;
        }
    }
    return shortest;
}

int bb_recompute_modules(const struct bb_layout_search *search, const struct bb_arch *arch,
                         const struct bb_recompute_costs *costs, double none_bytes,
                         struct bb_recompute_candidate *found)
{
    const struct bb_recompute_cost *cost = cost_of(costs, &found->choice);
    const double missing = none_bytes - search->usable_bytes;
    double saved[BB_MODULES] = {0}, all = 0, ns = 0;
    unsigned of = 0;
    int rc = 0;

    found->ns = INFINITY;
    if (!cost || !cost->known)
        return 0;
    for (int m = 0; m < BB_MODULES; m++) {
        if (!(costs->modules >> m & 1))
            continue;
        TRY(bytes_with(search, arch, 1u << m, &found->choice, &found->bytes));
        saved[m] = none_bytes - found->bytes;
        of |= saved[m] > 0 ? 1u << m : 0;
        all += saved[m] > 0 ? saved[m] : 0;
    }
    for (int tried = 0; tried < MAX_TRIES && all >= missing; tried++) {
        const unsigned set = shortest_set(cost, of, saved, missing, ns, &ns);

        if (!set)
            break;
        TRY(bytes_with(search, arch, set, &found->choice, &found->bytes));
        if (found->bytes <= search->usable_bytes) {
            found->ns = ns / found->choice.pp;
            break;
        }
    }
out:
    return rc;
}

int bb_recompute_layers(const struct bb_layout_search *search, const struct bb_arch *arch,
                        const struct bb_recompute_costs *costs, struct bb_recompute_candidate *found)
{
    struct bb_layout_choice *c = &found->choice;
    const struct bb_recompute_cost *cost = cost_of(costs, c);
    struct bb_proxy_config as;
    int rc;

    found->ns = INFINITY;
    c->recompute = BB_RECOMPUTE_FULL;
    memset(c->modules, 0, sizeof(c->modules));
    as = bb_layouts_config(search->config, c);
    TRY(bb_training_min_recompute_layers(&as, arch, search->usable_bytes, &c->recompute_layers, &found->bytes));
    if (found->bytes <= search->usable_bytes)
        found->ns = (cost && cost->known ? cost->layers_ns : 0) *
                    (c->recompute_layers > 0 ? (double)c->recompute_layers * c->vpp / arch->layers : 1.0 / c->pp);
out:
    return rc;
}
