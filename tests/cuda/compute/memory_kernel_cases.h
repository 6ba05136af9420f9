/*
 * memory_kernel_cases.h - passes of every kind and type on many shapes and alignments, with random data: somebody runs them, and
 * every array is compared with what the CPU reference leaves, the bytes before and behind it too.
 */
#ifndef PASS_CASES_H
#define PASS_CASES_H

#include "cuda/work/memory_kernel.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Does the pass on arrays in host memory. Returns 0, or what ends the test. */
typedef int memory_kernel_runner(void *arg, const struct bb_memory_kernel *memory_kernel);

struct memory_kernel_totals {
    int cases, failed; /* of the cases                       */
    int rc;            /* the runner's, when it gave up      */
};

/* memory_kernel_cases_each - all cases; the first failures are told on stderr. */
struct memory_kernel_totals memory_kernel_cases_each(memory_kernel_runner *run, void *arg);

#ifdef __cplusplus
}
#endif
#endif
