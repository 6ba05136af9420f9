/*
 * layer_memory_kernels.h - launches the passes of memory_kernel.h on the GPU. A pass is a struct, so that the same one is counted
 * (memory_kernel.h), launched (here) and checked against its CPU reference (tests/cuda/work/memory_kernel_ref.h).
 */
#ifndef BB_CUDA_COMPUTE_LAYER_MEMORY_KERNELS_H
#define BB_CUDA_COMPUTE_LAYER_MEMORY_KERNELS_H

#include "bootstrap/base/err.h"
#include "cuda/work/memory_kernel.h"

#include <cuda_runtime_api.h>

#ifdef __cplusplus
extern "C" {
#endif

/* bb_memory_kernels_load - see cuda/load: the kernels of all passes. */
BB_MUST_CHECK int bb_memory_kernels_load(void);

/*
 * bb_memory_kernel_run - enqueue the pass on `stream`; returns at once. The pass is copied, its pointers must stay until it ran.
 * A pass of no elements does nothing. Types other than float, half and bfloat16: said, -BB_EUSAGE. CUDA: -BB_EFAIL.
 */
BB_MUST_CHECK int bb_memory_kernel_run(const struct bb_memory_kernel *memory_kernel, cudaStream_t stream);

#ifdef __cplusplus
}
#endif
#endif
