/* compute_cases.c - see compute_cases.h. */
#include "collectives/compute/compute_cases.h"

#include <stdio.h>

/* ---- GEMMs to measure ---- */

struct layer {
    const char *name;
    struct bb_transformer t;
};

/* Fields: name, then {hidden size, FFN size, heads, sequence length, samples, GPUs that share the layer, element
 * type}. */
static const struct layer layers[] = {
    {"gpt2_large", {1280, 5120, 20, 1024, 8, 1, BB_FLOAT}},
    {"gpt3/4", {12288, 49152, 96, 2048, 1, 4, BB_FLOAT}},
};
static const struct layer quick_layers[] = {{"tiny", {64, 256, 4, 32, 1, 1, BB_FLOAT}}};

static const int64_t squares[] = {1024, 2048, 4096, 8192}, quick_squares[] = {64, 128};

struct filter {
    const char *name;
    struct bb_conv v;
};

/* Convolution layers. Fields: name, then {samples, channels, depth, height, width, filters, filter depth, filter
 * height and width, stride, padding, element type}. */
static const struct filter filters[] = {
    {"resnet50 conv1", {128, 3, 1, 224, 224, 64, 1, 7, 7, 2, 3, BB_FLOAT}},
    {"resnet50 conv4 3x3", {128, 256, 1, 14, 14, 256, 1, 3, 3, 1, 1, BB_FLOAT}},
    {"cosmoflow/4 conv1", {8, 32, 64, 32, 32, 64, 3, 3, 3, 1, 1, BB_FLOAT}},
};

struct list {
    struct bb_gemm_case *cases;
    int n;
    enum bb_dtype_id dtype;
};

static void append_case(struct list *l, const char *layer, const char *what, const struct bb_gemm_shape *shape)
{
    struct bb_gemm_case *c = &l->cases[l->n];

    if (l->n == BB_COMPUTE_GEMMS)
        return;
    snprintf(c->name, sizeof c->name, "%s%s%s", layer, *what ? " " : "", what);
    c->shape = *shape;
    c->shape.dtype = l->dtype;
    l->n++;
}

#define LENGTH(array) (sizeof(array) / sizeof *(array))

int bb_compute_gemms(enum bb_dtype_id dtype, bool quick, struct bb_gemm_case cases[BB_COMPUTE_GEMMS])
{
    const struct layer *chosen = quick ? quick_layers : layers;
    const int64_t *sizes = quick ? quick_squares : squares;
    struct bb_gemm_shape gemms[BB_TRANSFORMER_GEMMS];
    struct list l = {cases, 0, dtype};

    for (size_t i = 0; i < (quick ? LENGTH(quick_squares) : LENGTH(squares)); i++)
        append_case(&l, "square", "", &(struct bb_gemm_shape){.m = sizes[i], .n = sizes[i], .k = sizes[i], .batch = 1});
    for (size_t i = 0; i < (quick ? LENGTH(quick_layers) : LENGTH(layers)); i++)
        for (int g = 0; bb_transformer_gemms(&chosen[i].t, gemms) && g < BB_TRANSFORMER_GEMMS; g++)
            append_case(&l, chosen[i].name, bb_transformer_gemm_names[g], &gemms[g]);
    for (size_t i = 0; i < LENGTH(filters) && !quick; i++)
        if (bb_conv_gemm(&filters[i].v, BB_CONV_FORWARD, &gemms[0]))
            append_case(&l, filters[i].name, "", &gemms[0]);
    return l.n;
}

/* ---- memory-bound kernels to measure ---- */

#define HIDDEN .cols = 4096
/* The kernels that pack and unpack halos copy a face of 64 x 64 elements at the border of a 3-D tile. The tile has few
 * elements perpendicular to the face, to save memory. */
