/*
 * memory_kernel_ref.h - CPU reference of each memory-bound kernel (cuda/work/memory_kernel.h), element by element, in
 * double precision. The kernels' tests compare with it, and the emulated GPUs run it in place of the kernels.
 */
#ifndef BB_TESTS_CUDA_WORK_MEMORY_KERNEL_REF_H
#define BB_TESTS_CUDA_WORK_MEMORY_KERNEL_REF_H

#include "cuda/work/memory_kernel.h"

#ifdef __cplusplus
extern "C" {
#endif

void bb_memory_kernel_ref(const struct bb_memory_kernel *p);

#ifdef __cplusplus
}
#endif
#endif
