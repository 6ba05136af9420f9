/* memory_kernel.c - see memory_kernel.h. */
#include "cuda/work/memory_kernel.h"

#include <math.h>
#include <string.h>

static size_t e_of(const struct bb_memory_kernel *p)
{
    return bb_dtypes[p->dtype].bytes;
}

const char *const bb_memory_kernel_names[BB_MEMORY_KERNEL_KINDS] = {
    [BB_MEMORY_KERNEL_COPY] = "copy",
    [BB_MEMORY_KERNEL_EMBED] = "embed",
    [BB_MEMORY_KERNEL_PERMUTE] = "permute",
    [BB_MEMORY_KERNEL_UNPERMUTE] = "unpermute",
    [BB_MEMORY_KERNEL_PACK] = "halo_pack",
    [BB_MEMORY_KERNEL_UNPACK] = "halo_unpack",
    [BB_MEMORY_KERNEL_UNPACK_ADD] = "halo_add",
    [BB_MEMORY_KERNEL_BIAS_ACT] = "bias_act",
    [BB_MEMORY_KERNEL_CHANNEL_NORM] = "channel_norm",
    [BB_MEMORY_KERNEL_LAYER_NORM] = "layer_norm",
    [BB_MEMORY_KERNEL_BIAS_ACT_GRAD] = "bias_act_grad",
    [BB_MEMORY_KERNEL_LAYER_NORM_GRAD] = "layer_norm_grad",
    [BB_MEMORY_KERNEL_ACCUMULATE] = "accumulate",
    [BB_MEMORY_KERNEL_SGD] = "sgd",
    [BB_MEMORY_KERNEL_ADAM] = "adam",
};

/* ---- sizes of the operands ---- */

/*
 * Numbers of elements from which the sizes of a kernel's operands follow. CELLS: rows * cols; SOURCES: in_rows * cols;
 * CHOICES: pairs of a token and one of its top_k experts; GATHERED: elements of all expert outputs of all tokens;
 * MASTERS: float copies of the parameters, one per 16-bit parameter, none for float parameters; TILE_CELLS, BOX_CELLS:
 * cells of the tiles, including halos, and cells inside `box`, of all samples and channels.
 */
enum quantity { CELLS, SOURCES, ROWS, COLS, CHANNELS, CHOICES, GATHERED, MASTERS, TILE_CELLS, BOX_CELLS };

static size_t quantity_of(const struct bb_memory_kernel *p, enum quantity quantity)
{
    const uint32_t *tile = p->box.size;
    const uint64_t quantities[] = {
        [CELLS] = p->rows * p->cols,
        [SOURCES] = p->in_rows * p->cols,
        [ROWS] = p->rows,
        [COLS] = p->cols,
        [CHANNELS] = p->channels,
        [CHOICES] = p->rows * (uint64_t)p->top_k,
        [GATHERED] = p->rows * (uint64_t)p->top_k * p->cols,
        [MASTERS] = p->dtype == BB_FLOAT ? 0 : p->rows * p->cols,
        [TILE_CELLS] = p->rows * tile[0] * tile[1] * tile[2],
        [BOX_CELLS] = p->rows * bb_box_cells(&p->box),
    };

    return (size_t)quantities[quantity];
}

/* ---- minimum bytes moved ---- */

/* One term of the bytes that a kernel moves: `elements` elements of the kernel's type plus `bytes` bytes, multiplied
 * by `quantity`. Optimizers read the gradient, read and write the float parameter and their float states (momentum
 * or moments), and write the 16-bit parameter. */
struct term {
    enum quantity quantity;
    unsigned elements, bytes;
};

/* [kind of kernel] the terms that add up to the bytes moved; a term that is not listed is 0. */
static const struct term moved[BB_MEMORY_KERNEL_KINDS][3] = {
    [BB_MEMORY_KERNEL_COPY] = {{CELLS, 2, 0}},
    [BB_MEMORY_KERNEL_EMBED] = {{CELLS, 2, 0}, {ROWS, 0, 4}},
    [BB_MEMORY_KERNEL_PERMUTE] = {{CELLS, 2, 0}, {ROWS, 0, 4}},
    [BB_MEMORY_KERNEL_UNPERMUTE] = {{CELLS, 1, 0}, {GATHERED, 1, 0}, {CHOICES, 0, 8}},
    [BB_MEMORY_KERNEL_PACK] = {{BOX_CELLS, 2, 0}},
    [BB_MEMORY_KERNEL_UNPACK] = {{BOX_CELLS, 2, 0}},
    [BB_MEMORY_KERNEL_UNPACK_ADD] = {{BOX_CELLS, 3, 0}},
    [BB_MEMORY_KERNEL_BIAS_ACT] = {{CELLS, 2, 0}, {COLS, 1, 0}},
    [BB_MEMORY_KERNEL_CHANNEL_NORM] = {{CELLS, 2, 0}, {CHANNELS, 2, 0}},
    [BB_MEMORY_KERNEL_LAYER_NORM] = {{CELLS, 2, 0}, {COLS, 2, 0}},
    [BB_MEMORY_KERNEL_BIAS_ACT_GRAD] = {{CELLS, 3, 0}, {COLS, 1, 0}},
    [BB_MEMORY_KERNEL_LAYER_NORM_GRAD] = {{CELLS, 3, 0}, {COLS, 1, 0}},
    [BB_MEMORY_KERNEL_ACCUMULATE] = {{CELLS, 1, 8}},
    [BB_MEMORY_KERNEL_SGD] = {{CELLS, 1, 16}, {MASTERS, 1, 0}},
    [BB_MEMORY_KERNEL_ADAM] = {{CELLS, 1, 24}, {MASTERS, 1, 0}},
};

