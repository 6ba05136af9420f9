/*
 * replicas.c - the proxy data_parallel: each rank trains a full replica of the model, synchronized as --sync selects.
 * The model is a list of units, which are its layers (network.h). sync/sync.h adds the communication.
 *
 * The step of a worker (a rank that trains, in contrast to a parameter server) consists, for each micro-batch, of the
 * forward of all layers and then the backward of all layers in reverse order, with one compute operation per layer and
 * direction. The functions of the selected synchronization are called before and after these operations. The optimizer
 * ends the step. A dedicated parameter server does not compute any layer.
 *
 * With --compute timed, a layer's forward takes its FLOPs divided by --tflops, and its backward twice as long. The
 * backward of the first convolution takes as long as its forward, because its input requires no gradient.
 * With --compute gemm, a layer runs its GEMMs and memory-bound kernels.
 */
#include "proxies/workloads/replicas/replicas.h"

#include "bootstrap/base/alloc.h"
#include "proxies/form/author/args.h"
#include "proxies/workloads/replicas/network.h"
#include "proxies/workloads/sync/sync.h"

#include <stdlib.h>
#include <string.h>
#include <sys/param.h>

#define DEFAULT_MODEL "resnet50"

/* Kernel lists of a layer. ACCUMULATE: the kernels that add the gradients of a micro-batch to those of earlier
 * micro-batches. */
enum { FORWARD, BACKWARD, ACCUMULATE, KERNEL_KINDS };

/* State while the training step of the proxy data_parallel is built. */
struct training {
    const struct bb_proxy_config *config;
    struct bb_network network;
    struct bb_dp_config policy;
    struct bb_sync_comms comms;
    struct bb_step *step;
    enum bb_dtype_id dtype;
    struct bb_batches batches;
    int batch; /* number of samples that the workers (training ranks) of the current role process in one micro-batch */
    int workers, micro_batches;
    struct bb_script_norm norm;
    int norm_comm, norm_channels; /* communicator of synchronized batch norms, or BB_NONE; most channels of a layer */
    struct bb_sync_unit *units;
    /* [unit (layer)] kernel lists of --compute gemm, owned by the step; NULL with other kinds of compute */
    const struct bb_kernel_list *(*kernels)[KERNEL_KINDS];

    struct bb_script script; /* program of the role (ranks with the same program) that is being built */
    struct bb_sync *sync;
};

int bb_replicas_defaults(struct bb_proxy_config *c)
{
    c->model = c->model ? c->model : DEFAULT_MODEL;
    c->tflops = c->tflops > 0 ? c->tflops : BB_DEFAULT_TFLOPS;
    return 0;
}

/* ---- compute of one unit (layer of the network) ---- */

static double unit_flops(const struct training *t, int unit, int direction)
{
    const struct bb_network_unit *u = &t->network.units[unit];
    double factor = direction == FORWARD || (unit == 0 && t->network.images) ? 1 : 2;

    return factor * u->sample_flops * t->batch;
}

static double unit_us(const struct training *t, int unit, int direction)
{
    return unit_flops(t, unit, direction) / t->config->tflops * 1e-6;
}

/* Makes kernel list `which` of a layer. Consecutive transformer layers of equal shape share their lists. */
static int make_kernel_list(struct training *t, int unit, int which)
{
    const struct bb_network_unit *u = &t->network.units[unit];
    struct bb_kernel_list *w;
    size_t count = 0;
    bool fits = true;

    if (unit > 1 && u->layer.heads && memcmp(&u[-1].layer, &u->layer, sizeof(u->layer)) == 0) {
        t->kernels[unit][which] = t->kernels[unit - 1][which];
        return 0;
    }
    w = bb_step_add_kernel_list(t->step);
    t->kernels[unit][which] = w;
    for (int i = 0; i < u->n; i++)
        count += u->tensors[i].count;
    if (which == ACCUMULATE)
        bb_kernel_list_accumulate(w, count, t->policy.grads);
    else
        fits = bb_network_add_kernels(&t->network, unit, t->batch, t->dtype, which == BACKWARD, w);
    if (!fits || w->overflowed)
        return bb_err(BB_EUSAGE, "%s: the GEMMs of layer '%s' exceed the supported sizes with %d samples",
                      t->config->proxy, u->name, t->batch);
    return 0;
}

