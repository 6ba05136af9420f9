/* network.c - reads a model file into a list of units (a unit is one layer: a convolution or a transformer layer,
 * see network.h), each with its parameter tensors and kernels. */
#include "proxies/workloads/replicas/network.h"

#include "bootstrap/base/alloc.h"
#include "proxies/form/models/profile.h"
#include "proxies/workloads/transformer/memory.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MAX_STAGES 8
#define MAX_BLOCKS 1000

/* ---- units (layers of the network) and their parameter tensors ---- */

/* Appends an empty unit (one layer of the network) to net->units. Returns a pointer that is valid until the next
 * call. */
static struct bb_network_unit *add_unit(struct bb_network *net, const char *name)
{
    BB_GROW(net->units, net->n);
    net->units[net->n] = (struct bb_network_unit){.name = bb_copy_text(name)};
    return &net->units[net->n++];
}

static void add_tensor(struct bb_network *net, struct bb_network_unit *unit, const char *name, size_t count)
{
    BB_GROW(unit->tensors, unit->n);
    unit->tensors[unit->n++] = (struct bb_tensor){.name = bb_format("%s.%s", unit->name, name), .count = count};
    net->parameters += (double)count;
    net->n_tensors++;
}

void bb_network_release(struct bb_network *net)
{
    for (int u = 0; u < net->n; u++) {
        for (int t = 0; t < net->units[u].n; t++)
            free((char *)net->units[u].tensors[t].name);
        free(net->units[u].tensors);
        free(net->units[u].name);
    }
    free(net->units);
    bb_net_release(&net->net);
    *net = (struct bb_network){0};
}

/* ---- model files of residual networks ---- */

/* State while the model file of a residual network is read. channels, edge: number of channels and height (= width)
 * of the tensor that the next convolution reads. */
struct network_builder {
    struct bb_network *net;
    const char *where;
    int channels, edge;
};

static int add_conv(struct network_builder *g, const char *name, int out, int kernel, int stride)
{
    struct bb_network_unit *unit = add_unit(g->net, name);
    struct bb_gemm_shape gemm;

    unit->conv = bb_conv_2d(1, g->channels, out, g->edge, kernel, stride, BB_FLOAT);
    if (!bb_conv_gemm(&unit->conv, BB_CONV_FORWARD, &gemm))
        return bb_err(BB_EUSAGE, "%s: convolution '%s' does not fit its input of %d x %d", g->where, name, g->edge,
                      g->edge);
    unit->sample_flops = bb_gemm_flops(&gemm);
    unit->stored = 2 * (double)gemm.m * (double)gemm.n; /* outputs of the convolution and of its batch norm */
    g->net->outputs += unit->stored / 2;
    add_tensor(g->net, unit, "weight", (size_t)kernel * (size_t)kernel * (size_t)g->channels * (size_t)out);
    add_tensor(g->net, unit, "norm.weight", (size_t)out);
    add_tensor(g->net, unit, "norm.bias", (size_t)out);
    unit->norm = out;
    g->channels = out;
    g->edge = (g->edge + 2 * ((kernel - 1) / 2) - kernel) / stride + 1;
    return 0;
}

/* Adds one residual block. A basic block has two 3x3 convolutions. A bottleneck block has 1x1, 3x3 and 1x1
 * convolutions, and the second 1x1 convolution has 4 * width output channels. If the block's input and output have
 * different shapes, a 1x1 projection for the shortcut is added. */
static int add_block(struct network_builder *g, int stage, int block, int width, bool bottleneck)
{
    const struct network_builder before = *g;
    int stride = stage > 1 && block == 0 ? 2 : 1, out = bottleneck ? 4 * width : width, rc;
    char name[64];

    snprintf(name, sizeof(name), "stage%d.block%d.conv1", stage, block);
    TRY(add_conv(g, name, width, bottleneck ? 1 : 3, bottleneck ? 1 : stride));
    name[strlen(name) - 1] = '2';
    TRY(add_conv(g, name, width, 3, bottleneck ? stride : 1));
    name[strlen(name) - 1] = '3';
    if (bottleneck)
        TRY(add_conv(g, name, out, 1, 1));
    if (stride > 1 || before.channels != out) {
        g->channels = before.channels;
        g->edge = before.edge;
        snprintf(name, sizeof(name), "stage%d.block%d.projection", stage, block);
        TRY(add_conv(g, name, out, 1, stride));
    }
    g->net->units[g->net->n - 1].joins = true;
out:
    return rc;
}