size_t bb_memory_kernel_bytes(const struct bb_memory_kernel *p)
{
    size_t bytes = 0;

    for (const struct term *t = moved[p->kind]; t < moved[p->kind] + 3; t++)
        bytes += quantity_of(p, t->quantity) * (t->elements * e_of(p) + t->bytes);
    return bytes;
}

/* ---- the arrays that each kind of kernel needs ---- */

struct need {
    const char *name;
    size_t field;
    enum bb_memory_kernel_content content;
    enum quantity quantity;
};
#define NEED(f, holds, n)                                                                                              \
    {                                                                                                                  \
        .name = #f, .field = offsetof(struct bb_memory_kernel, f), .content = holds, .quantity = n                     \
    }
#define ELEMENTS(name, count) NEED(name, BB_HOLDS_ELEMENTS, count)

static const struct need needs[BB_MEMORY_KERNEL_KINDS][BB_MEMORY_KERNEL_ARRAYS] = {
    [BB_MEMORY_KERNEL_COPY] = {ELEMENTS(in, CELLS), ELEMENTS(out, CELLS)},
    [BB_MEMORY_KERNEL_EMBED] = {ELEMENTS(in, SOURCES), ELEMENTS(out, CELLS), NEED(index, BB_HOLDS_INDICES, ROWS)},
    [BB_MEMORY_KERNEL_PERMUTE] = {ELEMENTS(in, SOURCES), ELEMENTS(out, CELLS), NEED(index, BB_HOLDS_INDICES, ROWS)},
    [BB_MEMORY_KERNEL_UNPERMUTE] = {ELEMENTS(in, SOURCES), ELEMENTS(out, CELLS), NEED(index, BB_HOLDS_INDICES, CHOICES),
                                    NEED(gate, BB_HOLDS_FLOATS, CHOICES)},
    [BB_MEMORY_KERNEL_PACK] = {ELEMENTS(in, TILE_CELLS), ELEMENTS(out, BOX_CELLS)},
    [BB_MEMORY_KERNEL_UNPACK] = {ELEMENTS(in, BOX_CELLS), ELEMENTS(out, TILE_CELLS)},
    [BB_MEMORY_KERNEL_UNPACK_ADD] = {ELEMENTS(in, BOX_CELLS), ELEMENTS(out, TILE_CELLS)},
    [BB_MEMORY_KERNEL_BIAS_ACT] = {ELEMENTS(in, CELLS), ELEMENTS(out, CELLS), ELEMENTS(shift, COLS)},
    [BB_MEMORY_KERNEL_CHANNEL_NORM] = {ELEMENTS(in, CELLS), ELEMENTS(out, CELLS), ELEMENTS(scale, CHANNELS),
                                       ELEMENTS(shift, CHANNELS)},
    [BB_MEMORY_KERNEL_LAYER_NORM] = {ELEMENTS(in, CELLS), ELEMENTS(out, CELLS), ELEMENTS(scale, COLS),
                                     ELEMENTS(shift, COLS)},
    [BB_MEMORY_KERNEL_BIAS_ACT_GRAD] = {ELEMENTS(in, CELLS), ELEMENTS(out, CELLS), ELEMENTS(saved, CELLS),
                                        ELEMENTS(shift, COLS)},
    [BB_MEMORY_KERNEL_LAYER_NORM_GRAD] = {ELEMENTS(in, CELLS), ELEMENTS(out, CELLS), ELEMENTS(saved, CELLS),
                                          ELEMENTS(scale, COLS)},
    [BB_MEMORY_KERNEL_ACCUMULATE] = {ELEMENTS(in, CELLS), NEED(master, BB_HOLDS_FLOATS, CELLS)},
    [BB_MEMORY_KERNEL_SGD] = {ELEMENTS(in, CELLS), ELEMENTS(out, CELLS), NEED(master, BB_HOLDS_FLOATS, MASTERS),
                              NEED(first, BB_HOLDS_FLOATS, CELLS)},
    [BB_MEMORY_KERNEL_ADAM] = {ELEMENTS(in, CELLS), ELEMENTS(out, CELLS), NEED(master, BB_HOLDS_FLOATS, MASTERS),
                               NEED(first, BB_HOLDS_FLOATS, CELLS), NEED(second, BB_HOLDS_SQUARES, CELLS)},
};

int bb_memory_kernel_arrays(const struct bb_memory_kernel *p,
                            struct bb_memory_kernel_array arrays[BB_MEMORY_KERNEL_ARRAYS])
{
    int n = 0;

    for (const struct need *need = needs[p->kind]; need->name; need++) {
        size_t count = quantity_of(p, need->quantity), each = need->content == BB_HOLDS_ELEMENTS ? e_of(p) : 4;
        bool written = need->field == offsetof(struct bb_memory_kernel, out) ||
                       need->field == offsetof(struct bb_memory_kernel, master) ||
                       need->field == offsetof(struct bb_memory_kernel, first) ||
                       need->field == offsetof(struct bb_memory_kernel, second);

        if (count > 0)
            arrays[n++] =
                (struct bb_memory_kernel_array){need->name, need->field, count, count * each, need->content, written};
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
        p->unit = bytes_per_move(p, (size_t)(p->rows * p->cols) * e);
    else if (p->kind <= BB_MEMORY_KERNEL_PERMUTE)
        p->unit = bytes_per_move(p, (size_t)p->cols * e);
    else if (p->kind == BB_MEMORY_KERNEL_PACK || p->kind == BB_MEMORY_KERNEL_UNPACK)
        p->unit = bytes_per_move(p, (p->box.size[2] | p->box.at[2] | p->box.extent[2]) * e);
    else if (p->kind >= BB_MEMORY_KERNEL_ACCUMULATE)
        p->unit = elements_per_update(p);
    else
        p->unit = elements_per_access(p);
}