static int make_kernel_lists(struct training *t)
{
    int kinds = t->micro_batches > 1 ? KERNEL_KINDS : ACCUMULATE, rc = 0;

    if (strcmp(t->config->compute, "gemm") != 0)
        return 0;
    if (!t->network.has_kernels)
        return bb_err(BB_EUSAGE,
                      "%s: --compute gemm does not support %s; try: --compute timed, or transformer --model %s",
                      t->config->proxy, t->config->model, t->config->model);
    free(t->kernels);
    BB_NEW(t->kernels, t->network.n);
    for (int which = 0; which < kinds; which++)
        for (int u = 0; u < t->network.n; u++)
            TRY(make_kernel_list(t, u, which));
out:
    return rc;
}

static void write_kernels(struct training *t, int unit, int direction)
{
    struct bb_script *s = &t->script;
    const char *what = t->units[unit].name;
    const double stored = bb_network_unit_activations(&t->network, unit, t->batch, t->dtype);

    s->phase = direction == FORWARD ? BB_PHASE_FORWARD : BB_PHASE_BACKWARD;
    s->layer = unit;
    bb_script_store(s, direction == FORWARD ? stored : 0);
    if (t->kernels)
        bb_script_work(s, what, t->kernels[unit][direction], 1, BB_NONE, BB_NONE);
    else
        bb_script_compute(s, what, unit_us(t, unit, direction), unit_flops(t, unit, direction), BB_NONE, BB_NONE);
    bb_script_release_stored(s, direction == BACKWARD ? stored : 0);
    if (direction == BACKWARD && t->kernels && t->kernels[unit][ACCUMULATE])
        bb_script_work(s, "accumulate", t->kernels[unit][ACCUMULATE], 1, BB_NONE, BB_NONE);
    s->layer = BB_NONE;
}

/* ---- synchronized batch norm (PyTorch's SyncBatchNorm) ---- */

/* Adds the communicator of --sync-bn. Batch norms have their own communicator, so that they do not queue after gradient
 * reductions. */
static int add_norm_comm(struct training *t, int group)
{
    for (int u = 0; u < t->network.n; u++)
        t->norm_channels = MAX(t->norm_channels, t->network.units[u].norm);
    if (!t->config->sync.sync_bn)
        return 0;
    if (!t->norm_channels)
        return bb_err(BB_EUSAGE, "%s: --sync-bn requires batch norms, which %s does not have; try: --model resnet50",
                      t->config->proxy, t->config->model);
    if (t->comms.servers)
        return bb_err(BB_EUSAGE, "%s: --sync-bn is not supported with dedicated parameter servers; try: --sync ps",
                      t->config->proxy);
    if (t->workers > 1)
        t->norm_comm = bb_layout_add_comm(&t->step->layout, "batch norm", group);
    return 0;
}

static void exchange_norm(struct training *t, int unit, bool backward)
{
    t->script.layer = unit;
    bb_script_norm_exchange(&t->norm, &t->script, t->network.units[unit].norm, backward);
    t->script.layer = BB_NONE;
}

/* ---- program of one role (ranks with the same program) ---- */

static void write_micro_batch(struct training *t, bool last)
{
    for (int u = 0; u < t->network.n; u++) {
        t->script.phase = BB_PHASE_FORWARD;
        bb_sync_before_forward(t->sync, u);
        write_kernels(t, u, FORWARD);
        exchange_norm(t, u, false);
        bb_sync_after_forward(t->sync, u);
    }
    for (int u = t->network.n - 1; u >= 0; u--) {
        t->script.phase = BB_PHASE_BACKWARD;
        bb_sync_before_backward(t->sync, u);
        exchange_norm(t, u, true);
        write_kernels(t, u, BACKWARD);
        bb_sync_after_backward(t->sync, u, last);
    }
}

/* Builds the program of one role (ranks with the same program). is_worker: false for a dedicated parameter server;
 * server: with parameter servers the number of the server, or BB_NONE for the workers (training ranks); last_local:
 * true for the last rank of each node if --hierarchical is given. */
