/* net.c - builds a convolutional network from its model file, computes its totals and releases it; list of the
 * network families (see net.h). */
#include "proxies/workloads/spatial/net/net.h"

#include "bootstrap/base/alloc.h"
#include "proxies/form/models/model_file.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MAX_SIDE 65536

/* ---- shapes, parameters and FLOPs of a layer ---- */

static int shrink_size(int size, int stride)
{
    return size > 1 ? size / stride : 1;
}

int bb_net_layer_out_side(const struct bb_net_layer *l)
{
    return shrink_size(l->side, l->stride);
}

int bb_net_layer_out_depth(const struct bb_net_layer *l)
{
    return shrink_size(l->depth, l->stride);
}

static double kernel_elements(const struct bb_net_layer *l)
{
    return (double)l->kernel[0] * l->kernel[1] * l->kernel[2];
}

size_t bb_net_layer_parameters(const struct bb_net_layer *l)
{
    size_t weights = l->kind == BB_NET_POOL ? 0 : (size_t)kernel_elements(l) * (size_t)l->in * (size_t)l->out;

    return weights + (l->bias ? (size_t)l->out : 0) + 2 * (size_t)l->norm;
}

double bb_net_layer_flops(const struct bb_net_layer *l, int rows, int cols)
{
    if (l->kind == BB_NET_POOL)
        return 0;
    return 2 * kernel_elements(l) * l->in * l->out * bb_net_layer_out_depth(l) * rows * cols;
}

double bb_net_layer_activations(const struct bb_net_layer *l)
{
    double side = bb_net_layer_out_side(l), outputs = side * side * bb_net_layer_out_depth(l);
    double inputs = (double)l->side * l->side * l->depth;

    return (l->kind == BB_NET_POOL ? 0 : outputs * l->out) + (l->norms_input ? inputs : outputs) * l->norm;
}

static bool add_conv_kernels(struct bb_kernel_list *w, const struct bb_net_layer *l, int64_t samples, int rows,
                             int cols, enum bb_dtype_id dtype, bool backward)
{
    const int64_t stride = l->stride, depth = bb_net_layer_out_depth(l);
    const struct bb_conv conv = {.n = samples,
                                 .c = l->in,
                                 .d = (depth - 1) * stride + l->kernel[0],
                                 .h = (rows - 1) * stride + l->kernel[1],
                                 .w = (cols - 1) * stride + l->kernel[2],
                                 .k = l->out,
                                 .t = l->kernel[0],
                                 .r = l->kernel[1],
                                 .s = l->kernel[2],
                                 .stride = stride,
                                 .pad = 0,
                                 .dtype = dtype};

    return bb_kernel_list_conv(w, &conv, backward, !l->first);
}

/* A pooling layer is a copy kernel, because both kernels read an input and write an output. The number of copied
 * elements is the mean of the layer's input and output elements. */
bool bb_net_layer_kernels(struct bb_kernel_list *w, const struct bb_net_layer *l, int64_t samples, int rows, int cols,
                          enum bb_dtype_id dtype, bool backward)
{
    uint64_t stride = (uint64_t)l->stride, shrink = stride * stride * (l->depth > 1 ? stride : 1);
    uint64_t out = (uint64_t)bb_net_layer_out_depth(l) * (uint64_t)rows * (uint64_t)cols;
    const struct bb_memory_kernel pool = {.kind = BB_MEMORY_KERNEL_COPY,
                                          .dtype = dtype,
                                          .rows = (uint64_t)samples * (uint64_t)l->in,
                                          .cols = (out + out * shrink + 1) / 2};

    if (l->kind == BB_NET_CONV)
        return add_conv_kernels(w, l, samples, rows, cols, dtype, backward);
    if (l->kind == BB_NET_DENSE)
        return bb_kernel_list_dense(w, samples, l->in, l->out, BB_ACT_NONE, dtype, backward);
    bb_kernel_list_add_memory_kernel(w, "pool", &pool);
    return true;
}

size_t bb_map_elements(const struct bb_map *m)
{
    return (size_t)m->channels * (size_t)m->depth * (size_t)m->side * (size_t)m->side;
}

/* ---- construction of a network from modules and layers ---- */

/* Stores an allocated string in net->texts, so that the net owns it, and returns the string. */
static const char *keep_text(struct bb_net *net, char *text)
{
    BB_GROW(net->texts, net->n_texts);
    return net->texts[net->n_texts++] = text;
}

void bb_net_open_module(struct bb_net *net, const struct bb_module *attributes, const char *fmt, ...)
{
    char text[64];
    va_list args;

    va_start(args, fmt);
    vsnprintf(text, sizeof(text), fmt, args);
    va_end(args);
    BB_GROW(net->modules, net->n_modules);
    net->modules[net->n_modules] = *attributes;
    net->modules[net->n_modules].first = net->n_layers;
    net->modules[net->n_modules++].name = keep_text(net, bb_copy_text(text));
}

void bb_net_add_layer(struct bb_net *net, const struct bb_net_layer *layer)
{
    BB_GROW(net->layers, net->n_layers);
    net->layers[net->n_layers] = *layer;
    net->layers[net->n_layers].first = net->n_layers == 0;
    net->n_layers++;
}