static void add_dense(struct network_builder *g, int classes)
{
    struct bb_network_unit *unit = add_unit(g->net, "head");

    unit->rows = 1;
    unit->in = g->channels;
    unit->out = classes;
    unit->sample_flops = 2.0 * g->channels * classes;
    add_tensor(g->net, unit, "weight", (size_t)g->channels * (size_t)classes);
    add_tensor(g->net, unit, "bias", (size_t)classes);
}

static int add_stages(struct network_builder *g, const json_t *part, int width, bool bottleneck)
{
    const json_t *blocks = json_object_get(part, "blocks");
    int stages = (int)json_array_size(blocks), rc = 0;

    if (stages < 1 || stages > MAX_STAGES)
        return bb_err(BB_EUSAGE, "%s: 'blocks' has %d element%s, expected a list of 1 to %d numbers", g->where, stages,
                      bb_plural(stages), MAX_STAGES);
    for (int s = 0; s < stages; s++) {
        json_int_t n = json_integer_value(json_array_get(blocks, (size_t)s));

        if (n < 1 || n > MAX_BLOCKS)
            return bb_err(BB_EUSAGE, "%s: element %d of 'blocks' must be a whole number from 1 to %d", g->where, s,
                          MAX_BLOCKS);
        for (int b = 0; b < n; b++)
            TRY(add_block(g, s + 1, b, width << s, bottleneck));
    }
out:
    return rc;
}

/* The totals of a network, and their names in the object "totals" of the model file. */
struct totals {
    double parameters, tensors, outputs, macs;
};
static const struct bb_json_field total_fields[] = {
    BB_FIELD("totals.parameters", BB_JSON_TOTAL, offsetof(struct totals, parameters)),
    BB_FIELD("totals.tensors", BB_JSON_TOTAL, offsetof(struct totals, tensors)),
    BB_FIELD("totals.outputs", BB_JSON_TOTAL, offsetof(struct totals, outputs)),
    BB_FIELD("totals.sample_macs", BB_JSON_TOTAL, offsetof(struct totals, macs)),
    {0}};

/* The members of the JSON object that describes a residual network in the model file. */
struct residual {
    int image, width, classes, batch, kernel, stride, pool;
    const char *block;
};

#define WHOLE(key, member, limit)                                                                                      \
    BB_FIELD(key, BB_JSON_WHOLE, offsetof(struct residual, member), .min = 1, .max = limit)
static const struct bb_json_field residual_fields[] = {
    WHOLE("image", image, 1 << 20),
    WHOLE("width", width, 1 << 16),
    WHOLE("classes", classes, 1 << 24),
    WHOLE("batch", batch, 1 << 20),
    BB_FIELD("block", BB_JSON_TEXT, offsetof(struct residual, block)),
    WHOLE("stem.kernel", kernel, 99),
    WHOLE("stem.stride", stride, 99),
    WHOLE("stem.pool", pool, 99),
    {0}};

static int read_residual(const json_t *part, const char *where, struct bb_network *net)
{
    struct network_builder g = {.net = net, .where = where, .channels = 3};
    struct totals totals;
    struct residual r;
    int rc;

    TRY(bb_json_read(part, where, residual_fields, &r));
    if (strcmp(r.block, "basic") != 0 && strcmp(r.block, "bottleneck") != 0)
        return bb_err(BB_EUSAGE, "%s: block is '%s', expected 'basic' or 'bottleneck'", where, r.block);
    net->batch = r.batch;
    g.edge = r.image;
    TRY(add_conv(&g, "stem", r.width, r.kernel, r.stride));
    g.edge /= r.pool;
    TRY(add_stages(&g, part, r.width, strcmp(r.block, "bottleneck") == 0));
    add_dense(&g, r.classes);
    for (int u = 0; u < net->n; u++)
        net->sample_flops += net->units[u].sample_flops;
    totals = (struct totals){net->parameters, net->n_tensors, net->outputs, net->sample_flops / 2};
    TRY(bb_json_read(part, where, total_fields, &totals));
    net->images = net->has_kernels = true;
out:
    return rc;
}

/* ---- networks for large images (spatial/net/net.h) ---- */

/* Adds a unit that ends in the convolution or dense layer `last`. `first`: the first of the pooling layers before it.
 * The tensors have the order in which MPI4DL's modules register them. */
