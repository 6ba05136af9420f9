/*
 * cosmoflow.c - the proxy cosmoflow: spatial model parallelism x data parallelism. Each replica of the model is divided
 * into four shards. A 2x2 grid of tiles, one per shard, divides the volume of the convolutions in two of its three
 * dimensions; each dense layer is divided into four parts by its outputs.
 *
 * rank = replica * 4 + m, where m is the number of the shard (0 to 3). Groups: mp, the four shards of one replica,
 * which are consecutive ranks; dense_dp, shard m of all replicas; world, all ranks. The weights of a convolution are
 * the same on all shards, so their gradients are reduced over the world. Shard m exchanges halos with m xor 1 and m xor
 * 2, and nothing with its diagonal neighbour m xor 3.
 *
 *   forward    convolutions 0 to 4, each except 0 after a halo exchange; then dense layers 0 to 2, each after an
 *              all-gather
 *   backward   dense layers 2, 1, 0, each followed by a reduce-scatter; then the start of the all-reduce of all dense
 *              gradients; then convolutions 4 to 0, each followed by a halo exchange (except 0) and the start of the
 *              all-reduce of its gradients
 *
 * The end of the step waits for the all-reduces, which overlap with the rest of the backward pass and its halo
 * exchanges, because mp, dense_dp and world are separate communicators.
 *
 * --compute gemm runs the convolutions of a shard on its tile, and each dense layer for a quarter of its outputs.
 * Separate kernels pack and unpack the two faces of each halo. SGD with momentum updates all parameters whose gradients
 * the shard has reduced. Pooling has no kernel, because current libraries fuse it into the activation kernel.
 */
#include "proxies/form/author/args.h"
#include "proxies/form/author/proxy.h"
#include "proxies/form/author/script.h"
#include "proxies/form/models/model_file.h"

#include <string.h>

#define CONVS  5
#define DENSES 3
#define SHARDS 4

struct model {
    int batch;
    size_t conv[CONVS]; /* number of parameters of each convolution, weights and biases together */
    size_t face[CONVS]; /* for each convolution, number of elements of its output that a shard sends to one neighbour
                           as halo */
    size_t dense;       /* number of parameters of all dense layers together that one shard stores */
    size_t exchange[DENSES]; /* for each dense layer, number of elements of its input that one shard stores */
    double forward_us[CONVS + DENSES], backward_us[CONVS + DENSES];
    double forward_flops[CONVS + DENSES]; /* FLOPs of each layer's forward pass on one shard, for all samples of the
                                             step; the backward pass has twice as many */
    /* edge: edge length of each convolution's whole input volume, in elements; in, out: number of its input channels
     * and of its output channels */
    int edge[CONVS], in[CONVS], out[CONVS];
    int kernel, width_in[DENSES], width_out[DENSES];
    int convolutions, shards; /* numbers of convolutions and of shards in the model file, which must equal CONVS and
                                 SHARDS */
    double parameters;
};

/* ---- reading of the model file ---- */

static int read_convolutions(struct bb_model_file *file, struct model *m)
{
    int image, in, out, rc;

    TRY(bb_model_file_shape(file, "image", &image));
    TRY(bb_model_file_shape(file, "input_channels", &in));
    TRY(bb_model_file_shape(file, "channels", &out));
    for (int l = 0; l < CONVS; l++, in = out, out *= 2, image /= 2) {
        TRY(bb_model_file_set(file, "in", in));
        TRY(bb_model_file_set(file, "out", out));
        TRY(bb_model_file_set(file, "edge", image));
        m->edge[l] = image;
        m->in[l] = in;
        m->out[l] = out;
        TRY(bb_model_file_count_at(file, file->root, "conv_parameters", &m->conv[l]));
        TRY(bb_model_file_count_at(file, file->root, "halo", &m->face[l]));
        TRY(bb_model_file_number_at(file, file->root, "conv_flops", &m->forward_flops[l]));
    }
out:
    return rc;
}