struct bb_net_layer bb_net_conv(const char *name, int in, int out, int kernel, int stride, int side)
{
    return (struct bb_net_layer){.name = name,
                                 .kind = BB_NET_CONV,
                                 .in = in,
                                 .out = out,
                                 .kernel = {1, kernel, kernel},
                                 .stride = stride,
                                 .depth = 1,
                                 .side = side,
                                 .halo = {(kernel - 1) / 2, (kernel - 1) / 2}};
}

struct bb_net_layer bb_net_pool(const char *name, int channels, int window, int stride, int side)
{
    struct bb_net_layer pool = bb_net_conv(name, channels, channels, window, stride, side);

    pool.kind = BB_NET_POOL;
    pool.halo[0] = pool.halo[1] = 0;
    return pool;
}

void bb_net_add_dense(struct bb_net *net, int in, int out)
{
    struct bb_net_layer dense = bb_net_conv("dense", in, out, 1, 1, 1);

    dense.kind = BB_NET_DENSE;
    dense.bias = true;
    bb_net_add_layer(net, &dense);
}

void bb_net_close_module(struct bb_net *net, const struct bb_map *out, const struct bb_map *skipped)
{
    struct bb_module *m = &net->modules[net->n_modules - 1];

    m->n = net->n_layers - m->first;
    m->out[m->n_out++] = *out;
    if (skipped)
        m->out[m->n_out++] = *skipped;
    for (int i = m->first; i < net->n_layers; i++) {
        const struct bb_net_layer *l = &net->layers[i];
        int side = bb_net_layer_out_side(l);

        m->parameters += bb_net_layer_parameters(l);
        net->forward_flops += bb_net_layer_flops(l, side, side);
    }
    net->parameters += (double)m->parameters;
}

void bb_net_release(struct bb_net *net)
{
    for (int t = 0; t < net->n_texts; t++)
        free(net->texts[t]);
    free(net->texts);
    free(net->modules);
    free(net->layers);
    *net = (struct bb_net){0};
}

/* ---- families of networks (resnet, amoebanet, cosmoflow) ---- */

struct family {
    const char *name;
    bb_net_builder *make;
    int min_image;
};

static const struct family families[] = {
    {"preactivated_resnet", bb_net_build_resnet, 32},
    {"amoebanet", bb_net_build_amoebanet, 32},
    {"spatial_network", bb_net_build_cosmoflow, 32},
};

bool bb_net_has_family(const char *name)
{
    for (size_t f = 0; name && f < sizeof(families) / sizeof(families[0]); f++)
        if (strcmp(families[f].name, name) == 0)
            return true;
    return false;
}

static const struct family *find_family(const char *word, const char *found)
{
    for (size_t f = 0; f < sizeof(families) / sizeof(families[0]); f++)
        if (strcmp(families[f].name, found) == 0)
            return &families[f];
    bb_err(BB_EUSAGE,
           "%s: family '%s' does not support tiles and splits, expected --model resnet110_v2, amoebanet_d or cosmoflow",
           word, found);
    return NULL;
}

static int check_image(const char *name, int image, int min)
{
    int nearest = min;

    if (image >= min && image <= MAX_SIDE && (image & (image - 1)) == 0)
        return 0;
    while (nearest < MAX_SIDE && image - nearest > 2 * nearest - image)
        nearest *= 2;
    return bb_err(BB_EUSAGE,
                  "%s: image of %d x %d, expected a power of two from %d to %d, because layers halve the map; "
                  "try: --image-size %d",
                  name, image, image, min, MAX_SIDE, nearest);
}

static const struct bb_json_field parameters_field =
    BB_FIELD("parameters", BB_JSON_TOTAL, offsetof(struct bb_net, parameters));

/* Compares the number of parameters of the network with the total in the model file, if the file contains a total
 * for this image size. With --layers or --filters nothing is compared. */
static int check_total(const struct bb_model_file *file, struct bb_net *net, const struct bb_net_options *options)
{
    char key[16];
    const json_t *given;
    json_t *totals, *by_image;
    int rc = bb_json_object_at(file->root, "totals", file->where, &totals);

    if (rc || options->layers || options->filters)
        return rc;
    if (!options->image)
        return bb_json_read_field(totals, file->where, &parameters_field, net);
    by_image = json_object_get(totals, "parameters_by_image");
    snprintf(key, sizeof(key), "%d", net->image);
    given = json_object_get(by_image, key);
    return given ? bb_json_check_total(file->where, key, json_number_value(given), net->parameters) : 0;
}

int bb_net_load(const char *word, const struct bb_net_options *options, struct bb_net *net)
{
    struct bb_model_file file = {0};
    const struct family *family;
    const char *found;
    int rc;

    *net = (struct bb_net){.depth = 1};
    TRY(bb_model_file_load(&file, word, &found));
    family = find_family(word, found);
    TRY(family ? bb_model_file_begin(&file) : -BB_EUSAGE);
    net->name = keep_text(net, bb_copy_text(json_string_value(json_object_get(file.root, "name"))));
    TRY(bb_model_file_shape(&file, "image", &net->image));
    net->image = options->image ? options->image : net->image;
    TRY(check_image(net->name, net->image, family->min_image));
    TRY(family->make(net, &file, options));
    TRY(check_total(&file, net, options));
out:
    bb_model_file_close(&file);
    return rc;
}
