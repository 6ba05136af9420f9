/*
 * layer_memory_kernels.h - launches the memory-bound kernels of memory_kernel.h on the GPU. One struct bb_memory_kernel
 * serves to count bytes (memory_kernel.h), to launch the kernel (here) and to compute the CPU reference
 * (tests/cuda/work/memory_kernel_ref.h).
 */
#ifndef BB_CUDA_COMPUTE_LAYER_MEMORY_KERNELS_H
#define BB_CUDA_COMPUTE_LAYER_MEMORY_KERNELS_H

#include "bootstrap/base/err.h"
#include "cuda/work/memory_kernel.h"

#include <cuda_runtime_api.h>

#ifdef __cplusplus
extern "C" {
#endif

/* bb_memory_kernels_load - load all memory-bound kernels on the current GPU before any measurement (see cuda/load). */
BB_MUST_CHECK int bb_memory_kernels_load(void);

/*
 * bb_memory_kernel_run - enqueue a kernel on `stream` and return at once. A kernel with no elements is skipped.
 *   memory_kernel  copied; its device pointers must stay valid until the kernel has run
 *   Returns        0; -BB_EUSAGE after printing an error, for a type other than float, half or bfloat16; -BB_EFAIL
 */
BB_MUST_CHECK int bb_memory_kernel_run(const struct bb_memory_kernel *memory_kernel, cudaStream_t stream);

#ifdef __cplusplus
}
#endif
#endif
