/*
 * data_parallel.c - the proxies resnet50, resnet50_ring, resnet152 and resnet152_scal: pure data parallelism over all
 * ranks, with gradients in buckets. The models are in profiles/models; the four proxies are defined at the end of this
 * file.
 *
 *   resnet50         one blocking all-reduce per bucket; no compute
 *   resnet50_ring    each bucket is sent to the next rank and received from the previous rank in one group call; no
 *                    compute
 *   resnet152        the forward pass; then, bucket by bucket, the bucket's backward pass and the start of its
 *                    all-reduce; at the end a wait for all of them, so the all-reduce of a bucket overlaps with the
 *                    backward of the later buckets
 *   resnet152_scal   like resnet152, with a global batch of 32768 on P = 256, 512, 1024 or 2048 ranks and the compute
 *                    times of 32768 / P samples per rank
 *
 * --compute gemm runs the kernels of the network: the forward pass of convolutions and dense layer; with each bucket,
 * the backward pass of the layers whose weights are in the bucket; after the gradients are reduced, SGD with momentum,
 * bucket by bucket. All four proxies support --compute gemm. For resnet50 and resnet50_ring the model file contains a
 * batch that is used only with --compute gemm.
 *
 * --per-tensor reduces the tensors of a bucket one by one. All operations use one communicator of all ranks, so they
 * run in issue order.
 */
#include "proxies/form/author/args.h"
#include "proxies/form/author/proxy.h"
#include "proxies/form/author/script.h"
#include "proxies/form/models/residual.h"

#include <string.h>

/* Properties in which the four proxies of this file differ. */
struct network {
    const char *model;
    bool ring;    /* true: each bucket of gradients is sent to the next rank instead of being all-reduced */
    bool overlap; /* true: the step waits for all gradient transfers (all-reduces or ring messages) at its end;
                     false: it waits after each transfer */
    bool strong;  /* true: strong scaling, in which the global batch is fixed and divided among the ranks */
};

/* State while the training step of one of the four proxies is built. */
struct training {
    const struct bb_proxy_config *config;
    const struct network *network;
    struct bb_residual model;
    const struct bb_local_batch *batch; /* compute times in the model file that were measured with this number of
                                           samples per rank; NULL: the file has none */
    double samples;                     /* number of samples per rank and training step; 0: unknown */
    struct bb_step *step;
    /* kernel lists of --compute gemm: one for the forward pass, and one per gradient bucket for the backward pass;
     * NULL with other kinds of compute */
    const struct bb_kernel_list *forward, *backward[BB_RESIDUAL_BUCKETS];
    struct bb_script script;
    struct bb_script_lane lane;
    int last; /* program index of the latest all-reduce (or ring transfer) of gradients */
};

/* Selects the compute times of the model file and the number of samples per rank. With strong scaling, the model file
 * must have compute times for this number of ranks; else the message suggests the nearest number with times. */
static int choose_batch(struct training *t)
{
    bool real = strcmp(t->config->compute, "gemm") == 0;
    const struct bb_residual *m = &t->model;
    int p = t->config->ranks, nearest = 0;

    if (!t->network->strong)
        t->batch = m->n_batches ? &m->batches[0] : NULL;
    for (int b = 0; t->network->strong && b < m->n_batches; b++) {
        int ranks = m->global_batch / (int)m->batches[b].samples;

        if (m->batches[b].samples * p == m->global_batch)
            t->batch = &m->batches[b];
        if (nearest == 0 || abs(ranks - p) < abs(nearest - p))
            nearest = ranks;
    }
    if (t->network->strong && !t->batch)
        return bb_err(BB_EUSAGE, "%s: no compute times for a global batch of %d on %d rank%s; possible: %d ranks",
                      t->config->proxy, m->global_batch, p, bb_plural(p), nearest);
    t->samples = t->batch ? t->batch->samples : real ? m->batch : 0;
    if (real && (t->samples < 1 || m->n_layers == 0))
        return bb_err(BB_EUSAGE,
                      "%s: --compute gemm requires layers and a batch in the model file, which model %s does not have",
                      t->config->proxy, t->network->model);
    return 0;
}

/* Creates the kernel lists of --compute gemm: one for the forward pass, and for each bucket one for the backward
 * pass of the layers whose gradients are in the bucket. */
static int list_kernels(struct training *t)
{
    enum bb_dtype_id dtype = (enum bb_dtype_id)bb_dtype_find(t->config->dtype);
    const struct bb_residual *m = &t->model;
    struct bb_kernel_list *list = bb_step_add_kernel_list(t->step);
    bool fits = bb_residual_forward(m, (int64_t)t->samples, dtype, list);

    t->forward = list;
    for (int b = 0; b < m->n_buckets; b++) {
        t->backward[b] = list = bb_step_add_kernel_list(t->step);
        fits = fits && bb_residual_backward(m, m->buckets[b].first, m->buckets[b].n, (int64_t)t->samples, dtype, list);
    }
    return fits ? 0
                : bb_err(BB_EUSAGE, "%s: a layer of model %s exceeds the supported sizes", t->config->proxy,
                         t->network->model);
}

/* Returns the FLOPs of the forward pass for all samples of a rank. The backward pass has twice as many FLOPs, which
 * are divided equally among the buckets. */
