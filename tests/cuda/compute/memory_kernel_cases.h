/*
 * memory_kernel_cases.h - memory-bound kernels of every kind and type on many shapes and alignments, with random data.
 * A runner executes each kernel; then every array, and the bytes before and after it, is compared with the CPU
 * reference.
 */
#ifndef BB_TESTS_CUDA_COMPUTE_MEMORY_KERNEL_CASES_H
#define BB_TESTS_CUDA_COMPUTE_MEMORY_KERNEL_CASES_H

#include "cuda/work/memory_kernel.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Runs the kernel on arrays in host memory. Returns 0, or an error that stops the test. */
typedef int memory_kernel_runner(void *arg, const struct bb_memory_kernel *memory_kernel);

struct memory_kernel_totals {
    int cases, failed; /* number of all cases, and of cases that differ from the reference */
    int rc;            /* error of the runner, or 0 */
};

/* memory_kernel_cases_each - run all cases; prints each difference to stderr. */
struct memory_kernel_totals memory_kernel_cases_each(memory_kernel_runner *run, void *arg);

#ifdef __cplusplus
}
#endif
#endif
