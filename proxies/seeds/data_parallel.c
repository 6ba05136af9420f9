/*
 * data_parallel.c - resnet50, resnet50_ring, resnet152, resnet152_scal: the gradients of one network, cut into buckets,
 * over all ranks. Their data is the network (profiles/models) and the network of their rows below.
 *
 *   resnet50         one all-reduce for each bucket, each waited for; no compute
 *   resnet50_ring    each bucket to the next rank and from the one before, in one group call, waited for; no compute
 *   resnet152        forward; then bucket by bucket: backward, start its all-reduce; all are waited for at the end, so
 *                    bucket i travels under the backward pass of the buckets after it
 *   resnet152_scal   the same with 32768 / P samples on each of P = 256 .. 2048 ranks, and the times that go with them
 *
 * --compute gemm computes what the network computes: its convolutions and its dense layer forward, then with each
 * bucket the backward pass of the layers whose weights are in it (of all four: the first two have a batch for it alone,
 * in their model), and after the gradients SGD with momentum, bucket by bucket.
 *
 * --per-tensor reduces the tensors of a bucket one by one. One communicator over the world: its all-reduces run in the
 * order of issue, as buckets do.
 */
#include "proxies/author/args.h"
#include "proxies/author/proxy.h"
#include "proxies/author/script.h"
#include "proxies/models/residual.h"

#include <string.h>

/* What a row of the proxies below says to this builder. */
struct network {
    const char *model;
    bool ring;    /* neighbours instead of all-reduce             */
    bool overlap; /* start and go on, instead of waiting for each */
    bool strong;  /* a global batch divided by the ranks          */
};

/* One build. */
struct training {
    const struct bb_proxy_config *config;
    const struct network *network;
    struct bb_residual model;
    const struct bb_local_batch *batch; /* NULL: no times are known */
    double samples;                     /* of a rank, 0: none       */
    struct bb_step *step;
    const struct bb_kernel_list *forward, *backward[BB_RESIDUAL_BUCKETS]; /* real work; NULL without */
    struct bb_script script;
    struct bb_script_lane lane;
    int last; /* operation of the gradients */
};

/* The ranks for which the batch of each is known, nearest first. */
static int refuse_ranks(const struct training *t)
{
    int p = t->config->ranks, nearest = 0;

    for (int b = 0; b < t->model.n_batches; b++) {
        int ranks = t->model.global_batch / (int)t->model.batches[b].samples;

        if (nearest == 0 || abs(ranks - p) < abs(nearest - p))
            nearest = ranks;
    }
    return bb_err(BB_EUSAGE, "%s: the times of %d samples over %d rank%s are not known; nearest: %d ranks",
                  t->config->proxy, t->model.global_batch, p, p == 1 ? "" : "s", nearest);
}

static int choose_batch(struct training *t)
{
    const struct bb_residual *m = &t->model;

    if (!t->network->strong) {
        t->batch = m->n_batches ? &m->batches[0] : NULL;
        return 0;
    }
    for (int b = 0; b < m->n_batches; b++)
        if (m->batches[b].samples * t->config->ranks == m->global_batch)
            t->batch = &m->batches[b];
    return t->batch ? 0 : refuse_ranks(t);
}

static int choose_samples(struct training *t)
{
    bool real = strcmp(t->config->compute, "gemm") == 0;

    t->samples = t->batch ? t->batch->samples : real ? t->model.batch : 0;
    if (real && (t->samples < 1 || t->model.n_layers == 0))
        return bb_err(BB_EUSAGE, "%s: model %s has no layers or no batch for --compute gemm", t->config->proxy,
                      t->network->model);
    return 0;
}

/* The products and passes of the forward pass, and of the backward pass of each bucket. */
static int list_kernels(struct training *t)
{
    enum bb_dtype_id dtype = (enum bb_dtype_id)bb_dtype_find(t->config->dtype);
    const struct bb_residual *m = &t->model;
    struct bb_kernel_list *list = bb_step_add_kernel_list(t->step);
    bool fits = list && bb_residual_forward(m, (int64_t)t->samples, dtype, list);

    t->forward = list;
    for (int b = 0; list && b < m->n_buckets; b++) {
        t->backward[b] = list = bb_step_add_kernel_list(t->step);
        fits = list && fits &&
               bb_residual_backward(m, m->buckets[b].first, m->buckets[b].n, (int64_t)t->samples, dtype, list);
    }
    if (!list)
        return -BB_EFAIL;
    return fits ? 0 : bb_err(BB_EUSAGE, "%s: the layers of model %s do not fit", t->config->proxy, t->network->model);
}

/* Of the forward pass over a rank's samples; backward takes twice, shared by the buckets as its time is. */
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

