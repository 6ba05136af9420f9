/* recompute.c - the recomputation with which a layout fits into GPU memory (see recompute.h). */
#include "proxies/offline/layouts/recompute.h"

#include "bootstrap/base/alloc.h"
#include "proxies/simulation/machine/software.h"
#include "proxies/simulation/simulate/engine/op_time.h"
#include "proxies/workloads/registry/registry.h"
#include "proxies/workloads/transformer/memory.h"
#include "proxies/workloads/transformer/training_bytes.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* ---- kinds ---- */

/* Recomputation of single operations is PyTorch's (selective checkpointing), of modules and of a number of layers
 * Megatron-LM's; torchtitan's policies are SelectiveAC and FullAC (torchtitan/distributed/activation_checkpoint.py). */
static bool is_torch(const struct bb_recompute_subject *s)
{
    return bb_software_is_torch(s->software);
}

/* Returns the modules that the software can recompute, as a bit mask. PyTorch: attention, as a layer without its MLP. */
static unsigned modules_of(const struct bb_recompute_subject *s)
{
    return bb_recompute_modules_of(s->arch) & (is_torch(s) ? 1u << BB_MODULE_CORE : ~0u);
}

struct bb_proxy_config bb_recompute_config(const struct bb_proxy_config *config, const struct bb_recompute_candidate *c)
{
    struct bb_proxy_config as = *config;

    as.transformer.recompute = bb_recompute_names[c->recompute];
    as.transformer.recompute_modules = c->modules[0] ? c->modules : NULL;
    as.transformer.recompute_layers = c->layers;
    return as;
}

/* ---- costs ---- */

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

/* Returns the configuration of a step of the first n layers on one stage, with one micro-batch. */
static struct bb_proxy_config small_step(const struct bb_proxy_config *config, int n)
{
    struct bb_proxy_config as = *config;
    struct bb_transformer_options *o = &as.transformer;

    as.layers = n;
    as.micro_batches = 1;
    as.global_batch = 0;
    o->dp *= o->pp > 1 ? o->pp : 1;
    o->pp = o->vpp = 1;
    o->group = 0;
    o->schedule = bb_schedule_names[BB_1F1B];
    o->imbalance = 0; /* role 0 would be an arbitrary rank */
    o->seed = 0;
    o->shares = NULL; /* those of the whole model are kept */
    o->first_layers = o->last_layers = 0;
    o->pipeline_layout = NULL;
    return as;
}

/* Returns the time of the kernels of the layers of the model with a recomputation, for one micro-batch on one rank; NAN if
 * the step is invalid. small: the step of the first n layers */
static double layers_ns(const struct bb_recompute_subject *s, const struct bb_cluster *cluster,
                        const struct bb_proxy_config *small, const struct bb_recompute_candidate *c)
{
    const struct bb_proxy_config as = bb_recompute_config(small, c);
    const int sequence = as.transformer.sequence ? as.transformer.sequence : s->arch->sequence;
    struct bb_step step = {0};
    double sum = 0;

    if (bb_step_build(&step, s->proxy, &as)) {
        bb_step_release(&step);
        return NAN;
    }
    for (size_t i = 0; i < step.roles[0].program.n_ops; i++) {
        const struct bb_op *op = &step.roles[0].program.ops[i];

        if (op->layer != BB_NONE && op->micro_batch == 0)
            sum += weight_of(s->arch, sequence, as.layers, op->layer) * (double)bb_op_kernels_ns(cluster, op);
    }
    bb_step_release(&step);
    return sum;
}

void bb_recompute_cost_compute(const struct bb_recompute_subject *s, const struct bb_cluster *cluster,
                               struct bb_recompute_cost *cost)
{
    const struct bb_transformer_options *o = &s->config->transformer;
    const struct bb_proxy_config small =
        small_step(s->config, distinct_layers(s->arch, o->sequence ? o->sequence : s->arch->sequence));
    struct bb_recompute_candidate c = {.recompute = BB_RECOMPUTE_NONE};
    const double none_ns = layers_ns(s, cluster, &small, &c);

