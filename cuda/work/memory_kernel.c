/* memory_kernel.c - see memory_kernel.h. */
#include "cuda/work/memory_kernel.h"

#include <math.h>
#include <string.h>

static size_t e_of(const struct bb_memory_kernel *p)
{
    return bb_dtypes[p->dtype].bytes;
}

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

/* ---- the kinds of kernels ---- */

/* One term of the bytes that a kernel moves: `elements` elements of the kernel's type plus `bytes` bytes, multiplied
 * by `quantity`. Optimizers read the gradient, read and write the float parameter and their float states (momentum
 * or moments), and write the 16-bit parameter. */
struct term {
    enum quantity quantity;
    unsigned elements, bytes;
};

/* An array that a kernel needs. */
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
#define IN_OUT(n_in, n_out)   ELEMENTS(in, n_in), ELEMENTS(out, n_out)
#define FLOATS(name, count)   NEED(name, BB_HOLDS_FLOATS, count)
#define INDICES(count)        NEED(index, BB_HOLDS_INDICES, count)

/* [kind of kernel] name in messages, for example "layer_norm"; the terms that add up to the bytes moved; the arrays. */
static const struct kind {
    const char *name;
    struct term moved[3]; /* a term that is not listed is 0 */
    struct need needs[BB_MEMORY_KERNEL_ARRAYS];
} kinds[BB_MEMORY_KERNEL_KINDS] = {
    [BB_MEMORY_KERNEL_COPY] = {"copy", {{CELLS, 2, 0}}, {IN_OUT(CELLS, CELLS)}},
    [BB_MEMORY_KERNEL_EMBED] = {"embed", {{CELLS, 2, 0}, {ROWS, 0, 4}}, {IN_OUT(SOURCES, CELLS), INDICES(ROWS)}},
    [BB_MEMORY_KERNEL_PERMUTE] = {"permute", {{CELLS, 2, 0}, {ROWS, 0, 4}}, {IN_OUT(SOURCES, CELLS), INDICES(ROWS)}},
    [BB_MEMORY_KERNEL_UNPERMUTE] = {"unpermute",
                                    {{CELLS, 1, 0}, {GATHERED, 1, 0}, {CHOICES, 0, 8}},
                                    {IN_OUT(SOURCES, CELLS), INDICES(CHOICES), FLOATS(gate, CHOICES)}},
    [BB_MEMORY_KERNEL_PACK] = {"halo_pack", {{BOX_CELLS, 2, 0}}, {IN_OUT(TILE_CELLS, BOX_CELLS)}},
    [BB_MEMORY_KERNEL_UNPACK] = {"halo_unpack", {{BOX_CELLS, 2, 0}}, {IN_OUT(BOX_CELLS, TILE_CELLS)}},
    [BB_MEMORY_KERNEL_UNPACK_ADD] = {"halo_add", {{BOX_CELLS, 3, 0}}, {IN_OUT(BOX_CELLS, TILE_CELLS)}},
    [BB_MEMORY_KERNEL_BIAS_ACT] = {"bias_act",
                                   {{CELLS, 2, 0}, {COLS, 1, 0}},
                                   {IN_OUT(CELLS, CELLS), ELEMENTS(shift, COLS)}},
    [BB_MEMORY_KERNEL_CHANNEL_NORM] = {"channel_norm",
                                       {{CELLS, 2, 0}, {CHANNELS, 2, 0}},
                                       {IN_OUT(CELLS, CELLS), ELEMENTS(scale, CHANNELS), ELEMENTS(shift, CHANNELS)}},
    [BB_MEMORY_KERNEL_LAYER_NORM] = {"layer_norm",
                                     {{CELLS, 2, 0}, {COLS, 2, 0}},
                                     {IN_OUT(CELLS, CELLS), ELEMENTS(scale, COLS), ELEMENTS(shift, COLS)}},
    [BB_MEMORY_KERNEL_BIAS_ACT_GRAD] = {"bias_act_grad",
                                        {{CELLS, 3, 0}, {COLS, 1, 0}},
                                        {IN_OUT(CELLS, CELLS), ELEMENTS(saved, CELLS), ELEMENTS(shift, COLS)}},
    [BB_MEMORY_KERNEL_LAYER_NORM_GRAD] = {"layer_norm_grad",
                                          {{CELLS, 3, 0}, {COLS, 1, 0}},
                                          {IN_OUT(CELLS, CELLS), ELEMENTS(saved, CELLS), ELEMENTS(scale, COLS)}},
    [BB_MEMORY_KERNEL_ACCUMULATE] = {"accumulate", {{CELLS, 1, 8}}, {ELEMENTS(in, CELLS), FLOATS(master, CELLS)}},
    [BB_MEMORY_KERNEL_SGD] = {"sgd",
                              {{CELLS, 1, 16}, {MASTERS, 1, 0}},
                              {IN_OUT(CELLS, CELLS), FLOATS(master, MASTERS), FLOATS(first, CELLS)}},
    [BB_MEMORY_KERNEL_ADAM] = {"adam",
                               {{CELLS, 1, 24}, {MASTERS, 1, 0}},
                               {IN_OUT(CELLS, CELLS), FLOATS(master, MASTERS), FLOATS(first, CELLS),
                                NEED(second, BB_HOLDS_SQUARES, CELLS)}},
};

const char *bb_memory_kernel_name(enum bb_memory_kernel_kind kind)
{
    return kinds[kind].name;
}

size_t bb_memory_kernel_bytes(const struct bb_memory_kernel *p)
{
    size_t bytes = 0;

    for (const struct term *t = kinds[p->kind].moved; t < kinds[p->kind].moved + 3; t++)
        bytes += quantity_of(p, t->quantity) * (t->elements * e_of(p) + t->bytes);
    return bytes;
}

int bb_memory_kernel_arrays(const struct bb_memory_kernel *p,
                            struct bb_memory_kernel_array arrays[BB_MEMORY_KERNEL_ARRAYS])
{
    int n = 0;

    for (const struct need *need = kinds[p->kind].needs; need->name; need++) {
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
