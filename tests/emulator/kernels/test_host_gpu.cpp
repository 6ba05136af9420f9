/*
 * test_host_gpu.cpp - host_gpu: threads synchronise at barriers and in shuffles, reading the clock advances it, and
 * invalid kernels are reported by name. The check kernels use few atomic operations, which only their source shows.
 */
#include "host_gpu.h"

static int n_atomics;

static unsigned long long counted_add(unsigned long long *p, unsigned long long x)
{
    n_atomics++;
    return atomicAdd(p, x);
}
#define atomicAdd counted_add
#include "cuda/data/data_kernels.cuh"
#undef atomicAdd

#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

extern "C" {
#include "child.h"
#include <cmocka.h>
}

enum { THREADS = 96, SHARED_INTS = 32 };

alignas(16) static thread_local int dynamic_shared[SHARED_INTS + HOST_GPU_GUARD_BYTES / sizeof(int)];

static int64_t run(const char *name, dim3 grid, dim3 block, void (*body)(const void *), const void *args)
{
    struct host_gpu_launch l = {};

    l.name = name;
    l.grid = grid;
    l.block = block;
    l.body = body;
    l.args = args;
    l.shared = reinterpret_cast<unsigned char *>(dynamic_shared);
    l.shared_capacity = sizeof dynamic_shared;
    l.shared_bytes = SHARED_INTS * sizeof(int);
    l.start_ns = 500;
    l.lasts_ns = 1000;
    l.tick_ns = 300;
    return host_gpu_run(&l);
}

/* Each block reverses its part, through static shared memory. */
static void reverse_part(const void *args)
{
    __shared__ int part[THREADS];
    int *x = *static_cast<int *const *>(args) + blockIdx.x * THREADS;

    part[threadIdx.x] = x[threadIdx.x];
    __syncthreads();
    x[threadIdx.x] = part[THREADS - 1 - threadIdx.x];
}

static void blocks_share_memory_across_barriers(void **)
{
    int x[3 * THREADS], *args = x;

    for (int i = 0; i < 3 * THREADS; i++)
        x[i] = i;
    run("reverse_part", dim3(3), dim3(THREADS), reverse_part, &args);
    for (int i = 0; i < 3 * THREADS; i++)
        assert_int_equal(x[i], i / THREADS * THREADS + THREADS - 1 - i % THREADS);
}

static void sum_of_warp(const void *args)
{
    float x = (float)threadIdx.x;

    for (int lanes = 16; lanes > 0; lanes /= 2)
        x += __shfl_xor_sync(0xffffffffu, x, lanes);
    (*static_cast<float *const *>(args))[threadIdx.x] = x;
}

static void shuffles_stay_within_warps(void **)
{
    float sums[THREADS], *args = sums;

    run("sum_of_warp", dim3(2), dim3(THREADS), sum_of_warp, &args); /* 0 + ... + 31, and 1024 more for each further
                                                                       warp */
    for (int i = 0; i < THREADS; i++)
        assert_true(sums[i] == 496.0f + 1024.0f * (float)(i / 32));
}

static void count_indices(const void *args)
{
    unsigned long long *n = *static_cast<unsigned long long *const *>(args);

    atomicAdd(&n[threadIdx.x + blockDim.x * (threadIdx.y + blockDim.y * threadIdx.z)], 1);
    atomicMax(&n[23], blockIdx.x + gridDim.x * (blockIdx.y + gridDim.y * blockIdx.z));
}

static void grids_and_blocks_have_three_dimensions(void **)
{
    unsigned long long n[24] = {0}, *args = n;

    assert_int_equal(run("count_indices", dim3(2, 3, 4), dim3(2, 3, 3), count_indices, &args), 1500);
    for (int i = 0; i < 18; i++)
        assert_int_equal(n[i], 24);
    assert_int_equal(n[23], 23);
}

/* All threads read the same times; the exact end is read. */
static void read_clock_until(const void *args)
{
    const uint64_t start = bb_gpu_clock_ns();

    while (bb_gpu_clock_ns() - start < *static_cast<const uint64_t *>(args))
        ;
}