    c.recompute = BB_RECOMPUTE_FULL;
    cost->layers_ns = layers_ns(s, cluster, &small, &c) - none_ns;
    c.recompute = BB_RECOMPUTE_OPS;
    cost->ops_ns = is_torch(s) ? layers_ns(s, cluster, &small, &c) - none_ns : NAN;
    c.recompute = BB_RECOMPUTE_SELECTIVE;
    for (int m = 0; m < BB_MODULES; m++) {
        if (!(modules_of(s) >> m & 1))
            continue;
        snprintf(c.modules, sizeof(c.modules), "%s", bb_recompute_module_names[m]);
        cost->module_ns[m] = layers_ns(s, cluster, &small, &c) - none_ns;
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

/* Computes the memory need with a recomputation. */
static int compute_bytes(const struct bb_recompute_subject *s, struct bb_recompute_candidate *c)
{
    const struct bb_proxy_config as = bb_recompute_config(s->config, c);

    return bb_training_bytes(&as, s->arch, &c->bytes);
}

static int compute_modules(const struct bb_recompute_subject *s, unsigned modules, struct bb_recompute_candidate *c)
{
    c->recompute = BB_RECOMPUTE_SELECTIVE;
    write_modules(modules, c->modules);
    return compute_bytes(s, c);
}

/* The recomputation of moe contains its parts. */
static bool is_valid(unsigned modules, unsigned of, unsigned required)
{
    const unsigned parts = 1u << BB_MODULE_EXPERT_ACTIVATION | 1u << BB_MODULE_SHARED_EXPERTS;

    return (modules & ~of) == 0 && (required & ~modules) == 0 && !(modules >> BB_MODULE_MOE & 1 && modules & parts);
}

#define MAX_TRIES 3 /* number of sets whose memory is computed: the sum of what their modules save is nearly exact */

/* Returns the set of modules that saves `missing` bytes with the shortest kernels of more than min_ns; 0: none. */
static unsigned shortest_set(const struct bb_recompute_cost *cost, unsigned of, unsigned required,
                             const double saved[BB_MODULES], double missing, double min_ns, double *set_ns)
{
    unsigned shortest = 0;

    *set_ns = INFINITY;
    for (unsigned set = 1; set < 1u << BB_MODULES; set++) {
        double ns = 0, bytes = 0;

        if (!is_valid(set, of, required))
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

static int stages_of(const struct bb_recompute_subject *s)
{
    return s->config->transformer.pp > 1 ? s->config->transformer.pp : 1;
}

/* Finds the set of modules with the shortest kernels with which training fits. */
static int find_modules(const struct bb_recompute_subject *s, const struct bb_recompute_cost *cost, double none_bytes,
                        struct bb_recompute_candidate *found)
{
    const double missing = none_bytes - s->usable_bytes;
    double saved[BB_MODULES] = {0}, all = 0, ns = 0;
    unsigned of = 0;
    int rc = 0;

    for (int m = 0; m < BB_MODULES; m++) {
        if (!(modules_of(s) >> m & 1) || compute_modules(s, 1u << m, found)) /* invalid with other options */
            continue;
        saved[m] = none_bytes - found->bytes;
        of |= saved[m] > 0 ? 1u << m : 0;
        all += saved[m] > 0 ? saved[m] : 0;
    }
    for (int tried = 0; tried < MAX_TRIES && all >= missing; tried++) {
        const unsigned set = shortest_set(cost, of, s->required, saved, missing, ns, &ns);

        if (!set)
            break;
        TRY(compute_modules(s, set, found));
        if (found->bytes <= s->usable_bytes) {
            found->ns = ns / stages_of(s);
            break;
        }
    }
out:
    return rc;
}

int bb_recompute_modules(const struct bb_recompute_subject *s, const struct bb_recompute_cost *cost, double none_bytes,
                         struct bb_recompute_candidate *found)
{
    struct bb_recompute_candidate ops = {.recompute = BB_RECOMPUTE_OPS};
    int rc = 0;

    *found = (struct bb_recompute_candidate){.ns = INFINITY};
    if (!cost || !cost->known)
        return 0;
    TRY(find_modules(s, cost, none_bytes, found));
    ops.ns = cost->ops_ns / stages_of(s);
    if (!s->required && ops.ns < found->ns && compute_bytes(s, &ops) == 0 && ops.bytes <= s->usable_bytes)
        *found = ops;
out:
    return rc;
}

int bb_recompute_layers(const struct bb_recompute_subject *s, const struct bb_recompute_cost *cost,
                        struct bb_recompute_candidate *found)
{
    const int chunks = s->config->transformer.vpp > 1 ? s->config->transformer.vpp : 1;
    struct bb_proxy_config as;
    int rc;

    *found = (struct bb_recompute_candidate){.recompute = BB_RECOMPUTE_FULL, .ns = INFINITY};
    as = bb_recompute_config(s->config, found);
    if (is_torch(s))
        TRY(bb_training_bytes(&as, s->arch, &found->bytes));
    else
        TRY(bb_training_min_recompute_layers(&as, s->arch, s->usable_bytes, &found->layers, &found->bytes));
    if (found->bytes <= s->usable_bytes)
        found->ns = (cost && cost->known ? cost->layers_ns : 0) *
                    (found->layers > 0 ? (double)found->layers * chunks / s->arch->layers : 1.0 / stages_of(s));
out:
    return rc;
}
