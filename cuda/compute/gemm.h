/*
 * gemm.h - matrix products through cuBLASLt, planned once and run many times: C = op(A) op(B), row-major as in
 * layer_shape.h, float, half or bfloat16, sums in float.
 *
 *   struct bb_gemm_lib lib; struct bb_gemm g;
 *   TRY(bb_gemm_lib_init(&lib, BB_GEMM_WORKSPACE));
 *   TRY(bb_gemm_init(&g, &lib, &shape));
 *   TRY(bb_gemm_run(&g, a, b, c, stream));   // as often as needed, also into a captured graph
 */
#ifndef BB_CUDA_COMPUTE_GEMM_H
#define BB_CUDA_COMPUTE_GEMM_H

#include "bootstrap/base/err.h"
#include "cuda/work/layer_shape.h"

#include <cublasLt.h>
#include <cuda_runtime_api.h>

/* The library on one device, with the workspace that its products use one after another: products that may run at the
 * same time, on different streams, need a lib each. */
struct bb_gemm_lib {
    cublasLtHandle_t handle;
    void *workspace;
    size_t workspace_bytes;
};

/* On the current device. Release works on a half-made one; no product may still run. */
int bb_gemm_lib_init(struct bb_gemm_lib *lib, size_t workspace_bytes) BB_MUST_CHECK;
void bb_gemm_lib_release(struct bb_gemm_lib *lib);

struct bb_gemm {
    const struct bb_gemm_lib *lib;
    struct bb_gemm_shape shape;
    cublasLtMatmulDesc_t desc;
    cublasLtMatrixLayout_t a, b, c; /* as cuBLASLt sees them: A and B exchanged, see gemm.c */
    cublasLtMatmulPreference_t preference;
    cublasLtMatmulAlgo_t algo;
};

/* bb_gemm_init - plan with the algorithm that cuBLASLt's heuristic ranks first. A type or shape that is none:
 * said, -BB_EUSAGE; its errors, and a product that it has no algorithm for: -BB_EFAIL. Release works on a half-made plan. */
int bb_gemm_init(struct bb_gemm *g, const struct bb_gemm_lib *lib, const struct bb_gemm_shape *shape) BB_MUST_CHECK;
void bb_gemm_release(struct bb_gemm *g);

/* bb_gemm_run - enqueue the product; pointers to device memory, aligned to 16 bytes. Returns at once. */
int bb_gemm_run(const struct bb_gemm *g, const void *a, const void *b, void *c, cudaStream_t stream) BB_MUST_CHECK;

/*
 * bb_gemm_tune - time the first `candidates` (up to BB_GEMM_CANDIDATES) algorithms of the heuristic, `repeats` products
 * each, and keep the fastest. Waits for the stream; not while it is captured. *tried (may be NULL): algorithms that
 * ran.
 */
int bb_gemm_tune(struct bb_gemm *g, int candidates, int repeats, const void *a, const void *b, void *c,
                 cudaStream_t stream, int *tried) BB_MUST_CHECK;

#endif