static void reading_the_clock_advances_time(void **)
{
    const uint64_t none = 0, half = 500, all = 1000, more = 1100;

    assert_int_equal(run("look", dim3(2), dim3(THREADS), read_clock_until, &none), 500 + 300);
    assert_int_equal(run("look", dim3(2), dim3(THREADS), read_clock_until, &half), 500 + 600);
    assert_int_equal(run("look", dim3(2), dim3(THREADS), read_clock_until, &all), 500 + 1000);
    assert_in_range(run("look", dim3(2), dim3(THREADS), read_clock_until, &more), 500 + 1100, 500 + 1300);
}

static void half_at_the_barrier(const void *)
{
    if (threadIdx.x >= 32)
        __syncthreads();
}

static void half_a_warp_shuffles(const void *)
{
    if (threadIdx.x < 16)
        (void)__shfl_xor_sync(0xffffu, 1, 1);
}

static void writes_too_far(const void *)
{
    dynamic_shared[SHARED_INTS] = 1;
}

static int run_half_at_the_barrier()
{
    return run("half_at_the_barrier", dim3(1), dim3(64), half_at_the_barrier, NULL) < 0;
}

static int run_half_a_warp_shuffles()
{
    return run("half_a_warp_shuffles", dim3(1), dim3(64), half_a_warp_shuffles, NULL) < 0;
}

static int run_writes_too_far()
{
    return run("writes_too_far", dim3(1), dim3(1), writes_too_far, NULL) < 0;
}

static void errors_name_the_kernel(void **)
{
    static const struct {
        int (*scenario)();
        const char *kernel, *why;
    } cases[] = {
        {run_half_at_the_barrier, "kernel half_at_the_barrier", "wait at a barrier"},
        {run_half_a_warp_shuffles, "kernel half_a_warp_shuffles", "waits in a shuffle"},
        {run_writes_too_far, "kernel writes_too_far", "past the end of its launch's shared memory"},
    };

    for (const auto &c : cases) {
        struct child child;
        child_run(&child, c.scenario, NULL);
        assert_int_equal(child.status, CHILD_SIGNAL + SIGABRT);
        assert_non_null(strstr(child.err, c.kernel));
        assert_non_null(strstr(child.err, c.why));
    }
}

/* Two blocks of three warps; the last warp of the second block checks nothing. */
static void check_kernels_add_once_per_warp(void **)
{
    const struct bb_pattern pattern = {0, 1, BB_COPY, 1, BB_UNSIGNED, 0, 0};
    const struct bb_expect copy = {0, 0, 1000, 0};
    unsigned char bytes[THREADS + 54] = {0};
    struct bb_verdict verdict = {};
    const struct bb_check_bytes_args by_byte = {bytes, sizeof bytes, 0, &verdict};
    const struct bb_check_args by_element = {bytes, sizeof bytes, pattern, copy, &verdict};

    n_atomics = 0;
    run("bytes", dim3(2), dim3(THREADS), host_gpu_thread<struct bb_check_bytes_args, bb_check_bytes_kernel>, &by_byte);
    assert_true(n_atomics == 5 && verdict.checked == sizeof bytes);
    for (size_t i = 0; i < sizeof bytes; i++)
        bb_store(bytes, 1, i, bb_expected(&pattern, &copy, i));
    run("elements", dim3(2), dim3(THREADS), host_gpu_thread<struct bb_check_args, bb_check_kernel>, &by_element);
    assert_true(n_atomics == 10 && verdict.checked == 2 * sizeof bytes && verdict.wrong == 0);
}

int main()
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(blocks_share_memory_across_barriers),
        cmocka_unit_test(shuffles_stay_within_warps),
        cmocka_unit_test(grids_and_blocks_have_three_dimensions),
        cmocka_unit_test(reading_the_clock_advances_time),
        cmocka_unit_test(errors_name_the_kernel),
        cmocka_unit_test(check_kernels_add_once_per_warp),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