/* Starts what the bucket sends and returns the last of it. */
static int start_bucket(struct training *t, const struct bb_bucket *bucket, const char *what)
{
    int op = BB_NONE;

    if (!t->config->per_tensor)
        return start_transfer(t, what, bucket->count);
    for (int i = bucket->first; i < bucket->first + bucket->n; i++) {
        const struct bb_tensor *tensor = &t->model.tensors[i];

        op = start_transfer(t, bb_script_text(&t->script, bb_step_text(t->step, "%s", tensor->name)), tensor->count);
        if (!t->network->overlap)
            bb_script_wait(&t->script, op);
    }
    return op;
}

static void write_bucket(struct training *t, int b)
{
    struct bb_script *s = &t->script;
    const char *what = bb_script_text(s, bb_step_text(t->step, "bucket %d", b));

    s->layer = b;
    s->phase = BB_PHASE_BACKWARD;
    if (t->batch)
        bb_script_compute(s, what, t->batch->bucket_backward_us, 2 * batch_flops(t) / t->model.n_buckets, BB_NONE,
                          BB_NONE);
    bb_script_real_work(s, what, t->backward[b], 1, BB_NONE, BB_NONE);
    s->phase = BB_PHASE_GRADIENTS;
    t->last = start_bucket(t, &t->model.buckets[b], what);
    if (!t->network->overlap)
        bb_script_wait(s, t->last);
}

/* After all gradients, whose operations run in order: the last one's end is theirs. */
static void update_parameters(struct training *t)
{
    const struct bb_residual *m = &t->model;

    bb_script_wait(&t->script, t->last);
    for (int b = 0; b < m->n_buckets; b++) {
        const char *what = bb_script_text(&t->script, bb_step_text(t->step, "bucket %d", b));

        t->script.layer = b;
        bb_script_optimizer(&t->script, t->step, BB_MEMORY_KERNEL_SGD, what, m->buckets[b].count);
    }
}

static int build_role(struct training *t)
{
    struct bb_script *s = &t->script;

    t->lane = bb_world_lane(t->step, s, "world");
    if (t->batch)
        bb_script_compute(s, "network", t->batch->forward_us, batch_flops(t), BB_NONE, BB_NONE);
    bb_script_real_work(s, "network", t->forward, 1, BB_NONE, BB_NONE);
    for (int b = 0; b < t->model.n_buckets; b++)
        write_bucket(t, b);
    if (s->real)
        update_parameters(t);
    return bb_script_result(s);
}

static int write_summary(struct training *t)
{
    struct bb_step *step = t->step;
    const char *how = t->network->ring ? "to the next rank" : "all-reduced";
    int p = t->config->ranks, tensors = t->model.n_tensors, buckets = t->model.n_buckets;

    step->parameters = t->model.parameters;
    step->samples = t->samples * p;
    step->summary = t->config->per_tensor
                        ? bb_step_text(step, "%d tensors %s over %d rank%s", tensors, how, p, p == 1 ? "" : "s")
                        : bb_step_text(step, "%d tensors in %d buckets %s over %d rank%s", tensors, buckets, how, p,
                                       p == 1 ? "" : "s");
    if (t->samples > 0 && step->summary)
        step->summary = bb_step_text(step, "%s, %g samples on each", step->summary, t->samples);
    return step->summary ? 0 : -BB_EFAIL;
}

static int build_step(const struct bb_proxy_config *c, struct bb_step *step)
{
    struct training t = {.config = c, .network = c->variant, .step = step};
    int rc;

    TRY(bb_residual_load(t.network->model, &t.model));
    TRY(choose_batch(&t));
    TRY(choose_samples(&t));
    TRY(bb_world_role(c, step, "worker", &t.script));
    TRY(write_summary(&t));
    if (t.script.real)
        TRY(list_kernels(&t));
    TRY(build_role(&t));
out:
    bb_residual_release(&t.model);
    return rc;
}

#define RESNET(word, file, text, times, how, ...)                                                                      \
    {                                                                                                                  \
        .name = word, .help = text, .model = file, .features = BB_FEATURE_PER_TENSOR | (times) | BB_FEATURE_GEMM,             \
        .compute = how, .build = build_step, .variant = &(const struct network)                                        \
        {                                                                                                              \
            .model = file, __VA_ARGS__                                                                                 \
        }                                                                                                              \
    }

const struct bb_proxy bb_resnet50_proxy =
    RESNET("resnet50", "resnet50", "ResNet-50: gradients in six buckets, one all-reduce after another", 0, "none",
           .ring = false);
const struct bb_proxy bb_resnet50_ring_proxy = RESNET(
    "resnet50_ring", "resnet50", "ResNet-50: the same buckets from each rank to the next", 0, "none", .ring = true);
const struct bb_proxy bb_resnet152_proxy =
    RESNET("resnet152", "resnet152", "ResNet-152: ten buckets reduced under the backward pass, 128 samples a rank",
           BB_FEATURE_TIMED, "timed", .overlap = true);
const struct bb_proxy bb_resnet152_scal_proxy =
    RESNET("resnet152_scal", "resnet152", "ResNet-152: the same with 32768 samples over 256, 512, 1024 or 2048 ranks",
           BB_FEATURE_TIMED, "timed", .overlap = true, .strong = true);
