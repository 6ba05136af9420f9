/* memory_kernel.c - see memory_kernel.h. */
#include "cuda/work/memory_kernel.h"

#include <math.h>
#include <string.h>

static size_t e_of(const struct bb_memory_kernel *p)
{
    return bb_dtypes[p->dtype].bytes;
}

static size_t count_of(const struct bb_memory_kernel *p)
{
    return (size_t)(p->rows * p->cols);
}

/* ---- minimum bytes moved ---- */

static size_t bytes_copy(const struct bb_memory_kernel *p)
{
    return 2 * count_of(p) * e_of(p);
}

static size_t bytes_gather(const struct bb_memory_kernel *p)
{
    return 2 * count_of(p) * e_of(p) + 4 * (size_t)p->rows;
}

static size_t bytes_unpermute(const struct bb_memory_kernel *p)
{
    size_t k = (size_t)p->top_k;

    return (k + 1) * count_of(p) * e_of(p) + 8 * k * (size_t)p->rows;
}

static size_t box_bytes(const struct bb_memory_kernel *p)
{
    return (size_t)p->rows * (size_t)bb_box_cells(&p->box) * e_of(p);
}

static size_t bytes_box(const struct bb_memory_kernel *p)
{
    return 2 * box_bytes(p);
}

static size_t bytes_box_add(const struct bb_memory_kernel *p)
{
    return 3 * box_bytes(p);
}

static size_t bytes_bias_act(const struct bb_memory_kernel *p)
{
    return (2 * count_of(p) + (size_t)p->cols) * e_of(p);
}

static size_t bytes_channel_norm(const struct bb_memory_kernel *p)
{
    return (2 * count_of(p) + 2 * (size_t)p->channels) * e_of(p);
}

static size_t bytes_layer_norm(const struct bb_memory_kernel *p)
{
    return (2 * count_of(p) + 2 * (size_t)p->cols) * e_of(p);
}

static size_t bytes_bias_act_grad(const struct bb_memory_kernel *p)
{
    return (3 * count_of(p) + (size_t)p->cols) * e_of(p);
}

static size_t bytes_accumulate(const struct bb_memory_kernel *p)
{
    return count_of(p) * (e_of(p) + 2 * sizeof(float));
}

/* Returns the bytes moved by an optimizer kernel. For each parameter the kernel reads the gradient, and reads and
 * writes the float parameter and `states` floats (momentum or moments). For a 16-bit type it also writes the 16-bit
 * parameter. */
static size_t bytes_optimizer(const struct bb_memory_kernel *p, size_t states)
{
    size_t parameter = 2 * sizeof(float) + (p->dtype == BB_FLOAT ? 0 : e_of(p));

    return count_of(p) * (e_of(p) + 2 * states * sizeof(float) + parameter);
}

static size_t bytes_sgd(const struct bb_memory_kernel *p)
{
    return bytes_optimizer(p, 1);
}

static size_t bytes_adam(const struct bb_memory_kernel *p)
{
    return bytes_optimizer(p, 2);
}

const struct bb_memory_kernel_row bb_memory_kernels[BB_MEMORY_KERNEL_KINDS] = {
    [BB_MEMORY_KERNEL_COPY] = {"copy", "device-to-device copy", "2*c*e", bytes_copy},
    [BB_MEMORY_KERNEL_EMBED] = {"embed", "embedding lookup: one table row per token", "2*c*e + 4*rows", bytes_gather},
    [BB_MEMORY_KERNEL_PERMUTE] = {"permute", "copy tokens to the slots of their experts", "2*c*e + 4*rows",
                                  bytes_gather},
    [BB_MEMORY_KERNEL_UNPERMUTE] = {"unpermute", "weighted sum of the expert outputs of each token",
                                    "(k+1)*c*e + 8*k*rows", bytes_unpermute},
    [BB_MEMORY_KERNEL_PACK] = {"halo_pack", "copy a face of the tile into a message", "2*rows*box*e", bytes_box},
    [BB_MEMORY_KERNEL_UNPACK] = {"halo_unpack", "copy a message into the halo of the tile", "2*rows*box*e", bytes_box},
    [BB_MEMORY_KERNEL_UNPACK_ADD] = {"halo_add", "add a message to the border cells of the tile", "3*rows*box*e",
                                     bytes_box_add},
    [BB_MEMORY_KERNEL_BIAS_ACT] = {"bias_act", "bias and activation", "2*c*e + cols*e", bytes_bias_act},
    [BB_MEMORY_KERNEL_CHANNEL_NORM] = {"channel_norm", "batch norm with known mean and variance, and activation",
                                       "2*c*e + 2*channels*e", bytes_channel_norm},
    [BB_MEMORY_KERNEL_LAYER_NORM] = {"layer_norm", "layer norm", "2*c*e + 2*cols*e", bytes_layer_norm},
    [BB_MEMORY_KERNEL_BIAS_ACT_GRAD] = {"bias_act_grad", "gradient through bias and activation", "3*c*e + cols*e",
                                        bytes_bias_act_grad},
    [BB_MEMORY_KERNEL_LAYER_NORM_GRAD] = {"layer_norm_grad", "gradient through layer norm", "3*c*e + cols*e",
                                          bytes_bias_act_grad},
    [BB_MEMORY_KERNEL_ACCUMULATE] = {"accumulate", "add gradients to their float sums", "c*(e+8)", bytes_accumulate},
    [BB_MEMORY_KERNEL_SGD] = {"sgd", "SGD with momentum", "c*20", bytes_sgd},
    [BB_MEMORY_KERNEL_ADAM] = {"adam", "Adam with decoupled weight decay", "c*28", bytes_adam},
};