static int read_dense(struct bb_model_file *file, struct model *m)
{
    const json_t *widths;
    size_t in, out, parameters;
    int rc;

    TRY(bb_json_list_at(file->root, "dense_widths", file->where, DENSES + 1, &widths, NULL));
    TRY(bb_model_file_count_in(file, widths, "dense_widths", 0, &in));
    for (int l = 0; l < DENSES; l++, in = out) {
        TRY(bb_model_file_count_in(file, widths, "dense_widths", l + 1, &out));
        TRY(bb_model_file_set(file, "in", (double)in));
        TRY(bb_model_file_set(file, "out", (double)out));
        TRY(bb_model_file_count_at(file, file->root, "dense_parameters", &parameters));
        TRY(bb_model_file_count_at(file, file->root, "dense_exchange", &m->exchange[l]));
        TRY(bb_model_file_number_at(file, file->root, "dense_flops", &m->forward_flops[CONVS + l]));
        m->dense += parameters;
        m->width_in[l] = (int)in;
        m->width_out[l] = (int)out;
    }
out:
    return rc;
}

#define AT(member) offsetof(struct model, member)

static const struct bb_json_field model_fields[] = {
    BB_FIELD("batch", BB_MODEL_SHAPE, AT(batch)),
    BB_FIELD("kernel", BB_MODEL_SHAPE, AT(kernel)),
    BB_FIELD("convolutions", BB_MODEL_SHAPE, AT(convolutions)),
    BB_FIELD("shards", BB_MODEL_SHAPE, AT(shards)),
    BB_FIELD("forward_us.conv", BB_JSON_NUMBERS, AT(forward_us), .n = CONVS),
    BB_FIELD("forward_us.dense", BB_JSON_NUMBERS, AT(forward_us[CONVS]), .n = DENSES),
    BB_FIELD("backward_us.conv", BB_JSON_NUMBERS, AT(backward_us), .n = CONVS),
    BB_FIELD("backward_us.dense", BB_JSON_NUMBERS, AT(backward_us[CONVS]), .n = DENSES),
    {0}};

static const struct bb_json_field totals[] = {
    BB_FIELD("totals.dense_shard", BB_JSON_COUNT_TOTAL, AT(dense)),
    BB_FIELD("totals.conv", BB_JSON_COUNT_TOTALS, AT(conv), .n = CONVS),
    BB_FIELD("totals.faces", BB_JSON_COUNT_TOTALS, AT(face), .n = CONVS),
    BB_FIELD("totals.dense_exchange", BB_JSON_COUNT_TOTALS, AT(exchange), .n = DENSES),
    BB_FIELD("totals.parameters", BB_JSON_TOTAL, AT(parameters)),
    {0}};

static int read_model(struct model *m)
{
    struct bb_model_file file;
    int rc;

    TRY(bb_model_file_open(&file, "cosmoflow", "spatial_network"));
    TRY(bb_model_file_read(&file, file.root, model_fields, m));
    /* This proxy supports only the numbers of convolutions and shards that CONVS and SHARDS define. */
    if (m->convolutions != CONVS || m->shards != SHARDS)
        TRY(bb_err(BB_EUSAGE, "%s: the model has %d convolutions and %d shards, expected %d convolutions and %d shards",
                   file.where, m->convolutions, m->shards, CONVS, SHARDS));
    TRY(read_convolutions(&file, m));
    TRY(read_dense(&file, m));
    m->parameters = (double)m->dense * SHARDS;
    for (int l = 0; l < CONVS; l++)
        m->parameters += (double)m->conv[l];
    TRY(bb_json_read(file.root, file.where, totals, m));
out:
    bb_model_file_close(&file);
    return rc;
}

/* ---- kernels of --compute gemm ---- */

/* Kernel lists for all shards. The lists of halo kernels differ between shards, because shards have neighbours on
 * different sides. */
struct kernels {
    const struct bb_kernel_list *layer[2][CONVS + DENSES]; /* kernels of one layer in one pass, indexed by [0:
                                                              forward, 1: backward][layer] */
    /* kernels that pack or unpack the halo of a convolution's output (forward) or of its gradient (backward),
     * indexed by [shard][0: forward, 1: backward][0: pack the sent halo, 1: unpack the received halo][convolution] */
    const struct bb_kernel_list *halo[SHARDS][2][2][CONVS];
};

