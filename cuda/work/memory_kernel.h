/*
 * memory_kernel.h - descriptions of the memory-bound kernels of a layer: operands, bytes moved and arrays. No CUDA:
 * plans use the descriptions without a GPU. layer_memory_kernels.h launches the kernels; tests/cuda/work has a CPU
 * reference.
 *
 * Arrays are row-major. In formulas, e is the size of the element type in bytes (float, half or bfloat16) and
 * c = rows * cols. Arithmetic is in float (in the CPU reference: in double); the result is rounded once when it is
 * stored.
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
    BB_MEMORY_KERNEL_COPY,      /* out[i] = in[i] for all rows * cols elements: measures the memory bandwidth of the
                              device */
    BB_MEMORY_KERNEL_EMBED,     /* out[r][:] = in[index[r]][:]: embedding lookup, one table row per token */
    BB_MEMORY_KERNEL_PERMUTE,   /* out[r][:] = in[index[r]][:], like EMBED: copies tokens to the input rows of MoE
                                 experts; index < 0: unused row, filled with 0 */
    BB_MEMORY_KERNEL_UNPERMUTE, /* out[r][:] = sum over j < top_k of gate[r][j] * in[index[r][j]][:]; terms with
                                   index < 0 are skipped */
    BB_MEMORY_KERNEL_PACK,   /* out[r] = the cells of in[r] inside `box`: packs a face of the tile into a message; rows
                              = samples * channels */
    BB_MEMORY_KERNEL_UNPACK, /* the cells of out[r] inside `box` = in[r]: unpacks a message into the halo of the tile */
    BB_MEMORY_KERNEL_UNPACK_ADD,    /* the cells of out[r] inside `box` += in[r]: backward pass; adds gradients received
                                    from the neighbor to the border cells of the tile */
    BB_MEMORY_KERNEL_BIAS_ACT,      /* out = act(in + shift[col]); in == out is allowed */
    BB_MEMORY_KERNEL_CHANNEL_NORM,  /* out = act(in * scale[k] + shift[k]), k = row % channels: batch norm with known
                                      mean and variance */
    BB_MEMORY_KERNEL_LAYER_NORM,    /* out = (in - mean) / sqrt(variance + 1e-5) * scale[col] + shift[col], per row */
    BB_MEMORY_KERNEL_BIAS_ACT_GRAD, /* out = in * act'(saved + shift[col]): `in` is the gradient, `saved` the input
                                       of BIAS_ACT */
    BB_MEMORY_KERNEL_LAYER_NORM_GRAD, /* out = f * (g - mean(g) - x * mean(g x)), per row; g = in * scale[col], x =
                                         `saved` normalized, f = 1 / sqrt(variance + 1e-5) */
    BB_MEMORY_KERNEL_ACCUMULATE, /* master[i] += in[i] for all elements: adds the gradients of a micro-batch to float
                                    sums */
    BB_MEMORY_KERNEL_SGD,  /* per element: g = in + decay * out; first = beta1 * first + g; out -= rate * first (`out`
                             is the parameter) */
    BB_MEMORY_KERNEL_ADAM, /* AdamW with bias correction */
    BB_MEMORY_KERNEL_KINDS
};

enum bb_activation { BB_ACT_NONE, BB_ACT_RELU, BB_ACT_GELU /* tanh approximation, as in GPT-2 */ };

#define BB_NORM_EPSILON 1e-5f

struct bb_optimizer {
    float rate, beta1, beta2, epsilon, decay; /* SGD: beta1 is the momentum; beta2 and epsilon are unused */
    int step;                                 /* Adam: number of the current training step, from 1 */
};

/*
 * One memory-bound kernel. `kind` selects the kernel; the comment at its constant in enum bb_memory_kernel_kind
 * names the fields that the kernel uses. The caller owns the memory that the pointers refer to: device memory for
 * bb_memory_kernel_run, host memory for the CPU reference (tests/cuda/work).
 * Optimizers: `out` is the parameter in the training type, `in` its gradient, `first` and `second` the float moments. A
 * 16-bit parameter has a float copy `master`, which is updated and then rounded into `out`. A float parameter is
 * updated in `out` and has no `master`.
 */
