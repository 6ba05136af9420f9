/*
 * host_gpu.h - just enough of a GPU to run the source of a kernel on the CPU, one thread after another: a block's
 * threads are contexts that take turns at every barrier. Include it before the kernels, in one C++ file.
 */
#ifndef HOST_GPU_H
#define HOST_GPU_H

#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cuda_runtime_api.h>

#include <math.h>
#include <stdint.h>
#include <stdlib.h>
#include <ucontext.h>

#undef __device__
#undef __global__
#undef __shared__
#undef __launch_bounds__
#define __device__
#define __global__
#define __shared__
#define __launch_bounds__(...)

static struct {
    unsigned x, y, z;
} threadIdx, blockIdx;
static dim3 blockDim, gridDim;

namespace host_gpu
{
enum { MOST_THREADS = 512, STACK_BYTES = 64 << 10 };

struct fiber {
    ucontext_t context;
    char *stack;
    bool done;
};
static fiber fibers[MOST_THREADS];
static ucontext_t scheduler;
static unsigned current;
static float exchange[MOST_THREADS];
static void (*body)();

static void barrier()
{
    swapcontext(&fibers[current].context, &scheduler);
}

static void fiber_main()
{
    body();
    fibers[current].done = true;
}

static void prepare(fiber *f)
{
    if (!f->stack)
        f->stack = static_cast<char *>(malloc(STACK_BYTES));
    getcontext(&f->context);
    f->context.uc_stack.ss_sp = f->stack;
    f->context.uc_stack.ss_size = STACK_BYTES;
    f->context.uc_link = &scheduler;
    f->done = false;
    makecontext(&f->context, fiber_main, 0);
}

/* All threads up to their next barrier, then again, until all have ended. */
static void run_block()
{
    const unsigned threads = blockDim.x * blockDim.y;
    unsigned running = threads;

    for (unsigned i = 0; i < threads; i++)
        prepare(&fibers[i]);
    while (running > 0) {
        running = 0;
        for (current = 0; current < threads; current++) {
            if (fibers[current].done)
                continue;
            threadIdx.x = current % blockDim.x;
            threadIdx.y = current / blockDim.x;
            swapcontext(&scheduler, &fibers[current].context);
            running += !fibers[current].done;
        }
    }
}

static void launch(unsigned blocks, unsigned x, unsigned y, void (*kernel_call)())
{
    gridDim = dim3(blocks);
    blockDim = dim3(x, y);
    body = kernel_call;
    for (blockIdx.x = 0; blockIdx.x < blocks; blockIdx.x++)
        run_block();
}

static void release()
{
    for (fiber &f : fibers) {
        free(f.stack);
        f.stack = NULL;
    }
}
} // namespace host_gpu

static inline void __syncthreads()
{
    host_gpu::barrier();
}

static inline float __shfl_xor_sync(unsigned, float x, int lanes)
{
    float other;

    host_gpu::exchange[host_gpu::current] = x;
    host_gpu::barrier();
    other = host_gpu::exchange[host_gpu::current ^ (unsigned)lanes];
    host_gpu::barrier();
    return other;
}

static inline float host_gpu_expf(float x)
{
    return expf(x);
}
#define __expf host_gpu_expf

static inline float __fdividef(float a, float b)
{
    return a / b;
}

/* Memory that is used once. */
template <typename T> static inline T __ldcs(const T *p)
{
    return *p;
}

template <typename T> static inline void __stcs(T *p, T value)
{
    *p = value;
}

/* One thread at a time: nothing can come between. */
typedef unsigned long long host_gpu_word;

static inline void atomicMin(host_gpu_word *p, host_gpu_word x)
{
    *p = x < *p ? x : *p;
}

static inline void atomicMax(host_gpu_word *p, host_gpu_word x)
{
    *p = x > *p ? x : *p;
}

static inline void atomicAdd(host_gpu_word *p, host_gpu_word x)
{
    *p += x;
}

static inline float rsqrtf(float x)
{
    return 1 / sqrtf(x);
}

#endif