static bool add_layer_kernels(const struct model *m, int l, bool backward, enum bb_dtype_id dtype,
                              struct bb_kernel_list *w)
{
    int d = l - CONVS;
    const struct bb_conv tile = {.n = m->batch,
                                 .c = l < CONVS ? m->in[l] : 1,
                                 .d = l < CONVS ? m->edge[l] : 1,
                                 .h = l < CONVS ? m->edge[l] / 2 : 1,
                                 .w = l < CONVS ? m->edge[l] / 2 : 1,
                                 .k = l < CONVS ? m->out[l] : 1,
                                 .t = m->kernel,
                                 .r = m->kernel,
                                 .s = m->kernel,
                                 .stride = 1,
                                 .pad = m->kernel / 2,
                                 .dtype = dtype};

    if (l < CONVS)
        return bb_kernel_list_conv(w, &tile, backward, l > 0);
    return bb_kernel_list_dense(w, m->batch, m->width_in[d], m->width_out[d] / SHARDS, BB_ACT_RELU, dtype, backward);
}

static int list_layers(const struct model *m, struct bb_step *step, enum bb_dtype_id dtype, struct kernels *kernels)
{
    for (int i = 0; i < 2 * (CONVS + DENSES); i++) {
        int l = i / 2, backward = i % 2, gemms = backward && l > 0 ? 2 : 1;
        struct bb_kernel_list *w = bb_step_add_kernel_list(step);

        if (!add_layer_kernels(m, l, backward, dtype, w) || bb_kernel_list_flops(w) != gemms * m->forward_flops[l])
            return bb_err(BB_EUSAGE, "%s: the GEMMs of layer %d do not add up to the model file's %.0f FLOPs",
                          step->proxy, l, m->forward_flops[l]);
        kernels->layer[backward][l] = w;
    }
    return 0;
}

/* Creates the lists of the kernels that pack and unpack the halo of the output of each convolution: the two faces of a
 * shard's tile that border on other tiles. Horizontal neighbours are shards 0 and 1, and shards 2 and 3; vertical
 * neighbours are shards 0 and 2, and shards 1 and 3. */
static int list_halos(const struct model *m, struct bb_step *step, enum bb_dtype_id dtype, struct kernels *kernels)
{
    for (int i = 0; i < SHARDS * 4 * CONVS; i++) {
        int l = i % CONVS, shard = i / CONVS / 4, backward = i / CONVS / 2 % 2, received = i / CONVS % 2;
        const uint32_t half = (uint32_t)m->edge[l] / 2, tile[3] = {(uint32_t)m->edge[l], half, half};
        const uint32_t halo[3] = {0, 1, 1};
        const int horizontal[3] = {0, 0, shard & 1 ? -1 : 1}, vertical[3] = {0, shard & 2 ? -1 : 1, 0};
        const uint64_t rows = (uint64_t)m->batch * (uint64_t)m->out[l];
        struct bb_kernel_list *w = bb_step_add_kernel_list(step);

        if (!bb_kernel_list_halo_side(w, rows, tile, halo, horizontal, received, backward, dtype) ||
            !bb_kernel_list_halo_side(w, rows, tile, halo, vertical, received, backward, dtype) ||
            rows * bb_box_cells(&w->items[0].memory_kernel.box) != m->face[l] || w->n != 2)
            return bb_err(BB_EUSAGE,
                          "%s: the halo faces of convolution %d do not have %zu elements, as the model file requires",
                          step->proxy, l, m->face[l]);
        kernels->halo[shard][backward][received][l] = w;
    }
    return 0;
}

/* ---- program of one shard ---- */

struct shard {
    const struct model *model;
    const struct kernels *kernels;
    struct bb_step *step;
    int number;
    struct bb_script script;
    struct bb_script_lane mp, dense, world;
    int partners[2]; /* rank offsets from this shard to its two halo neighbours */
    int last[2];     /* program index of the latest gradient all-reduce: [0] over the group dense_dp, [1] over the group
                    world */
};