size_t bb_memory_kernel_bytes(const struct bb_memory_kernel *p)
{
    return bb_memory_kernels[p->kind].bytes(p);
}

/* ---- the arrays that each kind of kernel needs ---- */

static size_t tile_cells(const struct bb_memory_kernel *p)
{
    return (size_t)p->rows * p->box.size[0] * p->box.size[1] * p->box.size[2];
}

static size_t box_cells(const struct bb_memory_kernel *p)
{
    return (size_t)(p->rows * bb_box_cells(&p->box));
}

static size_t source_count(const struct bb_memory_kernel *p)
{
    return (size_t)(p->in_rows * p->cols);
}

static size_t row_count(const struct bb_memory_kernel *p)
{
    return (size_t)p->rows;
}

static size_t choice_count(const struct bb_memory_kernel *p)
{
    return (size_t)p->rows * (size_t)p->top_k;
}

static size_t col_count(const struct bb_memory_kernel *p)
{
    return (size_t)p->cols;
}

static size_t channel_count(const struct bb_memory_kernel *p)
{
    return (size_t)p->channels;
}

/* Returns the number of elements of the array `master`: one float copy per 16-bit parameter; 0 for float parameters. */
static size_t master_count(const struct bb_memory_kernel *p)
{
    return p->dtype == BB_FLOAT ? 0 : count_of(p);
}

struct need {
    const char *name;
    size_t field;
    enum bb_memory_kernel_content content;
    size_t (*count)(const struct bb_memory_kernel *p);
};
#define NEED(f, holds, n)                                                                                              \
    {                                                                                                                  \
        .name = #f, .field = offsetof(struct bb_memory_kernel, f), .content = holds, .count = n                        \
    }
#define ELEMENTS(name, count) NEED(name, BB_HOLDS_ELEMENTS, count)

static const struct need needs[BB_MEMORY_KERNEL_KINDS][BB_MEMORY_KERNEL_ARRAYS] = {
    [BB_MEMORY_KERNEL_COPY] = {ELEMENTS(in, count_of), ELEMENTS(out, count_of)},
    [BB_MEMORY_KERNEL_EMBED] = {ELEMENTS(in, source_count), ELEMENTS(out, count_of),
                                NEED(index, BB_HOLDS_INDICES, row_count)},
    [BB_MEMORY_KERNEL_PERMUTE] = {ELEMENTS(in, source_count), ELEMENTS(out, count_of),
                                  NEED(index, BB_HOLDS_INDICES, row_count)},
    [BB_MEMORY_KERNEL_UNPERMUTE] = {ELEMENTS(in, source_count), ELEMENTS(out, count_of),
                                    NEED(index, BB_HOLDS_INDICES, choice_count),
                                    NEED(gate, BB_HOLDS_FLOATS, choice_count)},
    [BB_MEMORY_KERNEL_PACK] = {ELEMENTS(in, tile_cells), ELEMENTS(out, box_cells)},
    [BB_MEMORY_KERNEL_UNPACK] = {ELEMENTS(in, box_cells), ELEMENTS(out, tile_cells)},
    [BB_MEMORY_KERNEL_UNPACK_ADD] = {ELEMENTS(in, box_cells), ELEMENTS(out, tile_cells)},
    [BB_MEMORY_KERNEL_BIAS_ACT] = {ELEMENTS(in, count_of), ELEMENTS(out, count_of), ELEMENTS(shift, col_count)},
    [BB_MEMORY_KERNEL_CHANNEL_NORM] = {ELEMENTS(in, count_of), ELEMENTS(out, count_of), ELEMENTS(scale, channel_count),
                                       ELEMENTS(shift, channel_count)},
    [BB_MEMORY_KERNEL_LAYER_NORM] = {ELEMENTS(in, count_of), ELEMENTS(out, count_of), ELEMENTS(scale, col_count),
                                     ELEMENTS(shift, col_count)},
    [BB_MEMORY_KERNEL_BIAS_ACT_GRAD] = {ELEMENTS(in, count_of), ELEMENTS(out, count_of), ELEMENTS(saved, count_of),
                                        ELEMENTS(shift, col_count)},
    [BB_MEMORY_KERNEL_LAYER_NORM_GRAD] = {ELEMENTS(in, count_of), ELEMENTS(out, count_of), ELEMENTS(saved, count_of),
                                          ELEMENTS(scale, col_count)},
    [BB_MEMORY_KERNEL_ACCUMULATE] = {ELEMENTS(in, count_of), NEED(master, BB_HOLDS_FLOATS, count_of)},
    [BB_MEMORY_KERNEL_SGD] = {ELEMENTS(in, count_of), ELEMENTS(out, count_of),
                              NEED(master, BB_HOLDS_FLOATS, master_count), NEED(first, BB_HOLDS_FLOATS, count_of)},
    [BB_MEMORY_KERNEL_ADAM] = {ELEMENTS(in, count_of), ELEMENTS(out, count_of),
                               NEED(master, BB_HOLDS_FLOATS, master_count), NEED(first, BB_HOLDS_FLOATS, count_of),
                               NEED(second, BB_HOLDS_SQUARES, count_of)},
};

