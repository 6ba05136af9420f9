/*
 * memory_kernel_ref.h - what each pass (cuda/work/memory_kernel.h) computes, one element after another on the CPU, in double. The truth
 * for the kernels' tests, and what the emulated GPUs do in their place.
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
