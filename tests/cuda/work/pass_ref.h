/*
 * memory_kernel_ref.h - what each pass (cuda/work/pass.h) computes, one element after another on the CPU, in double. The truth
 * for the kernels' tests, and what the emulated GPUs do in their place.
 */
#ifndef BB_TESTS_CUDA_WORK_PASS_REF_H
#define BB_TESTS_CUDA_WORK_PASS_REF_H

#include "cuda/work/pass.h"

#ifdef __cplusplus
extern "C" {
#endif

void bb_memory_kernel_ref(const struct bb_memory_kernel *p);

#ifdef __cplusplus
}
#endif
#endif