static const struct bb_memory_kernel_case memory_kernels[] = {
    {"copy", {.kind = BB_MEMORY_KERNEL_COPY, HIDDEN}},
    {"embed", {.kind = BB_MEMORY_KERNEL_EMBED, HIDDEN, .in_rows = 50257}},
    {"permute", {.kind = BB_MEMORY_KERNEL_PERMUTE, HIDDEN, .in_rows = 8192}},
    {"unpermute top 2", {.kind = BB_MEMORY_KERNEL_UNPERMUTE, HIDDEN, .in_rows = 8192, .top_k = 2}},
    {"halo_pack depth", {.kind = BB_MEMORY_KERNEL_PACK, .box = {{3, 66, 66}, {1, 1, 1}, {1, 64, 64}}}},
    {"halo_pack width", {.kind = BB_MEMORY_KERNEL_PACK, .box = {{66, 66, 6}, {1, 1, 1}, {64, 64, 1}}}},
    {"halo_unpack depth", {.kind = BB_MEMORY_KERNEL_UNPACK, .box = {{3, 66, 66}, {0, 1, 1}, {1, 64, 64}}}},
    {"halo_add depth", {.kind = BB_MEMORY_KERNEL_UNPACK_ADD, .box = {{3, 66, 66}, {1, 1, 1}, {1, 64, 64}}}},
    {"bias_gelu", {.kind = BB_MEMORY_KERNEL_BIAS_ACT, HIDDEN, .act = BB_ACT_GELU}},
    {"bias_relu", {.kind = BB_MEMORY_KERNEL_BIAS_ACT, HIDDEN, .act = BB_ACT_RELU}},
    {"channel_norm_relu", {.kind = BB_MEMORY_KERNEL_CHANNEL_NORM, .cols = 56 * 56, .channels = 64, .act = BB_ACT_RELU}},
    {"layer_norm", {.kind = BB_MEMORY_KERNEL_LAYER_NORM, HIDDEN}},
    {"bias_gelu_grad", {.kind = BB_MEMORY_KERNEL_BIAS_ACT_GRAD, HIDDEN, .act = BB_ACT_GELU}},
    {"layer_norm_grad", {.kind = BB_MEMORY_KERNEL_LAYER_NORM_GRAD, HIDDEN}},
    {"accumulate", {.kind = BB_MEMORY_KERNEL_ACCUMULATE, HIDDEN}},
    {"sgd", {.kind = BB_MEMORY_KERNEL_SGD, HIDDEN}},
    {"adam", {.kind = BB_MEMORY_KERNEL_ADAM, HIDDEN}},
};

bool bb_compute_memory_kernel(int i, enum bb_dtype_id dtype, size_t bytes, struct bb_memory_kernel_case *c)
{
    struct bb_memory_kernel *p = &c->memory_kernel;
    size_t row_bytes;

    if (i < 0 || (size_t)i >= LENGTH(memory_kernels))
        return false;
    *c = memory_kernels[i];
    p->dtype = dtype;
    p->optimizer = (struct bb_optimizer){1e-3f, 0.9f, 0.999f, 1e-8f, 0.01f, 1};
    p->rows = 2;
    row_bytes = bb_memory_kernel_bytes(p);
    p->rows = 1;
    row_bytes -= bb_memory_kernel_bytes(p);
    p->rows = bytes / row_bytes > 0 ? bytes / row_bytes : 1;
    return true;
}

/* ---- durations and loads of the timed kernel to measure ---- */

static const struct bb_timed_case timed[] = {
    {10, 1, 0},     {20, 1, 0},      {50, 1, 0},     {100, 1, 0},   {200, 1, 0},       {500, 1, 0},
    {1000, 1, 0},   {2000, 1, 0},    {5000, 1, 0},   {10000, 1, 0}, {1000, 0, 0},      {1000, 0.5, 0},
    {1000, 1, 0.1}, {1000, 1, 0.25}, {1000, 1, 0.5}, {100, 1, 0.5}, {1000, 0.5, 0.25},
};
static const struct bb_timed_case quick_timed[] = {{10, 1, 0}, {100, 0.5, 0}, {1000, 0, 0}, {1000, 1, 0.5}};

bool bb_compute_timed(int i, bool quick, struct bb_timed_case *c)
{
    if (i < 0 || (size_t)i >= (quick ? LENGTH(quick_timed) : LENGTH(timed)))
        return false;
    *c = quick ? quick_timed[i] : timed[i];
    return true;
}