static const char *const layer_names[CONVS + DENSES] = {"conv 0", "conv 1",  "conv 2",  "conv 3",
                                                        "conv 4", "dense 0", "dense 1", "dense 2"};

/* Adds the compute of one layer to the program. Layers 0 to CONVS - 1 are convolutions; the dense layers follow. */
static void write_layer(struct shard *h, int layer)
{
    bool forward = h->script.phase == BB_PHASE_FORWARD;

    h->script.layer = layer;
    bb_script_compute(&h->script, layer_names[layer],
                      forward ? h->model->forward_us[layer] : h->model->backward_us[layer],
                      (forward ? 1 : 2) * h->model->forward_flops[layer], BB_NONE, BB_NONE);
    bb_script_real_work(&h->script, layer_names[layer], h->kernels->layer[!forward][layer], 1, BB_NONE, BB_NONE);
}

static void copy_faces(struct shard *h, int l, bool received)
{
    const bool backward = h->script.phase == BB_PHASE_BACKWARD;

    bb_script_real_work(&h->script, received ? "halo unpack" : "halo pack",
                        h->kernels->halo[h->number][backward][received][l], 1, BB_NONE, BB_NONE);
}

/* Adds the kernels that pack a halo, and the messages that exchange it with both neighbours. Forward: halo of the
 * output of convolution l; backward: halo of the gradient of this output. */
static void exchange_halo(struct shard *h, int l)
{
    const char *what = h->script.phase == BB_PHASE_FORWARD ? "halo" : "halo of gradients";

    copy_faces(h, l, false);
    bb_script_wait(&h->script,
                   bb_script_exchange(&h->script, h->mp, what, h->partners, h->partners, 2, h->model->face[l]));
}

/* Adds the exchange of a dense layer's input among the shards of a replica. kind: BB_ALL_GATHER (forward pass)
 * gathers the input from all shards; BB_REDUCE_SCATTER (backward pass) sums and scatters the gradient of the input.
 * part: number of input elements that one shard stores. */
static void exchange_dense(struct shard *h, enum bb_coll_kind kind, size_t part)
{
    struct bb_script *s = &h->script;
    bool gather = kind == BB_ALL_GATHER;
    int src = bb_script_buffer(s, "send", BB_USE_COMMUNICATION, gather ? part : part * SHARDS);
    int dst = bb_script_buffer(s, "receive", BB_USE_COMMUNICATION, gather ? part * SHARDS : part);
    const char *what = gather ? "dense input" : "dense input gradients";

    bb_script_wait(s, bb_script_collective(s, h->mp, what, kind, part, src, dst));
}

static void reduce_gradients(struct shard *h, struct bb_script_lane lane, const char *what, size_t count)
{
    h->script.phase = BB_PHASE_GRADIENTS;
    h->last[lane.comm == h->world.comm] = bb_script_all_reduce(&h->script, lane, what, count);
    h->script.phase = BB_PHASE_BACKWARD;
}

static void write_forward(struct shard *h)
{
    h->script.phase = BB_PHASE_FORWARD;
    for (int l = 0; l < CONVS + DENSES; l++) {
        h->script.layer = l;
        if (l > 0 && l < CONVS) {
            exchange_halo(h, l - 1);
            copy_faces(h, l - 1, true);
        }
        if (l >= CONVS)
            exchange_dense(h, BB_ALL_GATHER, h->model->exchange[l - CONVS]);
        write_layer(h, l);
    }
}

static void write_backward(struct shard *h)
{
    h->script.phase = BB_PHASE_BACKWARD;
    for (int l = CONVS + DENSES - 1; l >= CONVS; l--) {
        write_layer(h, l);
        exchange_dense(h, BB_REDUCE_SCATTER, h->model->exchange[l - CONVS]);
    }
    reduce_gradients(h, h->dense, "dense gradients", h->model->dense);
    for (int l = CONVS - 1; l >= 0; l--) {
        write_layer(h, l);
        if (l > 0)
            exchange_halo(h, l);
        reduce_gradients(h, h->world, layer_names[l], h->model->conv[l]);
        if (l > 0)
            copy_faces(h, l, true);
    }
}

