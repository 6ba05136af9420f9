/* scaling_step.c - builds the steps of a scaling study: the step of the proxy data_parallel, that step with the
 * smaller batch that remains at the end of an epoch, and the broadcast of rank 0's training state before the first
 * step. */
#include "proxies/form/author/args.h"
#include "proxies/workloads/replicas/network.h"
#include "proxies/workloads/replicas/replicas.h"
#include "proxies/workloads/replicas/scaling.h"

#include <string.h>

int bb_scaling_defaults(struct bb_proxy_config *c)
{
    c->model = c->model ? c->model : "resnet18_cifar";
    c->sync.sync = c->sync.sync ? c->sync.sync : "horovod";
    return bb_replicas_defaults(c);
}

/* ---- broadcast of rank 0's training state before the first step ---- */

struct broadcast {
    struct bb_step *step;
    struct bb_script script;
    struct bb_script_lane lane;
    struct bb_network network;
    int buffer; /* index of the program's buffer that all broadcasts use; it has the size of the largest tensor */
};

/* Returns whether the tensor belongs to a batch norm. Rank 0 also broadcasts the running mean and the running
 * variance of each batch norm, which have the size of this tensor. */
static bool is_norm(const struct bb_tensor *t)
{
    return strncmp(t->name, "norm", 4) == 0 || strstr(t->name, ".norm") || strstr(t->name, "norm.");
}

/* Broadcasts the tensors of all layers. kind: what is broadcast, printed before the tensor's name; norms: true: only
 * the tensors of batch norms. */
static void broadcast_tensors(struct broadcast *b, const char *kind, bool norms)
{
    for (int u = 0; u < b->network.n; u++)
        for (int i = 0; i < b->network.units[u].n; i++) {
            const struct bb_tensor *t = &b->network.units[u].tensors[i];

            if (!norms || is_norm(t))
                bb_script_rooted_collective(&b->script, b->lane, bb_step_text(b->step, "%s%s", kind, t->name),
                                            BB_BROADCAST, 0, t->count, b->buffer, b->buffer);
        }
}

static int build_broadcast(const struct bb_proxy_config *c, struct bb_step *step)
{
    struct broadcast b = {.step = step};
    const struct bb_network *n = &b.network;
    const char *optimizer = c->sync.optimizer;
    size_t largest = 0; /* number of elements of the largest tensor */
    int rc;

    TRY(bb_network_load(c, &b.network));
    for (int u = 0; u < n->n; u++)
        for (int i = 0; i < n->units[u].n; i++)
            largest = n->units[u].tensors[i].count > largest ? n->units[u].tensors[i].count : largest;
    TRY(bb_world_role(c, step, "replica", &b.script));
    step->summary = "first broadcast of rank 0's state";
    b.lane = bb_world_lane(step, &b.script, "first broadcast");
    b.buffer = bb_script_buffer(&b.script, "state", BB_USE_COMMUNICATION, largest);
    b.script.phase = BB_PHASE_OPTIMIZER;
    broadcast_tensors(&b, "", false);
    if (n->images)
        broadcast_tensors(&b, "running statistics of ", true);
    broadcast_tensors(&b, "momentum of ", false);
    if (optimizer ? strcmp(optimizer, "sgd") != 0 : !n->images) /* Adam has two states per parameter, SGD one */
        broadcast_tensors(&b, "variance of ", false);
    rc = bb_script_result(&b.script);
out:
    bb_network_release(&b.network);
    return rc;
}

/* ---- training step ---- */

static void write_summary(const struct bb_proxy_config *c, const struct bb_scaling *s, struct bb_step *step)
{
    const char *mode = s->strong ? "strong" : "weak", *sync = c->sync.sync;
    int steps = s->full_steps + (s->last_batch > 0);

    if (s->synthetic)
        step->summary =
            bb_step_text(step, "%s with %s, %s scaling: %d x %d samples per step, %d iterations of %d steps", c->model,
                         sync, mode, s->ranks, s->batch, s->rounds, steps);
    else
        step->summary = bb_step_text(step, "%s with %s, %s scaling: %d x %d samples per step, %d step%s for %d samples",
                                     c->model, sync, mode, s->ranks, s->batch, steps, bb_plural(steps), s->images);
}

static int build_step(const struct bb_proxy_config *c, struct bb_step *step)
{
    struct bb_proxy_config training = *c;
    struct bb_scaling s;
    int rc;

    TRY(bb_scaling_resolve(c, &s));
    if (c->scaling.part == BB_SCALING_BROADCAST)
        return build_broadcast(c, step);
    training.micro_batch_size = c->scaling.part == BB_SCALING_LAST ? s.last_batch : s.batch;
    TRY(bb_replicas_build(&training, step));
    write_summary(c, &s, step);
out:
    return rc;
}

const struct bb_proxy bb_scaling_proxy = {
    .name = "scaling",
    .help = "scaling study: epochs of data-parallel training, images per second, efficiency of runs",
    .features = BB_FEATURE_MODEL | BB_FEATURE_LAYERS | BB_FEATURE_IMAGES | BB_FEATURE_NODES | BB_FEATURE_TIMED |
                BB_FEATURE_GEMM | BB_FEATURE_TFLOPS | BB_FEATURE_SYNC | BB_FEATURE_SCALING,
    .compute = "timed",
    .defaults = bb_scaling_defaults,
    .build = build_step};
