/*
 * host_gpu.h - the part of CUDA C++ that is needed to compile the source of a kernel for the CPU and to run it over the
 * grid and blocks of a launch. Include it before the kernels. Built-in variables and shared memory are thread-local to
 * the host thread of the launch, so several launches may run at once.
 *
 * Threads of a block run one after another until one waits: at a barrier, or in a shuffle for other threads of its
 * warp. A kernel that never waits runs as a plain loop. Between two barriers a warp runs as far as possible before the
 * next one begins: the first warp first in even blocks, last in odd blocks. So a missing barrier gives a wrong result.
 * A thread that polls memory (host_gpu_poll) goes on when all threads of the block have run as far as possible. Blocks
 * run one after another, so a block must not wait for another block of the same launch.
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
#undef __grid_constant__
#define __device__
#define __global__
#define __shared__ thread_local
#define __launch_bounds__(...)
#define __grid_constant__

enum { HOST_GPU_GUARD_BYTES = 64 };

struct host_gpu_index {
    unsigned x, y, z;
};
#define HOST_GPU_OWN __attribute__((visibility("hidden"))) /* hidden: one TLS lookup finds all of them */
extern __thread struct host_gpu_index threadIdx HOST_GPU_OWN, blockIdx HOST_GPU_OWN;
extern __thread struct host_gpu_index blockDim HOST_GPU_OWN, gridDim HOST_GPU_OWN;

/*
 * One launch. The clock of a thread begins at start_ns in every block, advances by tick_ns at each read, and reads
 * start_ns + lasts_ns once on its way. After a barrier all threads' clocks are at least the latest one. With
 * `is_stopping` the clock is the machine's, and jumps far ahead when is_stopping() returns true; a kernel whose threads
 * poll is then abandoned.
 */
struct host_gpu_launch {
    const char *name; /* of the kernel, for messages */
    dim3 grid, block;
    void (*body)(const void *args); /* one thread */
    const void *args;
    unsigned char *shared; /* the memory that `extern __shared__` refers to in the calling thread, or NULL */
    size_t shared_capacity, shared_bytes; /* capacity in bytes, including HOST_GPU_GUARD_BYTES; bytes that the launch
                                             requests */
    int64_t start_ns, lasts_ns, tick_ns;
    bool (*is_stopping)(void);
    bool alone; /* run only the block of index `number` along x */
    unsigned number;
};

/*
 * host_gpu_run - run a launch. Ends the process when the kernel cannot continue (threads wait for a thread that has
 * ended) or writes past the launch's shared memory.
 *   Returns  the end of the last block on the kernel's clock; start_ns + lasts_ns if no thread read the clock
 */
int64_t host_gpu_run(const struct host_gpu_launch *launch);

/* A thread of kernel K with argument A, for host_gpu_launch.body. */
template <typename A, void (*K)(A)> static void host_gpu_thread(const void *args)
{
    K(*static_cast<const A *>(args));
}

/* ---- functions that kernels call ---- */

uint64_t bb_gpu_clock_ns();
void __nanosleep(unsigned ns);
void __syncthreads();
void host_gpu_poll(); /* before a load of memory that another rank or block writes */
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

/* Streaming accesses. The barrier keeps the compiler from removing a read whose value is written back. */
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

/* Concurrent launches may access the same word. */
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