static void update_parameters(struct shard *h)
{
    struct bb_script *s = &h->script;

    bb_script_wait(s, h->last[0]);
    bb_script_wait(s, h->last[1]);
    s->layer = BB_NONE;
    bb_script_optimizer(s, h->step, BB_MEMORY_KERNEL_SGD, "dense", h->model->dense);
    for (s->layer = 0; s->layer < CONVS; s->layer++)
        bb_script_optimizer(s, h->step, BB_MEMORY_KERNEL_SGD, layer_names[s->layer], h->model->conv[s->layer]);
}

/* ---- communicators and roles of the step ---- */

static int build_role(const struct bb_proxy_config *c, const struct model *m, const struct kernels *kernels,
                      struct bb_step *step, int shard)
{
    struct shard h = {.model = m,
                      .kernels = kernels,
                      .step = step,
                      .number = shard,
                      .partners = {(shard ^ 1) - shard, (shard ^ 2) - shard}};
    struct bb_role *role = &step->roles[shard];

    role->name = bb_step_text(step, "shard %d", shard);
    bb_script_init(&h.script, &role->program, c);
    h.mp = bb_script_lane(&h.script, &step->layout, 0);
    h.dense = bb_script_lane(&h.script, &step->layout, 1);
    h.world = bb_script_lane(&h.script, &step->layout, 2);
    write_forward(&h);
    write_backward(&h);
    if (h.script.real)
        update_parameters(&h);
    return bb_script_result(&h.script);
}

static int build_step(const struct bb_proxy_config *c, struct bb_step *step)
{
    struct model m = {0};
    struct kernels kernels = {0};
    const enum bb_dtype_id dtype = (enum bb_dtype_id)bb_dtype_find(c->dtype);
    int replicas = c->ranks / SHARDS, rc;
    const struct bb_axis axes[] = {{"mp", SHARDS}, {"dp", replicas}};
    struct bb_layout *l = &step->layout;

    TRY(bb_args_check_ranks(c, SHARDS, "shards of a model"));
    TRY(read_model(&m));
    TRY(bb_layout_init(l, c->ranks, axes, 2));
    /* build_role uses the fixed indices of these communicators: 0 is mp (all shards of one replica), 1 is dense_dp (the
     * same shard of all replicas), 2 is world (all ranks) */
    bb_layout_add_comm(l, "mp", bb_layout_add_group(l, "mp", 1u << 0));
    bb_layout_add_comm(l, "dense_dp", bb_layout_add_group(l, "dense_dp", 1u << 1));
    bb_layout_add_comm(l, "world", bb_layout_add_group(l, "world", 1u << 0 | 1u << 1));
    TRY(bb_step_add_roles(step, SHARDS));
    step->parameters = m.parameters;
    step->samples = (double)m.batch * replicas;
    step->summary =
        bb_step_text(step, "2x2 shards, %d replica%s with a batch of %d each", replicas, bb_plural(replicas), m.batch);
    if (strcmp(c->compute, "gemm") == 0) {
        TRY(list_layers(&m, step, dtype, &kernels));
        TRY(list_halos(&m, step, dtype, &kernels));
    }
    for (int i = 0; i < SHARDS; i++)
        TRY(build_role(c, &m, &kernels, step, i));
    for (int r = 0; r < c->ranks; r++)
        step->role_of[r] = r % SHARDS;
out:
    return rc;
}

const struct bb_proxy bb_cosmoflow_proxy = {
    .name = "cosmoflow",
    .help = "CosmoFlow: halo exchange of 2x2 tiles, split dense layers, gradients overlap the backward pass",
    .model = "cosmoflow",
    .features = BB_FEATURE_TIMED | BB_FEATURE_GEMM | BB_FEATURE_OWN_AXES,
    .compute = "timed",
    .build = build_step};
