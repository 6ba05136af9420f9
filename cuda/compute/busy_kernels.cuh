/*
 * busy_kernels.cuh - the timed kernels. Only busy.cu launches them. The GPU emulator compiles this same source for the
 * CPU (tests/emulator/kernels).
 */
#ifndef BB_CUDA_BUSY_KERNELS_CUH
#define BB_CUDA_BUSY_KERNELS_CUH

#include "cuda/compute/busy_args.h"
#include "cuda/device/gpu_clock.cuh"

enum {
    BB_BUSY_THREADS = 512,
    BB_BUSY_WORDS = 4 /* number of 16-byte words that a thread moves at a time; a block of 512 threads then moves one
                         portion, 512 x 4 words = 32 KiB */
};

/*
 * Reads one portion (32 KiB) of the scratch memory and writes it back unchanged. The cache hint .cs (streaming: used
 * once) makes this traffic go to memory and not stay in the L2 cache. The blocks take interleaved portions.
 */
static __device__ void move_portion(const struct bb_busy_args &a, uint64_t portion)
{
    const uint64_t portions = a.words / (BB_BUSY_THREADS * BB_BUSY_WORDS);
    const uint64_t first =
        (portion * gridDim.x + blockIdx.x) % portions * (BB_BUSY_THREADS * BB_BUSY_WORDS) + threadIdx.x;
    uint4 *scratch = static_cast<uint4 *>(a.scratch), v[BB_BUSY_WORDS];

    for (int i = 0; i < BB_BUSY_WORDS; i++)
        v[i] = __ldcs(scratch + first + i * BB_BUSY_THREADS);
    for (int i = 0; i < BB_BUSY_WORDS; i++)
        __stcs(scratch + first + i * BB_BUSY_THREADS, v[i]);
}

static __device__ void write_report(struct bb_busy_report *r, uint64_t start_ns, uint64_t portions)
{
    atomicMin(&r->start_ns, (unsigned long long)start_ns);
    atomicMax(&r->end_ns, (unsigned long long)bb_gpu_clock_ns());
    atomicAdd(&r->bytes, portions * BB_BUSY_THREADS * BB_BUSY_WORDS * 2 * sizeof(uint4));
    atomicAdd(&r->blocks, 1ull);
}

/* Element 0 contains the elapsed time of the thread block in ns; the other elements are unused. The launch requests
 * the maximum of dynamic shared memory for this array, so that an SM runs only one block. */
extern __shared__ int64_t bb_busy_now[];

/* Returns the time since start_ns in ns. Thread 0 reads the clock for the whole block, so all threads take the same
 * branch. */
static __device__ int64_t elapsed_ns(uint64_t start_ns)
{
    __syncthreads(); /* wait until every thread has read the previous value */
    if (threadIdx.x == 0)
        *bb_busy_now = (int64_t)(bb_gpu_clock_ns() - start_ns);
    __syncthreads();
    return *bb_busy_now;
}

extern "C" __global__ void __launch_bounds__(BB_BUSY_THREADS) bb_busy_kernel(struct bb_busy_args a)
{
    const uint64_t start_ns = bb_gpu_clock_ns();
    const double portion_bytes = 2.0 * BB_BUSY_THREADS * BB_BUSY_WORDS * sizeof(uint4);
    uint64_t portions = 0;

    for (int64_t t = elapsed_ns(start_ns); t < a.ns; t = elapsed_ns(start_ns))
        if (portions * portion_bytes < a.bytes_per_ns * t)
            move_portion(a, portions++);
    if (threadIdx.x == 0 && a.report)
        write_report(a.report, start_ns, portions);
}

/* The timed kernel without memory traffic: one thread polls the clock. */
extern "C" __global__ void bb_hold_kernel(struct bb_busy_args a)
{
    const uint64_t start_ns = bb_gpu_clock_ns();

    if (threadIdx.x != 0)
        return;
    while ((int64_t)(bb_gpu_clock_ns() - start_ns) < a.ns)
        ;
    if (a.report)
        write_report(a.report, start_ns, 0);
}

extern "C" __global__ void bb_busy_clear_kernel(struct bb_busy_report *report)
{
    *report = {~0ull, 0, 0, 0};
}

#endif
