/*
 * test_busy_kernels.cpp - the source of the timed kernel (cuda/compute/busy_kernels.cuh), run thread by thread on the
 * CPU with a clock that advances at each read: its duration, its memory traffic over time, and the addresses that it
 * accesses.
 */
#include "host_gpu.h"

thread_local int64_t bb_busy_now[1 + HOST_GPU_GUARD_BYTES / sizeof(int64_t)];

#include "cuda/compute/busy_kernels.cuh"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

extern "C" {
#include <cmocka.h>
}

enum { TICK_NS = 100 };
static const uint64_t PORTION_WORDS = BB_BUSY_THREADS * BB_BUSY_WORDS;
static const double PORTION_BYTES = 2.0 * PORTION_WORDS * sizeof(uint4);

static struct bb_busy_args kernel_args;

/* The emulator allows 10 times the requested duration, so the kernel must end by itself. */
static void launch(unsigned blocks, unsigned threads, void (*body)(const void *), const void *args)
{
    struct host_gpu_launch l = {};

    l.name = "busy";
    l.grid = dim3(blocks);
    l.block = dim3(threads);
    l.body = body;
    l.args = args;
    l.shared = reinterpret_cast<unsigned char *>(bb_busy_now);
    l.shared_capacity = sizeof bb_busy_now;
    l.shared_bytes = sizeof *bb_busy_now;
    l.lasts_ns = 10 * kernel_args.ns;
    l.tick_ns = TICK_NS;
    host_gpu_run(&l);
}

template <void (*K)(struct bb_busy_args)> static struct bb_busy_report run(unsigned blocks, unsigned threads)
{
    struct bb_busy_report report, *to = &report;

    memset(&report, 0x77, sizeof report);
    kernel_args.report = &report;
    launch(1, 1, host_gpu_thread<struct bb_busy_report *, bb_busy_clear_kernel>, &to);
    launch(blocks, threads, host_gpu_thread<struct bb_busy_args, K>, &kernel_args);
    return report;
}

static void ends_at_the_requested_time(void **)
{
    struct bb_busy_report r;

    kernel_args = {50000, 0, NULL, 0, NULL};
    r = run<bb_hold_kernel>(1, 32);
    assert_int_equal(r.blocks, 1);
    assert_int_equal(r.bytes, 0);
    assert_in_range(r.end_ns - r.start_ns, 50000, 50000 + 3 * TICK_NS);
    assert_int_equal(run<bb_hold_kernel>(3, 32).blocks, 3);
}

/* 10 bytes/ns for 60 us are 600,000 bytes: 9.2 portions, the last of which starts in time. */
static void moves_the_requested_bytes_in_time(void **)
{
    const uint64_t words = 2 * PORTION_WORDS + 100; /* the remaining 100 words are not used */
    uint4 *scratch = static_cast<uint4 *>(malloc(words * sizeof(uint4)));
    uint4 *before = static_cast<uint4 *>(malloc(words * sizeof(uint4)));
    struct bb_busy_report r;

    assert_true(scratch && before);
    for (uint64_t i = 0; i < 4 * words; i++)
        reinterpret_cast<uint32_t *>(scratch)[i] = (uint32_t)i * 2654435761u;
    memcpy(before, scratch, words * sizeof(uint4));
    kernel_args = {60000, 10, scratch, words, NULL};
    r = run<bb_busy_kernel>(1, BB_BUSY_THREADS);
    assert_int_equal(r.bytes, 10 * PORTION_BYTES);
    assert_in_range(r.end_ns - r.start_ns, 60000, 60000 + 3 * TICK_NS);
    r = run<bb_busy_kernel>(3, BB_BUSY_THREADS); /* more blocks than portions: several blocks share a portion */
    assert_int_equal(r.bytes, 3 * 10 * PORTION_BYTES);
    assert_memory_equal(before, scratch, words * sizeof(uint4));
    free(before);
    free(scratch);
}

int main()
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(ends_at_the_requested_time),
        cmocka_unit_test(moves_the_requested_bytes_in_time),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