static void add_net_unit(struct bb_network *net, const char *module, int first, int last)
{
    const struct bb_net_layer *layers = net->net.layers, *l = &layers[last];
    int side = bb_net_layer_out_side(l);
    char *name = bb_format("%s, %s", module, l->name);
    struct bb_network_unit *unit = add_unit(net, name);

    free(name);
    unit->layers = &layers[first];
    unit->n_layers = last - first + 1;
    unit->sample_flops = bb_net_layer_flops(l, side, side);
    net->sample_flops += unit->sample_flops;
    for (int i = first; i <= last; i++) {
        unit->stored += bb_net_layer_activations(&layers[i]);
        if (i == last)
            add_tensor(net, unit, "weight",
                       bb_net_layer_parameters(l) - (l->bias ? (size_t)l->out : 0) - 2 * (size_t)l->norm);
        if (i == last && l->bias)
            add_tensor(net, unit, "bias", (size_t)l->out);
        if (!layers[i].norm)
            continue;
        unit->norm += layers[i].norm;
        add_tensor(net, unit, "norm.weight", (size_t)layers[i].norm);
        add_tensor(net, unit, "norm.bias", (size_t)layers[i].norm);
    }
}

static int read_net(const struct bb_proxy_config *c, struct bb_network *net)
{
    const struct bb_net_options options = {c->tiles.image_size, c->layers, c->tiles.filters};
    int first = 0, rc;

    TRY(bb_net_load(c->model, &options, &net->net));
    for (int m = 0; m < net->net.n_modules; m++) {
        const struct bb_module *module = &net->net.modules[m];

        for (int i = module->first; i < module->first + module->n; i++) {
            if (net->net.layers[i].kind == BB_NET_POOL)
                continue;
            add_net_unit(net, module->name, first, i);
            first = i + 1;
        }
    }
    net->batch = 1;
    net->images = net->has_kernels = true;
out:
    return rc;
}

static int validate_net_options(const struct bb_proxy_config *c)
{
    const char *option = c->tiles.image_size ? "image-size"
                         : c->layers         ? "layers"
                         : c->tiles.filters  ? "filters"
                                             : NULL;

    if (!option)
        return 0;
    return bb_err(BB_EUSAGE, "%s: --%s is not supported for model %s, expected --model resnet110_v2 or amoebanet_d",
                  c->proxy, option, c->model);
}

/* ---- model files of transformers ---- */

/* Returns the FLOPs of the forward pass of one sample through one layer: 2 per token for each element of the layer's
 * weight matrices, plus those of the attention scores and values. Expert weights count with the factor top_k /
 * experts, because each token uses top_k experts. layer: index of the layer, BB_ARCH_EMBEDDING or BB_ARCH_HEAD;
 * tensors: [n] parameter tensors of the layer. */
static double arch_flops(const struct bb_arch *a, int layer, const struct bb_arch_tensor *tensors, int n)
{
    double flops = 0, s = a->sequence;

    for (int t = 0; t < n; t++) {
        const char *name = tensors[t].name;

        if (strstr(name, "weight") && !strstr(name, "norm") && strncmp(name, "embedding", 9) != 0) /* a matrix */
            flops += 2 * (double)tensors[t].count * (tensors[t].expert ? (double)a->top_k / a->experts : 1) *
                     (strstr(name, "pooler") ? 1 : s);
    }
    if (layer >= 0)
        flops += bb_arch_core_flops(a, layer, a->sequence);
    if (layer == BB_ARCH_HEAD && a->tied && !a->post_norm)
        flops += 2 * s * a->hidden * a->vocab;
    return flops;
}

static void add_arch_unit(struct bb_network *net, int layer, const char *name)
{
    const struct bb_arch *a = &net->arch;
    struct bb_arch_tensor tensors[BB_ARCH_TENSORS];
    struct bb_network_unit *unit = add_unit(net, name);
    int n = bb_arch_tensors(a, layer, tensors);

    for (int t = 0; t < n; t++)
        add_tensor(net, unit, tensors[t].name, tensors[t].count);
    unit->sample_flops = arch_flops(a, layer, tensors, n);
    net->sample_flops += unit->sample_flops;
    if (layer == BB_ARCH_EMBEDDING) {
        unit->tokens = (uint64_t)a->sequence;
        unit->in = a->vocab;
        unit->out = a->hidden;
    } else if (layer == BB_ARCH_HEAD) {
        unit->rows = a->post_norm ? 1 : a->sequence; /* post_norm is set for BERT, whose last layer (the pooler)
                                                        reads only the first token */
        unit->in = a->hidden;
        unit->out = a->post_norm ? a->hidden : a->vocab;
    } else {
        unit->layer = (struct bb_transformer){.hidden = a->hidden,
                                              .ffn = a->ffn,
                                              .heads = a->heads,
                                              .sequence = a->sequence,
                                              .batch = 1,
                                              .tensor_parallel = 1};
    }
}

