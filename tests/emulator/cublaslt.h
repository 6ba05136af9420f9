/*
 * cublaslt.h - definitions shared by the source files of the cuBLASLt stand-in.
 */
#ifndef EMU_CUBLASLT_H
#define EMU_CUBLASLT_H

#include "engine.h"
#include <cublasLt.h>

#pragma GCC visibility push(hidden)

enum { LT_ALGO = 0x656d75 }; /* id of the only algorithm */

/* Contents of the opaque descriptors of cuBLASLt. */
struct lt_layout {
    uint32_t type;
    int32_t order, batch, batch_mode;
    uint64_t rows, cols;
    int64_t ld, stride, plane;
};

struct lt_desc {
    int32_t compute, scale_type, pointer_mode, transa, transb, transc, fill, epilogue, sms;
    int32_t aux_type, bias_type;
    int8_t fast_accum;
    void *bias, *scales[8]; /* must be NULL: epilogues and scale pointers are not modelled */
    int64_t bias_stride, aux_ld, aux_stride, alpha_stride;
    int32_t modes[6];
};

struct lt_preference {
    uint64_t max_workspace_bytes;
    uint32_t search_mode, reduction_mask, alignment[4];
    float max_waves;
};

/* D (m x n) = alpha * op(A) (m x k) * op(B) (k x n) + beta * C, for each matrix of the batch. */
struct lt_problem {
    struct lt_layout a, b, c, d;
    bool transa, transb, device_scalars;
    size_t m, n, k;
    int batch;
    cudaDataType scale_type;
};

/* Checks that the descriptors are consistent and modelled, and fills *problem. */
cublasStatus_t lt_problem_check(struct lt_problem *problem, cublasLtMatmulDesc_t desc, cublasLtMatrixLayout_t a,
                                cublasLtMatrixLayout_t b, cublasLtMatrixLayout_t c, cublasLtMatrixLayout_t d);

/* Multiplies on the CPU. Returns false if out of host memory. */
bool lt_compute(const struct lt_problem *problem, double alpha, const void *a, const void *b, double beta,
                const void *c, void *d);

#pragma GCC visibility pop
#endif