struct bb_memory_kernel {
    enum bb_memory_kernel_kind kind;
    enum bb_dtype_id dtype; /* BB_FLOAT, BB_HALF or BB_BFLOAT16 */
    enum bb_activation act;
    uint64_t rows, cols;
    uint64_t channels; /* CHANNEL_NORM: number of channels */
    uint64_t in_rows;  /* EMBED, PERMUTE, UNPERMUTE: number of rows of `in`, for callers that generate or check
                         indices */
    int top_k;         /* UNPERMUTE: experts per token */
    struct bb_box box; /* PACK, UNPACK, UNPACK_ADD: the cells of the tile that the message contains */
    const void *in;
    void *out;
    const void *scale, *shift; /* [cols], or [channels] for CHANNEL_NORM; elements of type dtype */
    const void *saved;         /* kinds *_GRAD: input of the forward kernel */
    const int32_t *index;
    const float *gate;
    float *master, *first, *second;
    struct bb_optimizer optimizer;
    /* The fields below are set by bb_memory_kernel_prepare. */
    int unit;   /* width of one memory access: bytes for COPY, EMBED, PERMUTE, PACK and UNPACK; elements for the other
                 kinds */
    int cached; /* LAYER_NORM: 1 if the kernel caches the row in shared memory */
    float correct1, correct2; /* Adam: 1 / (1 - beta^step) for beta1 and beta2 */
};

/* bb_memory_kernel_name - return the name of a kind of kernel in messages, for example "layer_norm". */
const char *bb_memory_kernel_name(enum bb_memory_kernel_kind kind);

/* bb_memory_kernel_bytes - return the minimum bytes that the kernel moves: every input read once and every output
 * written once. */
size_t bb_memory_kernel_bytes(const struct bb_memory_kernel *p);

/* What the values of an array are. */
enum bb_memory_kernel_content {
    BB_HOLDS_ELEMENTS, /* elements of type dtype */
    BB_HOLDS_FLOATS,
    BB_HOLDS_SQUARES, /* non-negative floats, for Adam's second moment */
    BB_HOLDS_INDICES, /* int32, below in_rows; negative (term skipped, or row unused) only for PERMUTE and UNPERMUTE */
};

/* One array that a kernel needs. */
struct bb_memory_kernel_array {
    const char *name;
    size_t field, count, bytes; /* field: offset of the pointer to the array in struct bb_memory_kernel; count:
                                   number of values; bytes: size of the array */
    enum bb_memory_kernel_content content;
    bool written; /* true: the kernel writes the array, possibly after reading it */
};

/*
 * bb_memory_kernel_arrays - list the arrays that a kernel needs, according to its kind, type and shape.
 *   arrays   out: up to BB_MEMORY_KERNEL_ARRAYS elements
 *   Returns  the number of arrays
 */
#define BB_MEMORY_KERNEL_ARRAYS 10
int bb_memory_kernel_arrays(const struct bb_memory_kernel *p,
                            struct bb_memory_kernel_array arrays[BB_MEMORY_KERNEL_ARRAYS]);

/* bb_memory_kernel_set - store the address `memory` in the field of *p that belongs to `array`. */
void bb_memory_kernel_set(struct bb_memory_kernel *p, const struct bb_memory_kernel_array *array, void *memory);

/* bb_memory_kernel_prepare - set the derived fields of *p: `unit` from the alignment of pointers and rows, `cached`,
 * and Adam's corrections. Called by bb_memory_kernel_run. */
void bb_memory_kernel_prepare(struct bb_memory_kernel *p);

/* bb_element_set - store `value` as element i of an array of float, half or bfloat16, rounded to nearest even. */
void bb_element_set(void *array, enum bb_dtype_id dtype, size_t i, double value);

#ifdef __cplusplus
}
#endif
#endif
