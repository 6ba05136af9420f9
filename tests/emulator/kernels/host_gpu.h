/*
 * host_gpu.h - just enough of a GPU to compile the source of a kernel for the CPU and run it over a launch's grid and
 * blocks. Include it before the kernels. Built-in variables and shared memory belong to the host thread that runs the
 * launch, so several launches may run at once.
 *
 * Threads of a block run one after another until one waits: at a barrier, or in a shuffle for the others of its warp.
 * A kernel without either is a plain loop. Between two barriers a warp runs as far as it gets before the next one
 * begins, the first warp first in even blocks and last in odd ones, so that what needs a barrier and has none shows.
 */
#ifndef HOST_GPU_H
#define HOST_GPU_H

#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cuda_runtime_api.h>

#include <math.h>
#include <stdint.h>

#undef __device__
#undef __global__
#undef __shared__
#undef __launch_bounds__
#define __device__
#define __global__
#define __shared__ thread_local
#define __launch_bounds__(...)

enum { HOST_GPU_GUARD_BYTES = 64 };

struct host_gpu_index {
    unsigned x, y, z;
};
#define HOST_GPU_OWN __attribute__((visibility("hidden"))) /* one look-up of thread-local memory finds them all */
extern __thread struct host_gpu_index threadIdx HOST_GPU_OWN, blockIdx HOST_GPU_OWN;
extern __thread struct host_gpu_index blockDim HOST_GPU_OWN, gridDim HOST_GPU_OWN;

/*
 * One launch. A thread's clock begins at start_ns in every block, and moves on by tick_ns whenever it is looked at; it
 * stops at start_ns + lasts_ns on its way. After a barrier no thread's clock is behind another's. With `is_stopping` it
 * is the machine's clock, and runs away once that says true.
 */
struct host_gpu_launch {
    const char *name; /* of the kernel, for messages                                                        */
    dim3 grid, block;
    void (*body)(const void *args); /* one thread                                                            */
    const void *args;
    unsigned char *shared; /* what `extern __shared__` names of the calling thread, or NULL             */
    size_t shared_capacity, shared_bytes; /* its size, HOST_GPU_GUARD_BYTES of it spare; the launch's wish */
    int64_t start_ns, lasts_ns, tick_ns;
    bool (*is_stopping)(void);
    bool alone; /* only the block of this number along x runs */
    unsigned number;
};

/* host_gpu_run - returns when the last block ends on the kernel's clock; start_ns + lasts_ns where none looked at it. A
 * kernel that can't go on (threads wait for one that has ended, shared memory beyond the launch's) ends the process. */
int64_t host_gpu_run(const struct host_gpu_launch *launch);

/* A thread of kernel K, whose argument is an A: host_gpu_launch.body. */
template <typename A, void (*K)(A)> static void host_gpu_thread(const void *args)
{
    K(*static_cast<const A *>(args));
}

/* ---- what kernels call ---- */

uint64_t bb_gpu_clock_ns();
void __nanosleep(unsigned ns);
void __syncthreads();
float __shfl_xor_sync(unsigned mask, float x, int lanes);

static inline void __threadfence_system()
{
    __atomic_thread_fence(__ATOMIC_SEQ_CST);
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

static inline float rsqrtf(float x)
{
    return 1 / sqrtf(x);
}

/* Memory that is used once. What is read and written back must not be left out, as compilers like to. */
template <typename T> static inline T __ldcs(const T *p)
{
    const T value = *p;

    asm volatile("" ::: "memory");
    return value;
}

template <typename T> static inline void __stcs(T *p, T value)
{
    *p = value;
}

/* Other launches may touch the same word. */
static inline unsigned long long atomicAdd(unsigned long long *p, unsigned long long x)
{
    return __atomic_fetch_add(p, x, __ATOMIC_RELAXED);
}

static inline unsigned long long atomicMin(unsigned long long *p, unsigned long long x)
{
    unsigned long long old = __atomic_load_n(p, __ATOMIC_RELAXED);

    while (x < old && !__atomic_compare_exchange_n(p, &old, x, true, __ATOMIC_RELAXED, __ATOMIC_RELAXED))
        ;
    return old;
}

static inline unsigned long long atomicMax(unsigned long long *p, unsigned long long x)
{
    unsigned long long old = __atomic_load_n(p, __ATOMIC_RELAXED);

    while (x > old && !__atomic_compare_exchange_n(p, &old, x, true, __ATOMIC_RELAXED, __ATOMIC_RELAXED))
        ;
    return old;
}

#endif
