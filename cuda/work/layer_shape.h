/*
 * layer_shape.h - shapes of the computation of a layer: GEMMs, convolutions as implicit GEMMs, and the boxes of a tile
 * that a halo exchange transfers. No CUDA: plans use the shapes without a GPU.
 *
 * All matrices are row-major: C[m][n] = op(A) op(B), where op(A) is m x k and op(B) is k x n.
 */
#ifndef BB_CUDA_WORK_LAYER_SHAPE_H
#define BB_CUDA_WORK_LAYER_SHAPE_H

#include "cuda/work/dtype.h"

#include <stdbool.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* A batched GEMM: `batch` GEMMs of one shape, with contiguous matrices. trans_a: A is stored as k x m; trans_b: B is
 * stored as n x k. */
struct bb_gemm_shape {
    int64_t m, n, k, batch; /* batch: number of GEMMs; all four are at least 1 */
    bool trans_a, trans_b;
    enum bb_dtype_id dtype; /* type of A, B and C; the accumulator is float */
};

/* bb_gemm_flops - FLOPs of all `batch` GEMMs: 2 m n k per GEMM, because each term is a multiplication and an
 * addition. */
double bb_gemm_flops(const struct bb_gemm_shape *s);

/* bb_gemm_a_bytes, bb_gemm_b_bytes and bb_gemm_c_bytes return the bytes of A, B and C for all `batch` GEMMs.
 * bb_gemm_bytes returns the sum of all three, which is the minimum traffic: each matrix is read or written once. */
size_t bb_gemm_a_bytes(const struct bb_gemm_shape *s);
size_t bb_gemm_b_bytes(const struct bb_gemm_shape *s);
size_t bb_gemm_c_bytes(const struct bb_gemm_shape *s);
size_t bb_gemm_bytes(const struct bb_gemm_shape *s);

#define BB_KERNEL_ALIGN 256 /* alignment of the operands of a kernel in device memory, in bytes */

/* Offsets in bytes of the matrices of a GEMM in one memory area: A at 0, then B and C, each aligned to BB_KERNEL_ALIGN.
 * bytes: size of the area. */
struct bb_gemm_layout {
    size_t b, c, bytes;
};
struct bb_gemm_layout bb_gemm_layout_of(const struct bb_gemm_shape *s);

#define BB_GEMM_WORKSPACE  ((size_t)32 << 20) /* bytes per cuBLASLt handle, as in cuBLAS on Hopper */
#define BB_GEMM_CANDIDATES 64                 /* maximum number of algorithms that bb_gemm_tune tries */
#define BB_GEMM_TUNED      8                  /* algorithms that steps and overlap try */

/*
 * bb_gemm_backward - the two GEMMs of the backward pass of C = op(A) op(B), where B holds the weights:
 * *dgrad is d op(A)[m][k] = dC op(B)^T, *wgrad is d op(B)[k][n] = op(A)^T dC. Each has as many FLOPs as the forward
 * GEMM and reads A, B and dC as they are stored; m, n and k in the results are the dimensions of the new GEMM.
 */
void bb_gemm_backward(const struct bb_gemm_shape *s, struct bb_gemm_shape *dgrad, struct bb_gemm_shape *wgrad);

/* ---- transformer layers ---- */

struct bb_transformer {
    int64_t hidden, ffn, heads; /* hidden must be a multiple of heads */
    int64_t sequence, batch;    /* sequence: tokens per sample; batch: samples per micro-batch */
    int tensor_parallel;        /* number of GPUs over which heads and ffn are split; at least 1 */
    enum bb_dtype_id dtype;
};

/* The GEMMs in the forward pass of one layer, in order. */
enum bb_transformer_gemm {
    BB_GEMM_QKV,
    BB_GEMM_SCORES,  /* Q K^T, one GEMM per head and sample */
    BB_GEMM_CONTEXT, /* scores V */
    BB_GEMM_OUT,
    BB_GEMM_UP,
    BB_GEMM_DOWN,
    BB_TRANSFORMER_GEMMS
};
extern const char *const bb_transformer_gemm_names[BB_TRANSFORMER_GEMMS];

/*
 * bb_transformer_gemms - set the shapes of the GEMMs of one layer. With ffn = 4 hidden and tensor_parallel = 1 the
 * FLOPs add up to the usual batch * (24 s h^2 + 4 s^2 h).
 *   Returns  false if heads does not divide hidden, or tensor_parallel does not divide heads and ffn
 */
bool bb_transformer_gemms(const struct bb_transformer *t, struct bb_gemm_shape gemms[BB_TRANSFORMER_GEMMS]);

/* ---- convolutions ---- */

/* A convolution: input n x c x d x h x w, weights k x c x t x r x s. The convolution is two-dimensional if d = t =
 * 1. */
struct bb_conv {
    int64_t n, c, d, h, w, k, t, r, s;
    int64_t stride, pad;    /* stride and padding, equal in all dimensions; a 2D convolution has no padding in depth */
    enum bb_dtype_id dtype; /* type of input, weights and output */
};

/* bb_conv_2d - return a 2D convolution of square images with a square filter. The padding (kernel - 1) / 2 keeps the
 * image size at stride 1. */
struct bb_conv bb_conv_2d(int64_t images, int64_t in, int64_t out, int64_t edge, int64_t kernel, int64_t stride,
                          enum bb_dtype_id dtype);

enum bb_conv_pass { BB_CONV_FORWARD, BB_CONV_DATA, BB_CONV_WEIGHTS };

/* bb_conv_out - set out to depth, height and width of the output: (x + 2 pad - filter) / stride + 1, rounded down.
 * Returns false if the filter exceeds the padded input, if pad is negative, or if the stride or a dimension is below
 * 1. */
bool bb_conv_out(const struct bb_conv *v, int64_t out[3]);

/*
 * bb_conv_gemm - set *s to the implicit GEMM of a convolution. z is the number of output positions of a sample.
 *   forward              [n z] x [k],       reduces over c t r s
 *   gradient of data     [n z] x [c t r s], reduces over k (the result is then summed into the positions of the input)
 *   gradient of weights  [k] x [c t r s],   reduces over n z
 * Each has 2 n z k c t r s FLOPs. Returns false under the same conditions as bb_conv_out.
 */
bool bb_conv_gemm(const struct bb_conv *v, enum bb_conv_pass pass, struct bb_gemm_shape *s);

/* ---- halo exchange ---- */

/* A box of cells inside a tile, which has size[0] x size[1] x size[2] cells (depth, height, width; width varies
 * fastest). */
struct bb_box {
    uint32_t size[3];   /* number of cells of the tile per dimension, including the halo */
    uint32_t at[3];     /* index of the first cell of the box, per dimension */
    uint32_t extent[3]; /* number of cells of the box, per dimension */
};

/* bb_box_cells - return the number of cells in the box. */
uint64_t bb_box_cells(const struct bb_box *b);

/*
 * bb_halo_box - set *box to the cells of a tile that are exchanged with the neighbor in `direction`.
 *   interior   cells of the tile without halo, per dimension
 *   halo       width of the halo in cells, per dimension; 0: the image is not divided in this dimension
 *   direction  -1, 0 or 1 per dimension: a face has one non-zero element, an edge two, a corner three
 *   received   false: the cells to send, inside the interior; true: the cells to receive, inside the halo
 *   box        out
 *   Returns    false if no data is exchanged in this direction, or the interior is thinner than the halo
 */
bool bb_halo_box(const uint32_t interior[3], const uint32_t halo[3], const int direction[3], bool received,
                 struct bb_box *box);

#ifdef __cplusplus
}
#endif
#endif