static int read_transformer(const json_t *root, const char *word, struct bb_network *net)
{
    struct bb_arch *arch = &net->arch;
    char name[32];
    int rc;

    TRY(bb_arch_read(root, word, arch));
    add_arch_unit(net, BB_ARCH_EMBEDDING, "embedding");
    for (int i = 0; i < arch->layers; i++) {
        snprintf(name, sizeof(name), "layer%d", i);
        add_arch_unit(net, i, name);
    }
    add_arch_unit(net, BB_ARCH_HEAD, "head");
    net->batch = 1;
    net->has_kernels = !arch->gated && !arch->experts && !arch->kv_lora && !arch->window && !arch->scan.heads &&
                       !arch->kinds[0] && !arch->encoder_layers && arch->kv_heads == arch->heads;
out:
    return rc;
}

int bb_network_load(const struct bb_proxy_config *c, struct bb_network *net)
{
    json_t *root = NULL, *part;
    int rc;

    *net = (struct bb_network){0};
    TRY(bb_profile_load("models", c->model, &root));
    part = json_object_get(root, "network");
    if (!json_is_object(part) && bb_net_has_family(json_string_value(json_object_get(root, "family"))))
        TRY(read_net(c, net));
    else
        TRY(validate_net_options(c));
    if (json_is_object(part))
        TRY(read_residual(part, c->model, net));
    else if (!net->images)
        TRY(read_transformer(root, c->model, net));
out:
    json_decref(root);
    if (rc)
        bb_network_release(net);
    return rc;
}

/* ---- memory of activations ---- */

double bb_network_unit_activations(const struct bb_network *net, int unit, int samples, enum bb_dtype_id dtype)
{
    static const struct bb_grid alone = {.tp = 1, .cp = 1, .dp = 1, .pp = 1, .ep = 1, .etp = 1, .edp = 1};
    const struct bb_layers_config layers_config = {
        .sequence = net->arch.sequence, .micro_batch_size = samples, .dtype = dtype};
    const struct bb_memory m = {.arch = &net->arch, .grid = &alone, .layers_config = &layers_config};

    if (net->images)
        return net->units[unit].stored * samples * bb_dtypes[dtype].bytes;
    if (unit == 0)
        return bb_memory_embedding(&m);
    return unit == net->n - 1 ? bb_memory_head(&m) : bb_memory_layer(&m, unit - 1);
}

double bb_network_activations(const struct bb_network *net, int samples, enum bb_dtype_id dtype)
{
    double bytes = 0;

    for (int unit = 0; unit < net->n; unit++)
        bytes += bb_network_unit_activations(net, unit, samples, dtype);
    return bytes;
}

/* ---- kernels of one unit (layer of the network) ---- */

/* Appends the sum of a block's output and its shortcut, or of their gradients: two arrays are read, one is written. */
static void add_join(struct bb_kernel_list *w, const struct bb_network_unit *u, int64_t samples, enum bb_dtype_id dtype)
{
    const struct bb_memory_kernel sum = {.kind = BB_MEMORY_KERNEL_BIAS_ACT_GRAD,
                                         .dtype = dtype,
                                         .rows = (uint64_t)(u->stored / 2 / (double)u->conv.k) * (uint64_t)samples,
                                         .cols = (uint64_t)u->conv.k};

    bb_kernel_list_add_memory_kernel(w, "residual", &sum);
}

bool bb_network_add_kernels(const struct bb_network *net, int unit, int64_t samples, enum bb_dtype_id dtype,
                            bool backward, struct bb_kernel_list *w)
{
    const struct bb_network_unit *u = &net->units[unit];
    struct bb_conv conv = u->conv;
    struct bb_transformer layer = u->layer;

    for (int i = 0; i < u->n_layers; i++) {
        int side = bb_net_layer_out_side(&u->layers[i]);

        if (!bb_net_layer_kernels(w, &u->layers[i], samples, side, side, dtype, backward))
            return false;
    }
    if (u->n_layers)
        return true;
    conv.n = samples;
    conv.dtype = dtype;
    layer.batch = samples;
    layer.dtype = dtype;
    if (u->tokens) { /* if the unit is the embedding: the forward pass reads rows of the embedding table, the
                        backward pass writes the same number of gradient rows */
        bb_kernel_list_embedding(w, u->tokens * (uint64_t)samples, (uint64_t)u->out, (uint64_t)u->in, dtype);
        return true;
    }
    if (conv.k) {
        if (u->joins && backward)
            add_join(w, u, samples, dtype);
        if (!bb_kernel_list_conv(w, &conv, backward, unit > 0))
            return false;
        if (u->joins && !backward)
            add_join(w, u, samples, dtype);
        return true;
    }
    if (layer.heads)
        return bb_kernel_list_transformer(w, &layer, backward);
    return bb_kernel_list_dense(w, u->rows * samples, u->in, u->out, BB_ACT_NONE, dtype, backward);
}
