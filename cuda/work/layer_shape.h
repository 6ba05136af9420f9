/*
 * layer_shape.h - what a layer computes, as numbers: matrix products, convolutions as the implicit matrix products of
 * their dimensions, and the faces of a tile that halo exchange moves. Pure: plans count with it on a laptop.
 *
 * Everything here is row-major: C[m][n] = op(A) op(B), op(A) is m x k, op(B) is k x n.
 */
#ifndef BB_CUDA_WORK_LAYER_SHAPE_H
#define BB_CUDA_WORK_LAYER_SHAPE_H

#include "cuda/work/dtype.h"

#include <stdbool.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* `batch` products of one shape, their matrices one behind another. With trans_a, A is stored as k x m; with trans_b, B
 * as n x k. */
struct bb_gemm_shape {
    int64_t m, n, k, batch; /* all >= 1 */
    bool trans_a, trans_b;
    enum bb_dtype_id dtype; /* of A, B and C; sums are kept in float */
};

/* 2 m n k per product: a multiplication and an addition. */
double bb_gemm_flops(const struct bb_gemm_shape *s);

/* Bytes of A, of B, of C (all products), and what is moved at least: each read or written once. */
size_t bb_gemm_a_bytes(const struct bb_gemm_shape *s);
size_t bb_gemm_b_bytes(const struct bb_gemm_shape *s);
size_t bb_gemm_c_bytes(const struct bb_gemm_shape *s);
size_t bb_gemm_bytes(const struct bb_gemm_shape *s);

#define BB_GEMM_WORKSPACE  ((size_t)32 << 20) /* for all products of a stream: what cuBLAS itself takes on Hopper */
#define BB_GEMM_CANDIDATES 64                 /* algorithms that a search for the fastest tries at most */

/*
 * bb_gemm_backward - the two products of the backward pass of C = op(A) op(B), B being the weights:
 * *dgrad: d op(A)[m][k] = dC op(B)^T, *wgrad: d op(B)[k][n] = op(A)^T dC. Each has the FLOPs of the forward product and
 * reads A, B and dC as they are stored; m, n and k are those of the new product.
 */
void bb_gemm_backward(const struct bb_gemm_shape *s, struct bb_gemm_shape *dgrad, struct bb_gemm_shape *wgrad);

/* ---- transformer layers ---- */

struct bb_transformer {
    int64_t hidden, ffn, heads; /* heads divides hidden                               */
    int64_t sequence, batch;    /* tokens of a sample, samples of a micro-batch       */
    int tensor_parallel;        /* heads and ffn are split over that many GPUs; >= 1  */
    enum bb_dtype_id dtype;
};

/* The products of one layer's forward pass, in order. */
enum bb_transformer_gemm {
    BB_GEMM_QKV,
    BB_GEMM_SCORES,  /* Q K^T, one product per head and sample */
    BB_GEMM_CONTEXT, /* scores V                               */
    BB_GEMM_OUT,
    BB_GEMM_UP,
    BB_GEMM_DOWN,
    BB_TRANSFORMER_GEMMS
};
extern const char *const bb_transformer_gemm_names[BB_TRANSFORMER_GEMMS];

/*
 * bb_transformer_gemms - their shapes. With ffn = 4 hidden and no split they add up to the usual
 * batch * (24 s h^2 + 4 s^2 h) FLOPs. Returns false where heads, hidden or ffn don't divide.
 */
bool bb_transformer_gemms(const struct bb_transformer *t, struct bb_gemm_shape gemms[BB_TRANSFORMER_GEMMS]);

/* ---- convolutions ---- */

/* in: n x c x d x h x w, weights: k x c x t x r x s. Two-dimensional: d = t = 1. */
struct bb_conv {
    int64_t n, c, d, h, w, k, t, r, s;
    int64_t stride, pad;    /* the same in all dimensions; not applied to the depth of a two-dimensional one */
    enum bb_dtype_id dtype; /* of all three tensors */
};

/* bb_conv_2d - of square images and windows, with the padding that keeps the size where the stride is 1. */
struct bb_conv bb_conv_2d(int64_t images, int64_t in, int64_t out, int64_t edge, int64_t kernel, int64_t stride,
                            enum bb_dtype_id dtype);

enum bb_conv_pass { BB_CONV_FORWARD, BB_CONV_DATA, BB_CONV_WEIGHTS };

/* bb_conv_out - depth, height and width of the output: (x + 2 pad - filter) / stride + 1, rounded down. False when the
 * filter does not fit into the padded input or a number is below 1 (pad: below 0). */
bool bb_conv_out(const struct bb_conv *v, int64_t out[3]);

/*
 * bb_conv_gemm - the implicit matrix product, with z = output positions of a sample:
 *   forward            [n z] x [k],       sums over c t r s
 *   gradient of data   [n z] x [c t r s], sums over k     (then added up into the input's positions)
 *   gradient of weights    [k] x [c t r s], sums over n z
 * Each has 2 n z k c t r s FLOPs. False as bb_conv_out.
 */
bool bb_conv_gemm(const struct bb_conv *v, enum bb_conv_pass pass, struct bb_gemm_shape *s);

/* ---- halos ---- */

/* A box inside a tile of size[0] x size[1] x size[2] (depth, height, width; width varies fastest). */
struct bb_box {
    uint32_t size[3];   /* of the tile, halo included */
    uint32_t at[3];     /* first cell of the box      */
    uint32_t extent[3]; /* of the box                 */
};

/* bb_box_cells - cells of the box. */
uint64_t bb_box_cells(const struct bb_box *b);

/*
 * bb_halo_box - the part of a tile that goes to (received = false) or comes from (true) the neighbour in `direction`,
 * each -1, 0 or 1: faces have one number that is not 0, edges two, corners three. interior: cells of the tile without
 * halo; halo: width of the margin in each dimension (0: not split there). What is sent lies inside the interior, what
 * is received in the margin. False when nothing is exchanged that way or the interior is thinner than the halo.
 */
bool bb_halo_box(const uint32_t interior[3], const uint32_t halo[3], const int direction[3], bool received,
                 struct bb_box *box);

#ifdef __cplusplus
}
#endif
#endif
