/*
 * gemm.h - matrix products C = op(A) op(B) through cuBLASLt, planned once and run many times. Matrices are row-major,
 * as in layer_shape.h. The element type is float, half or bfloat16; the accumulator is float. GEMMs of type float use
 * TF32 only on request (bb_gemm_lib.tf32).
 *
 *   struct bb_gemm_lib lib; struct bb_gemm g;
 *   TRY(bb_gemm_lib_init(&lib, BB_GEMM_WORKSPACE));
 *   TRY(bb_gemm_init(&g, &lib, &shape));
 *   TRY(bb_gemm_run(&g, a, b, c, stream));   // any number of times, also during stream capture
 */
#ifndef BB_CUDA_COMPUTE_GEMM_H
#define BB_CUDA_COMPUTE_GEMM_H

#include "bootstrap/world/world.h"
#include "cuda/work/layer_shape.h"

#include <cublasLt.h>
#include <cuda_runtime_api.h>

/* A cuBLASLt handle and one workspace, shared by all GEMMs that bb_gemm_init plans with it. GEMMs that may run
 * concurrently, on different streams, need separate handles. */
struct bb_gemm_lib {
    cublasLtHandle_t handle;
    void *workspace;
    size_t workspace_bytes;
    bool tf32;   /* GEMMs of type float round their operands to TF32. May be set before bb_gemm_init, as sms */
    int32_t sms; /* SMs that algorithms of the GEMMs are chosen for, so that the others are left to NCCL; 0: all. May be
                    set before bb_gemm_init */
};

/* bb_gemm_lib_init - create a handle on the current device. bb_gemm_lib_release accepts a partly initialized lib;
 * call it when no GEMM of the lib is running. */
int bb_gemm_lib_init(struct bb_gemm_lib *lib, size_t workspace_bytes) BB_MUST_CHECK;
void bb_gemm_lib_release(struct bb_gemm_lib *lib);

struct bb_gemm {
    const struct bb_gemm_lib *lib;
    struct bb_gemm_shape shape;
    cublasLtMatmulDesc_t desc;
    cublasLtMatrixLayout_t a, b, c; /* layouts in cuBLASLt's order, with A and B exchanged (see gemm.c) */
    cublasLtMatmulPreference_t preference;
    cublasLtMatmulAlgo_t algo;
    int choice; /* index of algo among the algorithms that the cuBLASLt heuristic returns */
};

/*
 * bb_gemm_init - plan a GEMM (create its cuBLASLt descriptors and choose the algorithm that the heuristic ranks first).
 *   Returns  0; -BB_EUSAGE after printing an error, for an unsupported type or an invalid shape; -BB_EFAIL if cuBLASLt
 *            fails or has no algorithm for this GEMM
 * bb_gemm_release accepts a partly initialized struct.
 */
int bb_gemm_init(struct bb_gemm *g, const struct bb_gemm_lib *lib, const struct bb_gemm_shape *shape) BB_MUST_CHECK;
void bb_gemm_release(struct bb_gemm *g);

/* bb_gemm_run - enqueue the GEMM and return at once. a, b and c are in device memory, aligned to 16 bytes. */
int bb_gemm_run(const struct bb_gemm *g, const void *a, const void *b, void *c, cudaStream_t stream) BB_MUST_CHECK;

/*
 * bb_gemm_tune - time the first `candidates` algorithms that the cuBLASLt heuristic returns and select the fastest for
 * g. A start barrier holds the GEMMs until all are enqueued, so that short GEMMs are not compared by their launches.
 * Waits for the stream, so it must not be called during stream capture.
 *   candidates  algorithms to try; limited to BB_GEMM_CANDIDATES
 *   repeats     timed GEMMs per algorithm
 *   a, b, c     matrices in device memory; c is overwritten
 *   tried       out: number of algorithms that ran; may be NULL
 */
int bb_gemm_tune(struct bb_gemm *g, int candidates, int repeats, const void *a, const void *b, void *c,
                 cudaStream_t stream, int *tried) BB_MUST_CHECK;

/* bb_gemm_same_shape - return whether two shapes are equal. */
bool bb_gemm_same_shape(const struct bb_gemm_shape *a, const struct bb_gemm_shape *b);

/*
 * bb_gemms_agree - let all ranks run each GEMM with the algorithm that the lowest rank with this shape selected.
 * Otherwise ranks could select different algorithms, and one of them would appear as a slow GPU. Collective over all
 * ranks; the ranks may have different GEMMs.
 *   gemms    [n] GEMMs of this rank, of different shapes, after bb_gemm_tune
 *   Returns  0, or a negative error code after printing an error
 */
int bb_gemms_agree(struct bb_world *w, struct bb_gemm *gemms, int n) BB_MUST_CHECK;

#endif