static double batch_flops(const struct training *t)
{
    return t->model.sample_flops * t->batch->samples;
}

static int start_transfer(struct training *t, const char *what, size_t count)
{
    static const int next = 1, previous = -1;

    return t->network->ring ? bb_script_exchange(&t->script, t->lane, what, &next, &previous, 1, count)
                            : bb_script_all_reduce(&t->script, t->lane, what, count);
}

/* Adds the backward pass and the transfers (all-reduces or ring messages) of one bucket of gradients: one transfer, or
 * with --per-tensor one per tensor. */
static void write_bucket(struct training *t, int b)
{
    struct bb_script *s = &t->script;
    const struct bb_bucket *bucket = &t->model.buckets[b];
    const char *what = bb_step_text(t->step, "bucket %d", b);

    s->layer = b;
    s->phase = BB_PHASE_BACKWARD;
    if (t->batch)
        bb_script_compute(s, what, t->batch->bucket_backward_us, 2 * batch_flops(t) / t->model.n_buckets, BB_NONE,
                          BB_NONE);
    bb_script_real_work(s, what, t->backward[b], 1, BB_NONE, BB_NONE);
    s->phase = BB_PHASE_GRADIENTS;
    for (int i = 0; i < (t->config->per_tensor ? bucket->n : 1); i++) {
        const struct bb_tensor *tensor = &t->model.tensors[bucket->first + i];

        t->last = t->config->per_tensor ? start_transfer(t, bb_step_text(t->step, "%s", tensor->name), tensor->count)
                                        : start_transfer(t, what, bucket->count);
        if (!t->network->overlap)
            bb_script_wait(s, t->last);
    }
}

static int build_role(struct training *t)
{
    const struct bb_residual *m = &t->model;
    struct bb_script *s = &t->script;

    t->lane = bb_world_lane(t->step, s, "world");
    if (t->batch)
        bb_script_compute(s, "network", t->batch->forward_us, batch_flops(t), BB_NONE, BB_NONE);
    bb_script_real_work(s, "network", t->forward, 1, BB_NONE, BB_NONE);
    for (int b = 0; b < m->n_buckets; b++)
        write_bucket(t, b);
    if (s->real) /* the reductions run in order on one stream, so the update waits only for the last reduction */
        bb_script_wait(s, t->last);
    for (int b = 0; s->real && b < m->n_buckets; b++) {
        s->layer = b;
        bb_script_optimizer(s, t->step, BB_MEMORY_KERNEL_SGD, bb_step_text(t->step, "bucket %d", b),
                            m->buckets[b].count);
    }
    return bb_script_result(s);
}

static void write_summary(struct training *t)
{
    struct bb_step *step = t->step;
    const char *how = t->network->ring ? "sent to the next rank" : "all-reduced";
    int p = t->config->ranks, tensors = t->model.n_tensors, buckets = t->model.n_buckets;

    step->parameters = t->model.parameters;
    step->samples = t->samples * p;
    step->summary =
        t->config->per_tensor
            ? bb_step_text(step, "%d tensors %s on %d rank%s", tensors, how, p, bb_plural(p))
            : bb_step_text(step, "%d tensors in %d buckets %s on %d rank%s", tensors, buckets, how, p, bb_plural(p));
    if (t->samples > 0)
        step->summary = bb_step_text(step, "%s, %g samples per rank", step->summary, t->samples);
}

static int build_step(const struct bb_proxy_config *c, struct bb_step *step)
{
    struct training t = {.config = c, .network = c->variant, .step = step};
    int rc;

    TRY(bb_residual_load(t.network->model, &t.model));
    TRY(choose_batch(&t));
    TRY(bb_world_role(c, step, "worker", &t.script));
    write_summary(&t);
    if (t.script.real)
        TRY(list_kernels(&t));
    TRY(build_role(&t));
out:
    bb_residual_release(&t.model);
    return rc;
}

#define RESNET(word, file, text, times, how, ...)                                                                      \
    {                                                                                                                  \
        .name = word, .help = text, .model = file, .features = BB_FEATURE_PER_TENSOR | (times) | BB_FEATURE_GEMM,      \
        .compute = how, .with_compute = "data_parallel --model " file, .build = build_step,                            \
        .variant = &(const struct network)                                                                             \
        {                                                                                                              \
            .model = file, __VA_ARGS__                                                                                 \
        }                                                                                                              \
    }

const struct bb_proxy bb_resnet50_proxy =
    RESNET("resnet50", "resnet50", "ResNet-50: gradients in six buckets, one all-reduce after another", 0, "none",
           .ring = false);
const struct bb_proxy bb_resnet50_ring_proxy =
    RESNET("resnet50_ring", "resnet50", "ResNet-50: each bucket sent to the next rank (ring)", 0, "none", .ring = true);
const struct bb_proxy bb_resnet152_proxy = RESNET(
    "resnet152", "resnet152", "ResNet-152: ten buckets, all-reduce overlaps the backward pass, 128 samples per rank",
    BB_FEATURE_TIMED, "timed", .overlap = true);
const struct bb_proxy bb_resnet152_scal_proxy =
    RESNET("resnet152_scal", "resnet152",
           "ResNet-152: strong scaling of a global batch of 32768 on 256, 512, 1024 or 2048 ranks", BB_FEATURE_TIMED,
           "timed", .overlap = true, .strong = true);
