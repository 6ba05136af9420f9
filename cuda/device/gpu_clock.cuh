/*
 * gpu_clock.cuh - reads the GPU's clock in kernels (%globaltimer, in ns). When a kernel is compiled for the CPU
 * (tests/emulator), the including file defines bb_gpu_clock_ns() itself.
 */
#ifndef BB_CUDA_DEVICE_GPU_CLOCK_CUH
#define BB_CUDA_DEVICE_GPU_CLOCK_CUH

#ifdef __CUDACC__
static __device__ inline uint64_t bb_gpu_clock_ns()
{
    uint64_t t;

    asm volatile("mov.u64 %0, %globaltimer;" : "=l"(t));
    return t;
}
#endif

#endif
