/*
 * kernel_runner.h - runs lists of work on the GPU: products planned once, memory taken once and shared by all of them,
 * since only the time of the work counts and not its numbers. What is read is never written, so the numbers stay small
 * and finite.
 *
 *   struct bb_kernel_runner worker;
 *   TRY(bb_kernel_runner_init(&worker, works, n, 8, stream));      // not while the stream is captured
 *   TRY(bb_kernel_runner_run(&worker, i, stream));                 // list works[i]; also into a captured graph
 *
 * All lists of a worker run on one stream (or one after another): they share memory.
 */
#ifndef BB_CUDA_COMPUTE_KERNEL_RUNNER_H
#define BB_CUDA_COMPUTE_KERNEL_RUNNER_H

#include "cuda/compute/gemm.h"
#include "cuda/work/kernel_list.h"

struct bb_kernel_runner {
    const struct bb_kernel_list *const *lists; /* the caller's, which outlive the worker */
    int n;
    struct bb_gemm_lib lib;
    char *read, *write;
    int32_t *index;
    struct bb_kernel_list_memory memory;
    struct bb_gemm *gemms; /* distinct shapes */
    int n_gemms;
};

/* bb_kernel_runner_bytes - device memory that bb_kernel_runner_init will take; for plans, before anything starts. */
size_t bb_kernel_runner_bytes(const struct bb_kernel_list *const lists[], int n);

/*
 * bb_kernel_runner_init - allocate, fill, plan every distinct product with the best of `candidates` algorithms (1:
 * cuBLASLt's first choice). Waits for stream. Returns 0, -BB_EUSAGE (a shape or type that cannot be done) or -BB_EFAIL.
 * Release works on a half-made one.
 */
int bb_kernel_runner_init(struct bb_kernel_runner *worker, const struct bb_kernel_list *const lists[], int n,
                          int candidates, cudaStream_t stream) BB_MUST_CHECK;
void bb_kernel_runner_release(struct bb_kernel_runner *worker);

/* bb_kernel_runner_run - enqueue every item of works[i]; returns at once. */
int bb_kernel_runner_run(const struct bb_kernel_runner *worker, int i, cudaStream_t stream) BB_MUST_CHECK;

#endif
