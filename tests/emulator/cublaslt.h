/*
 * cublaslt.h - definitions shared by the source files of the emulated libcublasLt.
 */
#ifndef EMU_CUBLASLT_H
#define EMU_CUBLASLT_H

#include "engine.h"
#include <cublasLt.h>

#pragma GCC visibility push(hidden)

enum { LT_ALGO = 0x656d75 }; /* identifier of the algorithms that the heuristic returns; data[1]: index */

/* Contents of cuBLASLt's opaque descriptors. */
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
    void *bias, *scales[8]; /* must all be NULL, because epilogues and scale pointers are not modelled */
    int64_t bias_stride, aux_ld, aux_stride, alpha_stride;
    int32_t modes[6];
};

struct lt_preference {
    uint64_t max_workspace_bytes;
    uint32_t search_mode, reduction_mask, alignment[4];
    float max_waves;
};

/* One call of cublasLtMatmul: D (m x n) = alpha * op(A) (m x k) * op(B) (k x n) + beta * C, for each matrix of the
 * batch. */
struct lt_problem {
    struct lt_layout a, b, c, d;
    bool transa, transb, device_scalars;
    size_t m, n, k;
    int batch;
    cudaDataType scale_type;
};

/* Fills *problem from the descriptors. Returns an error if they are inconsistent or use a feature that is not
 * modelled. */
cublasStatus_t lt_problem_check(struct lt_problem *problem, cublasLtMatmulDesc_t desc, cublasLtMatrixLayout_t a,
                                cublasLtMatrixLayout_t b, cublasLtMatrixLayout_t c, cublasLtMatrixLayout_t d);

/* Computes the GEMM on the CPU. Returns false if host memory is exhausted. */
bool lt_compute(const struct lt_problem *problem, double alpha, const void *a, const void *b, double beta,
                const void *c, void *d);

#pragma GCC visibility pop
#endif
