/*
 * data_kernels.cuh - the kernels launched by kernels.cu. Each thread calls the functions of pattern.h, which are also
 * the CPU reference. The GPU emulator compiles this same source for the CPU (tests/emulator/kernels).
 */
#ifndef BB_CUDA_DATA_DATA_KERNELS_CUH
#define BB_CUDA_DATA_DATA_KERNELS_CUH

#include "cuda/data/kernel_args.h"

static __device__ uint64_t first_index()
{
    return (uint64_t)blockIdx.x * blockDim.x + threadIdx.x;
}

static __device__ uint64_t stride()
{
    return (uint64_t)gridDim.x * blockDim.x;
}

extern "C" __global__ void bb_fill_kernel(struct bb_fill_args a)
{
    for (uint64_t i = first_index(); i < a.count; i += stride())
        bb_store(a.buf, a.pattern.bytes, i, bb_pattern_input(&a.pattern, a.rank, a.first + i));
}

static __device__ void add_wrong(struct bb_verdict *verdict, uint64_t i)
{
    atomicAdd(&verdict->wrong, 1ull);
    atomicMin(&verdict->first, (unsigned long long)i);
}

/* Lane 0 counts the elements that its warp checks from index i on, so that each warp adds its count once. */
static __device__ unsigned long long checked_by_warp(uint64_t i, uint64_t count)
{
    return threadIdx.x % 32 != 0 ? 0 : count - i < 32 ? count - i : 32;
}

static __device__ void add_checked(struct bb_verdict *verdict, unsigned long long checked)
{
    if (checked > 0)
        atomicAdd(&verdict->checked, checked);
}

extern "C" __global__ void bb_check_kernel(struct bb_check_args a)
{
    unsigned long long checked = 0;

    for (uint64_t i = first_index(); i < a.count; checked += checked_by_warp(i, a.count), i += stride())
        if (bb_differs(&a.pattern, bb_load(a.buf, a.pattern.bytes, i), bb_expected(&a.pattern, &a.expect, i)))
            add_wrong(a.verdict, i);
    add_checked(a.verdict, checked);
}

extern "C" __global__ void bb_check_bytes_kernel(struct bb_check_bytes_args a)
{
    unsigned long long checked = 0;

    for (uint64_t i = first_index(); i < a.bytes; checked += checked_by_warp(i, a.bytes), i += stride())
        if (((const unsigned char *)a.buf)[i] != a.value)
            add_wrong(a.verdict, i);
    add_checked(a.verdict, checked);
}

extern "C" __global__ void bb_verdict_clear_kernel(struct bb_verdict *verdict)
{
    verdict->wrong = 0;
    verdict->first = ~0ull;
    verdict->checked = 0;
}

#endif
