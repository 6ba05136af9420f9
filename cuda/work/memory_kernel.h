/*
 * memory_kernel.h - the passes of a layer that are bound by memory, as data: what each reads and writes, how many bytes that is,
 * and its CPU reference. Pure: plans count with it. layer_memory_kernels.h launches them on the GPU.
 *
 * Shapes are row-major. e is the size of the pass's element type (float, half or bfloat16), c = rows * cols. Arithmetic
 * is done in float (the reference: in double) and rounded once when stored.
 */
#ifndef BB_CUDA_WORK_MEMORY_KERNEL_H
#define BB_CUDA_WORK_MEMORY_KERNEL_H

#include "cuda/work/layer_shape.h"

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

enum bb_memory_kernel_kind {
    BB_MEMORY_KERNEL_COPY,          /* out[c] = in[c]: the device's measured limit                                         */
    BB_MEMORY_KERNEL_EMBED,         /* out[r][:] = in[index[r]][:]: rows of a table by token                               */
    BB_MEMORY_KERNEL_PERMUTE,       /* the same: tokens into expert slots; index < 0: the slot is empty and becomes 0      */
    BB_MEMORY_KERNEL_UNPERMUTE,     /* out[r][:] = sum over j < top_k of gate[r][j] * in[index[r][j]][:]; index < 0: none  */
    BB_MEMORY_KERNEL_PACK,          /* out[r][box] = in[r][tile]: a face into a message; rows = samples * channels         */
    BB_MEMORY_KERNEL_UNPACK,        /* out[r][tile] = in[r][box]: a message into the margin                                */
    BB_MEMORY_KERNEL_UNPACK_ADD,    /* out[r][tile] += in[r][box]: backward, where the margin's gradients belong to us     */
    BB_MEMORY_KERNEL_BIAS_ACT,      /* out = act(in + shift[col]); in == out is fine                                       */
    BB_MEMORY_KERNEL_CHANNEL_NORM,  /* out = act(in * scale[k] + shift[k]), k = row % channels: batch norm, statistics known */
    BB_MEMORY_KERNEL_LAYER_NORM,    /* out = (in - mean) / sqrt(variance + 1e-5) * scale[col] + shift[col], per row        */
    BB_MEMORY_KERNEL_BIAS_ACT_GRAD, /* out = in * act'(saved + shift[col]): in is the gradient, saved what went into BIAS_ACT */
    BB_MEMORY_KERNEL_LAYER_NORM_GRAD, /* out = f * (g - mean(g) - x * mean(g x)), g = in * scale[col], x = normalised saved   */
    BB_MEMORY_KERNEL_ACCUMULATE,      /* master[c] += in[c]: gradients of micro-batches into float                           */
    BB_MEMORY_KERNEL_SGD,             /* first = beta1 first + g; p -= rate first; g = in[c] + decay p                       */
    BB_MEMORY_KERNEL_ADAM,            /* AdamW with bias correction                                                          */
    BB_MEMORY_KERNEL_KINDS
};

enum bb_activation { BB_ACT_NONE, BB_ACT_RELU, BB_ACT_GELU /* the tanh form, as in GPT-2 */ };

#define BB_NORM_EPSILON 1e-5f

struct bb_optimizer {
    float rate, beta1, beta2, epsilon, decay; /* SGD: beta1 is the momentum; beta2, epsilon are not used */
    int step;                                 /* Adam: 1 and above                                       */
};

/*
 * One pass. Fields that a kind does not name in its formula are not read. Pointers are the caller's, on the device for
 * bb_memory_kernel_run, on the host for its reference (tests/cuda/work).
 * Optimizers: `out` is the parameter in the training type, `in` its gradient, `first` and `second` the float moments.
 * 16-bit parameters have a float copy `master` that is updated and then rounded to `out`; with float, `out` is updated
 * and master is not used.
 */
struct bb_memory_kernel {
    enum bb_memory_kernel_kind kind;
    enum bb_dtype_id dtype; /* BB_FLOAT, BB_HALF or BB_BFLOAT16 */
    enum bb_activation act;
    uint64_t rows, cols;
    uint64_t channels; /* CHANNEL_NORM                                                */
    uint64_t in_rows;  /* EMBED, PERMUTE, UNPERMUTE: rows of `in`, for people's checks */
    int top_k;         /* UNPERMUTE                                                   */
    struct bb_box box; /* PACK, UNPACK*                                               */
    const void *in;
    void *out;
    const void *scale, *shift; /* in the pass's type   */
    const void *saved;         /* *_GRAD: input of the forward pass */
    const int32_t *index;
    const float *gate;
    float *master, *first, *second;
    struct bb_optimizer optimizer;
    /* Set by bb_memory_kernel_prepare. */
    int unit;                 /* bytes that one thread moves at once (moves), or elements (arithmetic) */
    int cached;               /* LAYER_NORM: the row fits into shared memory                           */
    float correct1, correct2; /* Adam: 1 / (1 - beta^step)                                             */
};

struct bb_memory_kernel_row {
    const char *name, *help;
    const char *bytes_text; /* the formula of `bytes`, for people */
    size_t (*bytes)(const struct bb_memory_kernel *p);
};
extern const struct bb_memory_kernel_row bb_memory_kernels[BB_MEMORY_KERNEL_KINDS];

/* bb_memory_kernel_bytes - bytes that the pass must move at least: every input read once, every output written once. */
size_t bb_memory_kernel_bytes(const struct bb_memory_kernel *p);

/* What an array of a pass holds. */
enum bb_memory_kernel_content {
    BB_HOLDS_ELEMENTS, /* of the pass's type                                  */
    BB_HOLDS_FLOATS,
    BB_HOLDS_SQUARES, /* floats of at least 0: Adam's second moment           */
    BB_HOLDS_INDICES, /* int32, below in_rows; below 0 only where that is said */
};

/* One array that a pass needs: `field` is where its pointer lies in struct bb_memory_kernel. */
struct bb_memory_kernel_array {
    const char *name;
    size_t field, count, bytes; /* offset of the pointer; elements; memory */
    enum bb_memory_kernel_content content;
    bool written; /* by the pass, perhaps after it was read */
};

/* bb_memory_kernel_arrays - the arrays that the pass needs, from its kind, type and shape: who allocates them, counts with this.
 * Returns their number. */
#define BB_MEMORY_KERNEL_ARRAYS 10
int bb_memory_kernel_arrays(const struct bb_memory_kernel *p, struct bb_memory_kernel_array arrays[BB_MEMORY_KERNEL_ARRAYS]);

/* bb_memory_kernel_set - point the field of that array at memory. */
void bb_memory_kernel_set(struct bb_memory_kernel *p, const struct bb_memory_kernel_array *array, void *memory);

/* bb_memory_kernel_prepare - choose the width of loads by the alignment of pointers and rows. bb_memory_kernel_run does it by itself. */
void bb_memory_kernel_prepare(struct bb_memory_kernel *p);

/* Element i of an array of that type (float, half, bfloat16), rounded to nearest even. */
void bb_element_set(void *array, enum bb_dtype_id dtype, size_t i, double value);

#ifdef __cplusplus
}
#endif
#endif
