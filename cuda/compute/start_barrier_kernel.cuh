/* start_barrier_kernel.cuh - the kernel launched by start_barrier.cu: one thread polls the host's flag about every
 * 0.5 us. */
#ifndef BB_CUDA_COMPUTE_START_BARRIER_KERNEL_CUH
#define BB_CUDA_COMPUTE_START_BARRIER_KERNEL_CUH

#include "cuda/compute/start_barrier.h"
#include "cuda/device/gpu_clock.cuh"

extern "C" __global__ void bb_start_barrier_kernel(struct bb_start_barrier_args a)
{
    const uint64_t start = bb_gpu_clock_ns();
    const volatile uint32_t *opened = &a.flags->opened;

    while (*opened < a.number) {
        if (bb_gpu_clock_ns() - start >= (uint64_t)a.limit_ns) {
            a.flags->expired = a.number;
            __threadfence_system();
            return;
        }
        __nanosleep(500);
    }
}

#endif