static int build_role(struct training *t, struct bb_role *role, const char *name, bool is_worker, int server,
                      bool last_local)
{
    const struct bb_sync_spec spec = {.policy = &t->policy,
                                      .comms = t->comms,
                                      .step = t->step,
                                      .script = &t->script,
                                      .units = t->units,
                                      .n_units = t->network.n,
                                      .holds_remainder = last_local,
                                      .server = server};

    role->name = name;
    bb_script_init(&t->script, &role->program, t->config);
    bb_sync_init(&t->sync, &spec);
    bb_sync_begin_step(t->sync);
    bb_script_norm_open(&t->norm, &t->script, &t->step->layout, t->norm_comm, t->workers, t->norm_channels);
    for (int i = 0; i < t->micro_batches && is_worker; i++) {
        t->script.micro_batch = t->micro_batches > 1 ? i : BB_NONE;
        write_micro_batch(t, i == t->micro_batches - 1);
    }
    t->script.micro_batch = BB_NONE;
    bb_sync_finish_step(t->sync);
    if (is_worker)
        role->training_bytes[BB_USE_ACTIVATIONS] = bb_network_activations(&t->network, t->batch, t->dtype);
    bb_sync_role_memory(t->sync, role->training_bytes);
    bb_sync_release(t->sync);
    return bb_script_result(&t->script);
}

/* ---- roles and communicators of the step ---- */

/* Builds the role of the workers (training ranks) with one of the sizes of micro-batches. */
static int build_workers(struct training *t, struct bb_role *role, const char *name, int size, bool last_local)
{
    int rc;

    t->batch = t->batches.sizes[size];
    if (t->batches.n_sizes > 1)
        name = bb_step_text(t->step, "%s, micro-batches of %d", name, t->batch);
    TRY(make_kernel_lists(t));
    TRY(build_role(t, role, name, true, BB_NONE, last_local));
out:
    return rc;
}

static int build_replicas(struct training *t)
{
    int ranks = t->step->layout.ranks, by_node = t->policy.options.hierarchical ? 2 : 1, rc;

    TRY(bb_step_add_roles(t->step, by_node * t->batches.n_sizes));
    for (int i = 0; i < by_node * t->batches.n_sizes; i++)
        TRY(build_workers(t, &t->step->roles[i], i % by_node ? "last replica of its node" : "replica", i / by_node,
                          i % by_node));
    for (int r = 0; r < ranks; r++)
        t->step->role_of[r] = t->batches.index[r % t->batches.n] * by_node +
                              (by_node > 1 && r % t->comms.n_local == t->comms.n_local - 1);
out:
    return rc;
}

static int build_servers(struct training *t)
{
    int ranks = t->step->layout.ranks, servers = t->comms.servers ? t->comms.servers : 1, rc;
    int n = servers + (ranks > servers ? t->batches.n_sizes : 0);

    TRY(bb_step_add_roles(t->step, n));
    t->batch = t->batches.size[0];
    TRY(make_kernel_lists(t));
    for (int s = 0; s < servers; s++)
        TRY(build_role(t, &t->step->roles[s], servers == 1 ? "server" : bb_step_text(t->step, "server %d", s),
                       t->policy.kind == BB_SYNC_PS, s, false));
    for (int i = servers; i < n; i++)
        TRY(build_workers(t, &t->step->roles[i], "worker", i - servers, false));
    for (int r = 0; r < ranks; r++)
        t->step->role_of[r] = r < servers ? r : servers + t->batches.index[(r - t->comms.servers) % t->batches.n];
out:
    return rc;
}

static void list_units(struct training *t)
{
    BB_NEW(t->units, t->network.n);
    for (int u = 0; u < t->network.n; u++) {
        const struct bb_network_unit *unit = &t->network.units[u];

        t->units[u] = (struct bb_sync_unit){.name = bb_step_text(t->step, "%s", unit->name),
                                            .tensors = unit->tensors,
                                            .n = unit->n,
                                            .backward_us = unit_us(t, u, BACKWARD)};
    }
}

