/*
 * kernel_runner.h - runs kernel lists (the GEMMs and memory-bound kernels of a layer, kernel_list.h) on the GPU. Each
 * distinct GEMM is planned once. All lists use the same operand memory, because only the time matters and not the
 * results. Inputs are never overwritten, so the values stay small and finite.
 *
 *   struct bb_kernel_runner worker;
 *   TRY(bb_kernel_runner_init(&worker, lists, n, 8, stream));      // not during stream capture
 *   TRY(bb_kernel_runner_run(&worker, i, stream));                 // runs lists[i]; allowed during stream capture
 *
 * The lists of a runner share memory, so they must run on one stream, or one after another.
 */
#ifndef BB_CUDA_COMPUTE_KERNEL_RUNNER_H
#define BB_CUDA_COMPUTE_KERNEL_RUNNER_H

#include "cuda/compute/gemm.h"
#include "cuda/work/kernel_list.h"

struct bb_kernel_runner {
    const struct bb_kernel_list *const *lists; /* [n] borrowed; must outlive the runner */
    int n;
    struct bb_gemm_lib lib;
    char *read, *write;
    int32_t *index;
    struct bb_kernel_list_memory memory;
    struct bb_gemm *gemms; /* [n_gemms] one planned GEMM per distinct shape; owned */
    int n_gemms;
};

/* bb_kernel_runner_bytes - device memory that bb_kernel_runner_init allocates; needs no GPU. */
size_t bb_kernel_runner_bytes(const struct bb_kernel_list *const lists[], int n);

/*
 * bb_kernel_runner_init - allocate and fill the operands, and plan every distinct GEMM. Waits for `stream`.
 *   lists       [n] borrowed; must outlive the runner
 *   candidates  cuBLASLt algorithms to time per GEMM; 1: use the first choice of its heuristic
 *   Returns     0, -BB_EUSAGE (unsupported shape or type) or -BB_EFAIL, after printing an error
 * bb_kernel_runner_release accepts a partly initialized runner.
 */
int bb_kernel_runner_init(struct bb_kernel_runner *worker, const struct bb_kernel_list *const lists[], int n,
                          int candidates, cudaStream_t stream) BB_MUST_CHECK;
void bb_kernel_runner_release(struct bb_kernel_runner *worker);

/* bb_kernel_runner_run - enqueue all kernels of lists[i] and return at once. */
int bb_kernel_runner_run(const struct bb_kernel_runner *worker, int i, cudaStream_t stream) BB_MUST_CHECK;

#endif
