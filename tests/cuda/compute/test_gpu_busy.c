/*
 * test_gpu_busy.c - the timed kernel: its duration according to its own report, the number of SMs that it occupies, its
 * memory traffic, and that the scratch memory keeps its content. Exact on emulated GPUs, within tolerances on real
 * GPUs.
 */
#include "cuda/compute/busy.h"

#include "tests/check.h"
#include "tests/cuda/gpu.h"

#include <math.h>

static struct bb_device_info device; /* the GPU of all tests in this program */

static struct bb_busy_report *new_report(void)
{
    struct bb_busy_report *report = NULL;

    assert_int_equal(cudaMalloc((void **)&report, sizeof *report), cudaSuccess);
    return report;
}

static struct bb_busy_report run(struct bb_busy busy)
{
    struct bb_busy_report seen;

    busy.report = new_report();
    assert_int_equal(bb_busy_report_clear(busy.report, NULL), 0);
    assert_int_equal(bb_busy_run(&busy, NULL), 0);
    assert_int_equal(cudaMemcpy(&seen, busy.report, sizeof seen, cudaMemcpyDeviceToHost), cudaSuccess);
    cudaFree(busy.report);
    return seen;
}

static void assert_lasts(const struct bb_busy_report *seen, int64_t ns)
{
    int64_t took = (int64_t)(seen->end_ns - seen->start_ns), min_ns = ns, max_ns = ns;

    if (!device.emulated) { /* a real clock has coarse ticks, and blocks start at different ticks */
        min_ns = ns - ns / 100 - 1100;
        max_ns = ns + ns / 50 + 2200;
    }
    if (took < min_ns || took > max_ns)
        fail_msg("asked %lld ns, took %lld ns", (long long)ns, (long long)took);
}

static void lasts_the_requested_time(void **state)
{
    static const int64_t requested[] = {10000, 100000, 1000000, 10000000};

    (void)state;
    for (size_t i = 0; i < ROWS(requested); i++) {
        struct bb_busy_report seen = run((struct bb_busy){.sms = 2, .ns = requested[i]});
        assert_lasts(&seen, requested[i]);
        assert_int_equal(seen.blocks, 2);
        assert_int_equal(seen.bytes, 0);
    }
}

static void occupies_at_most_all_sms(void **state)
{
    (void)state;
    assert_int_equal(run((struct bb_busy){.sms = 0, .ns = 1000}).blocks, 1);
    assert_int_equal(run((struct bb_busy){.sms = 1 << 20, .ns = 1000}).blocks, device.sm_count);
}

/* 100 GB/s for 1 ms are 100 MB, moved by 16 blocks in portions of 64 KiB. */
static void uses_the_requested_bandwidth(void **state)
{
    const size_t bytes = 64 << 20;
    unsigned char *scratch = NULL, *copy = malloc(bytes);
    struct bb_busy_report seen;

    (void)state;
    assert_non_null(copy);
    assert_int_equal(cudaMalloc((void **)&scratch, bytes), cudaSuccess);
    assert_int_equal(cudaMemset(scratch, 0x5a, bytes), cudaSuccess);
    seen = run((struct bb_busy){.sms = 16, .ns = 1000000, .gbps = 100, .scratch = scratch, .scratch_bytes = bytes});
    assert_lasts(&seen, 1000000);
    assert_true(fabs((double)seen.bytes - 100e6) <= 0.02 * 100e6);
    assert_int_equal(cudaMemcpy(copy, scratch, bytes, cudaMemcpyDeviceToHost), cudaSuccess);
    for (size_t i = 0; i < bytes; i++)
        if (copy[i] != 0x5a)
            fail_msg("byte %zu of the scratch memory changed", i);
    cudaFree(scratch);
    free(copy);
}

static void traffic_requires_scratch_memory(void **state)
{
    struct bb_busy without = {.sms = 1, .ns = 1000, .gbps = 1}, too_small = without;

    (void)state;
    assert_int_equal(bb_busy_run(&without, NULL), -BB_EUSAGE);
    assert_int_equal(cudaMalloc(&too_small.scratch, 4096), cudaSuccess);
    too_small.scratch_bytes = 4096;
    assert_int_equal(bb_busy_run(&too_small, NULL), -BB_EUSAGE);
    cudaFree(too_small.scratch);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(lasts_the_requested_time),
        cmocka_unit_test(occupies_at_most_all_sms),
        cmocka_unit_test(uses_the_requested_bandwidth),
        cmocka_unit_test(traffic_requires_scratch_memory),
    };
    int rc = gpu_choose(&device);

    return rc ? rc : cmocka_run_group_tests(tests, NULL, NULL);
}