static void write_summary(struct training *t)
{
    const struct bb_proxy_config *c = t->config;
    int workers = t->workers, m = t->micro_batches;
    struct bb_step *step = t->step;

    step->parameters = t->network.parameters;
    step->samples = (double)m * (double)t->batches.samples;
    for (int layer = 0; layer < t->network.arch.layers; layer++)
        step->masked_flops +=
            3 * step->samples * bb_arch_masked_flops(&t->network.arch, layer, t->network.arch.sequence);
    step->summary =
        bb_step_text(step, "%s with %s, %d layers in %d tensors, %d worker%s of %d x %s samples%s", c->model,
                     bb_sync_names[t->policy.kind], t->network.n, t->network.n_tensors, workers, bb_plural(workers), m,
                     bb_batches_text(step, &t->batches), bb_batches_weights(&t->batches));
    if (t->comms.servers)
        step->summary =
            bb_step_text(step, "%s, %d server%s", step->summary, t->comms.servers, bb_plural(t->comms.servers));
}

static int resolve_training(struct training *t)
{
    const struct bb_proxy_config *c = t->config;
    int rc;

    t->dtype = (enum bb_dtype_id)bb_dtype_find(c->dtype);
    TRY(bb_network_load(c, &t->network));
    TRY(bb_sync_resolve(c, (enum bb_sync_kind)bb_args_index(c->sync.sync, bb_sync_names, BB_SYNC_ALL_REDUCE), t->dtype,
                        t->dtype, &t->policy));
    if (!c->sync.optimizer && t->network.images)
        t->policy.optimizer = BB_MEMORY_KERNEL_SGD;
out:
    return rc;
}

/* Creates the group of all ranks and the communicators, and computes the number of workers (training ranks) and of
 * micro-batches. */
static int build_layout(struct training *t)
{
    const struct bb_axis axis = {"dp", t->config->ranks};
    struct bb_layout *l = &t->step->layout;
    const char *made_of;
    int rc, group;

    TRY(bb_layout_init(l, t->config->ranks, &axis, 1));
    group = bb_layout_add_group(l, "dp", 1u << 0);
    TRY(bb_sync_add_comms(t->step, &t->policy, group, t->config->gpus_per_node, &t->comms));
    t->workers = t->config->ranks - t->comms.servers;
    TRY(add_norm_comm(t, group));
    TRY(bb_args_batches(t->config, t->network.batch, t->workers, &t->batches));
    made_of = bb_step_text(t->step, "%d worker%s x micro-batches of %s", t->workers, bb_plural(t->workers),
                           bb_batches_text(t->step, &t->batches));
    if (t->config->global_batch && t->config->global_batch < t->batches.samples &&
        t->config->global_batch % t->workers == 0)
        return bb_err(BB_EUSAGE,
                      "%s: --global-batch-size %d is less than %lld samples (%s); try: --micro-batch-size %d",
                      t->config->proxy, t->config->global_batch, (long long)t->batches.samples, made_of,
                      t->config->global_batch / t->workers);
    TRY(bb_args_micro_batches(t->config, 1, t->batches.samples, made_of, "", &t->micro_batches));
    t->batch = t->batches.max; /* the slowest worker determines when gradients are ready on all workers */
out:
    return rc;
}

int bb_replicas_build(const struct bb_proxy_config *c, struct bb_step *step)
{
    struct training t = {.config = c, .step = step, .norm_comm = BB_NONE};
    int rc;

    TRY(resolve_training(&t));
    TRY(build_layout(&t));
    list_units(&t);
    write_summary(&t);
    TRY(bb_sync_has_servers(t.policy.kind) ? build_servers(&t) : build_replicas(&t));
out:
    free(t.kernels);
    free(t.units);
    bb_network_release(&t.network);
    return rc;
}

const struct bb_proxy bb_data_parallel_proxy = {
    .name = "data_parallel",
    .help = "a model replica per rank: DDP buckets, tensor fusion, ZeRO/FSDP sharding or parameter servers",
    .features = BB_FEATURE_MODEL | BB_FEATURE_LAYERS | BB_FEATURE_IMAGES | BB_FEATURE_MICRO_BATCHES |
                BB_FEATURE_GLOBAL_BATCH | BB_FEATURE_MICRO_BATCH_SIZE | BB_FEATURE_NODES | BB_FEATURE_TIMED |
                BB_FEATURE_GEMM | BB_FEATURE_TFLOPS | BB_FEATURE_SYNC,
    .compute = "timed",
    .defaults = bb_replicas_defaults,
    .build = bb_replicas_build};
