/*
 * test_hazards.c - hazards of real GPUs, switched on by the environment. In the test profile a launch costs the host 1
 * us, and a memset of n bytes takes 3 us + n ns.
 */
#include "child.h"
#include "engine.h"
#include <math.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

enum { STREAMS = 9, BYTES = 10000 };
static char *memory;
static cudaStream_t streams[STREAMS];

static int begin(void)
{
    OK(cudaMalloc((void **)&memory, BYTES));
    for (int i = 0; i < STREAMS; i++)
        OK(cudaStreamCreateWithFlags(&streams[i], cudaStreamNonBlocking));
    return 0;
}

static long ns_between(cudaEvent_t a, cudaEvent_t b)
{
    float ms = -1;

    return cudaEventElapsedTime(&ms, a, b) == cudaSuccess ? lroundf(ms * 1e6f) : -1;
}

/* ---- hardware queues ---- */

/* Two memsets on the first stream, then a short one on the last stream. Stores when the last one ends. */
static int end_on_last_stream(long *end_ns)
{
    cudaEvent_t zero, end;

    OK(begin());
    OK(cudaEventCreate(&zero));
    OK(cudaEventCreate(&end));
    OK(cudaEventRecord(zero, streams[0]));
    OK(cudaMemsetAsync(memory, 1, BYTES, streams[0]));         /* issued at 1000, ends at 14000 */
    OK(cudaMemsetAsync(memory, 2, 1000, streams[0]));          /* issued at 2000, from 14000 to 18000 */
    OK(cudaMemsetAsync(memory, 3, 500, streams[STREAMS - 1])); /* issued at 3000, lasts 3500 */
    OK(cudaEventRecord(end, streams[STREAMS - 1]));
    OK(cudaDeviceSynchronize());
    *end_ns = ns_between(zero, end);
    return 0;
}

static int runs_concurrently(void)
{
    long end_ns;

    OK(end_on_last_stream(&end_ns));
    EXPECT(end_ns == 6500);
    return 0;
}

/* The ninth stream shares the first stream's queue, so its memset begins when the second memset there has begun. */
static int runs_after_earlier_items(void)
{
    long end_ns;

    OK(end_on_last_stream(&end_ns));
    EXPECT(end_ns == 14000 + 3500);
    return 0;
}

static void test_hardware_queues(void **state)
{
    (void)state;
    child_pass(runs_concurrently, NULL);
    child_pass(runs_after_earlier_items, (const char *[]){"EMU_HARDWARE_QUEUES=1", NULL});
    child_pass(runs_concurrently, (const char *[]){"EMU_HARDWARE_QUEUES=1", "CUDA_DEVICE_MAX_CONNECTIONS=32", NULL});
    child_pass(runs_after_earlier_items,
               (const char *[]){"EMU_HARDWARE_QUEUES=1", "CUDA_DEVICE_MAX_CONNECTIONS=1", NULL});
}

/* ---- launch queue ---- */

static atomic_int opened, launched;

static void wait_for_opening(void *unused)
{
    (void)unused;
    while (!opened)
        usleep(1000);
}

static void *launch_five(void *unused)
{
    (void)unused;
    for (int i = 0; i < 5; i++) {
        if (cudaMemsetAsync(memory, 1, 1, streams[0]) != cudaSuccess)
            return NULL;
        launched++;
    }
    return NULL;
}

/* A host function holds the stream, and five launches follow: counts the launches that return. */
static int count_launches(int expected)
{
    pthread_t thread;

    OK(begin());
    OK(cudaLaunchHostFunc(streams[0], wait_for_opening, NULL));
    EXPECT(pthread_create(&thread, NULL, launch_five, NULL) == 0);
    for (int i = 0; i < 100 && launched < expected; i++)
        usleep(20000);
    usleep(100000);
    EXPECT(launched == expected);
    opened = 1;
    EXPECT(pthread_join(thread, NULL) == 0);
    EXPECT(launched == 5);
    OK(cudaStreamSynchronize(streams[0]));
    return 0;
}

static int all_launches_return(void)
{
    return count_launches(5);
}

static int three_launches_return(void)
{
    return count_launches(3);
}

static void test_launch_queue(void **state)
{
    (void)state;
    child_pass(all_launches_return, NULL);
    child_pass(three_launches_return, (const char *[]){"EMU_LAUNCH_QUEUE=4", NULL});
}

/* ---- polling ---- */

static int query_succeeds_at(int64_t expected_ns)
{
    OK(begin());
    OK(cudaMemsetAsync(memory, 1, 1000, streams[0])); /* from 1000 to 5000 */
    while (cudaStreamQuery(streams[0]) == cudaErrorNotReady)
        usleep(100);
    EXPECT(emu_host_now_ns() == expected_ns);
    OK(cudaStreamQuery(streams[0])); /* already known */
    EXPECT(emu_host_now_ns() == expected_ns);
    return 0;
}

static int query_succeeds_at_once(void)
{
    return query_succeeds_at(5000);
}

static int query_succeeds_late(void)
{
    return query_succeeds_at(5000 + 20000);
}

static void test_polling(void **state)
{
    (void)state;
    child_pass(query_succeeds_at_once, NULL);
    child_pass(query_succeeds_late, (const char *[]){"EMU_POLL_US=20", NULL});
}

static int empty_scenario(void)
{
    return cudaFree(NULL) != cudaSuccess;
}

static void test_bad_numbers(void **state)
{
    struct child child;

    (void)state;
    child_run(&child, empty_scenario, (const char *[]){"EMU_LAUNCH_QUEUE=many", NULL});
    assert_int_equal(child.status, 2);
    assert_non_null(strstr(child.err, "EMU_LAUNCH_QUEUE=many: expected 0 to"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_hardware_queues),
        cmocka_unit_test(test_launch_queue),
        cmocka_unit_test(test_polling),
        cmocka_unit_test(test_bad_numbers),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