static bool is_written(size_t field)
{
    return field == offsetof(struct bb_memory_kernel, out) || field == offsetof(struct bb_memory_kernel, master) ||
           field == offsetof(struct bb_memory_kernel, first) || field == offsetof(struct bb_memory_kernel, second);
}

int bb_memory_kernel_arrays(const struct bb_memory_kernel *p,
                            struct bb_memory_kernel_array arrays[BB_MEMORY_KERNEL_ARRAYS])
{
    int n = 0;

    for (const struct need *need = needs[p->kind]; need->name; need++) {
        size_t count = need->count(p), each = need->content == BB_HOLDS_ELEMENTS ? e_of(p) : 4;
        if (count > 0)
            arrays[n++] = (struct bb_memory_kernel_array){need->name,   need->field,   count,
                                                          count * each, need->content, is_written(need->field)};
    }
    return n;
}

void bb_memory_kernel_set(struct bb_memory_kernel *p, const struct bb_memory_kernel_array *array, void *memory)
{
    memcpy((char *)p + array->field, &memory, sizeof memory);
}

/* ---- choosing the width of a memory access ---- */

static int is_aligned(const void *pointer, size_t bytes)
{
    return (uintptr_t)pointer % bytes == 0;
}

/* Returns the bytes per memory access: the largest power of two, at most 16, that divides the addresses `in` and
 * `out` and `offsets`. offsets: bitwise OR of the row length and all offsets in bytes; a power of two that divides
 * `offsets` divides each of them. */
static int bytes_per_move(const struct bb_memory_kernel *p, size_t offsets)
{
    int unit = 16;

    while (unit > 1 &&
           (offsets % (size_t)unit || !is_aligned(p->in, (size_t)unit) || !is_aligned(p->out, (size_t)unit)))
        unit /= 2;
    return unit;
}

/* Returns the number of elements per memory access of arithmetic kernels: 16 bytes' worth if the row length and all
 * pointers are aligned to 16 bytes, otherwise 1. NULL counts as aligned. */
static int elements_per_access(const struct bb_memory_kernel *p)
{
    int wide = (int)(16 / e_of(p));
    int aligned = is_aligned(p->in, 16) && is_aligned(p->out, 16) && is_aligned(p->scale, 16) &&
                  is_aligned(p->shift, 16) && is_aligned(p->saved, 16);

    return aligned && p->cols % (uint64_t)wide == 0 ? wide : 1;
}

/* Returns the number of elements per memory access of optimizer kernels: 4 if all pointers are aligned, otherwise 1.
 * The row length does not matter, because the kernel processes the remaining elements one by one. */
static int elements_per_update(const struct bb_memory_kernel *p)
{
    size_t narrow = 4 * e_of(p);

    return is_aligned(p->in, narrow) && is_aligned(p->out, narrow) && is_aligned(p->master, 16) &&
                   is_aligned(p->first, 16) && is_aligned(p->second, 16)
               ? 4
               : 1;
}

void bb_memory_kernel_prepare(struct bb_memory_kernel *p)
{
    const struct bb_optimizer *o = &p->optimizer;
    size_t e = e_of(p);

    p->cached = p->cols * e + 32 * sizeof(float) <= 48 << 10;
    if (p->kind == BB_MEMORY_KERNEL_ADAM) {
        p->correct1 = (float)(1 / (1 - pow(o->beta1, o->step)));
        p->correct2 = (float)(1 / (1 - pow(o->beta2, o->step)));
    }
    if (p->kind == BB_MEMORY_KERNEL_COPY)
        p->unit = bytes_per_move(p, count_of(p) * e);
    else if (p->kind <= BB_MEMORY_KERNEL_PERMUTE)
        p->unit = bytes_per_move(p, (size_t)p->cols * e);
    else if (p->kind == BB_MEMORY_KERNEL_PACK || p->kind == BB_MEMORY_KERNEL_UNPACK)
        p->unit = bytes_per_move(p, (p->box.size[2] | p->box.at[2] | p->box.extent[2]) * e);
    else if (p->kind >= BB_MEMORY_KERNEL_ACCUMULATE)
        p->unit = elements_per_update(p);
    else
        p->unit = elements_per_access(p);
}
