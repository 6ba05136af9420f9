/*
 * kernels.cu - make and check test data on the GPU, and hold multiprocessors for a given time. Nothing in here is
 * timed. The CPU reference of every value is pattern.h itself; the kernels only spread it over threads. Each kernel
 * takes one struct, so that a CPU twin of the emulated GPUs finds all arguments in one place (kernel_args.h).
 */
#include "cuda/data/kernels.h"

#include "cuda/data/kernel_args.h"
#include "cuda/device/check.h"

static const int THREADS = 256, MAX_BLOCKS = 4096;

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

extern "C" __global__ void bb_check_kernel(struct bb_check_args a)
{
    unsigned long long checked = 0;

    for (uint64_t i = first_index(); i < a.count; i += stride(), checked++)
        if (bb_differs(&a.pattern, bb_load(a.buf, a.pattern.bytes, i), bb_expected(&a.pattern, &a.expect, i)))
            add_wrong(a.verdict, i);
    atomicAdd(&a.verdict->checked, checked);
}

extern "C" __global__ void bb_check_bytes_kernel(struct bb_check_bytes_args a)
{
    unsigned long long checked = 0;

    for (uint64_t i = first_index(); i < a.bytes; i += stride(), checked++)
        if (((const unsigned char *)a.buf)[i] != a.value)
            add_wrong(a.verdict, i);
    atomicAdd(&a.verdict->checked, checked);
}

extern "C" __global__ void bb_verdict_clear_kernel(struct bb_verdict *verdict)
{
    verdict->wrong = 0;
    verdict->first = ~0ull;
    verdict->checked = 0;
}

static __device__ uint64_t global_timer_ns()
{
    uint64_t t;

    asm volatile("mov.u64 %0, %globaltimer;" : "=l"(t));
    return t;
}

/* One block per multiprocessor: each takes all the shared memory that a block can have. */
extern "C" __global__ void bb_spin_kernel(struct bb_spin_args a)
{
    uint64_t start = global_timer_ns();

    if (threadIdx.x == 0)
        while (global_timer_ns() - start < (uint64_t)a.ns)
            ;
}

/* ---- launchers ---- */

static int blocks_for(uint64_t count)
{
    uint64_t blocks = (count + THREADS - 1) / THREADS;

    return blocks < (uint64_t)MAX_BLOCKS ? (int)blocks : MAX_BLOCKS;
}

int bb_fill(void *buf, size_t count, const struct bb_pattern *pattern, int rank, size_t first, cudaStream_t stream)
{
    if (count == 0)
        return 0;
    struct bb_fill_args args = {buf, count, *pattern, rank, first};
    bb_fill_kernel<<<blocks_for(count), THREADS, 0, stream>>>(args);
    return BB_CUDA(cudaGetLastError());
}

int bb_check(const void *buf, size_t count, const struct bb_pattern *pattern, const struct bb_expect *expect,
             struct bb_verdict *verdict, cudaStream_t stream)
{
    if (count == 0)
        return 0;
    struct bb_check_args args = {buf, count, *pattern, *expect, verdict};
    bb_check_kernel<<<blocks_for(count), THREADS, 0, stream>>>(args);
    return BB_CUDA(cudaGetLastError());
}

int bb_check_bytes(const void *buf, size_t bytes, unsigned char value, struct bb_verdict *verdict, cudaStream_t stream)
{
    if (bytes == 0)
        return 0;
    struct bb_check_bytes_args args = {buf, bytes, value, verdict};
    bb_check_bytes_kernel<<<blocks_for(bytes), THREADS, 0, stream>>>(args);
    return BB_CUDA(cudaGetLastError());
}

int bb_verdict_clear(struct bb_verdict *verdict, cudaStream_t stream)
{
    bb_verdict_clear_kernel<<<1, 1, 0, stream>>>(verdict);
    return BB_CUDA(cudaGetLastError());
}

/* All the shared memory that a block can have; 0, hence several blocks per multiprocessor, where it cannot be had. */
static int spin_shared_bytes()
{
    int device, bytes;

    if (cudaGetDevice(&device) != cudaSuccess ||
        cudaDeviceGetAttribute(&bytes, cudaDevAttrMaxSharedMemoryPerBlockOptin, device) != cudaSuccess ||
        cudaFuncSetAttribute(bb_spin_kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, bytes) != cudaSuccess) {
        (void)cudaGetLastError();
        return 0;
    }
    return bytes;
}

int bb_spin(int sms, int64_t ns, cudaStream_t stream)
{
    static const int shared_bytes = spin_shared_bytes(); /* once: it is the same for every launch */
    int blocks = sms > 0 ? sms : 1;
    struct bb_spin_args args = {ns};

    bb_spin_kernel<<<blocks, 32, shared_bytes, stream>>>(args);
    return BB_CUDA(cudaGetLastError());
}
