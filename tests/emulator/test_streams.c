/*
 * test_streams.c - streams and events, against times computed by hand. In the test profile a launch costs the host 1
 * us, and a memset of n bytes takes 3 us + n ns.
 */
#include "child.h"
#include "engine.h"
#include <math.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

cudaError_t cudaStreamGetDevice(cudaStream_t stream, int *device); /* missing in the first CUDA 12 headers */

enum { BYTES = 100000 };
static char *memory;

static int begin(void)
{
    OK(cudaMalloc((void **)&memory, BYTES));
    return 0;
}

/* Time from event a to b in ns, exact: event times are whole ns below 2^24. */
static long between(cudaEvent_t a, cudaEvent_t b)
{
    float ms = -1;

    return cudaEventElapsedTime(&ms, a, b) == cudaSuccess ? lroundf(ms * 1e6f) : -1;
}

static int make_events(cudaEvent_t *events, int n)
{
    for (int i = 0; i < n; i++)
        OK(cudaEventCreate(&events[i]));
    return 0;
}

static int one_stream(void)
{
    cudaEvent_t e[3];
    cudaStream_t s;

    OK(begin());
    OK(make_events(e, 3));
    OK(cudaStreamCreate(&s));
    EXPECT(emu_host_now_ns() == 0);
    OK(cudaEventRecord(e[0], s));            /* 0                                        */
    OK(cudaMemsetAsync(memory, 1, 1000, s)); /* issued at 1000, ends at 5000             */
    OK(cudaEventRecord(e[1], s));
    OK(cudaMemsetAsync(memory, 2, 500, s)); /* issued at 2000, runs from 5000 to 8500   */
    OK(cudaEventRecord(e[2], s));
    EXPECT(emu_host_now_ns() == 2000);
    OK(cudaEventSynchronize(e[1]));
    EXPECT(emu_host_now_ns() == 5000);
    OK(cudaStreamSynchronize(s));
    EXPECT(emu_host_now_ns() == 8500);
    EXPECT(between(e[0], e[1]) == 5000 && between(e[1], e[2]) == 3500);
    EXPECT(memory[499] == 2 && memory[500] == 1);
    OK(cudaMemsetAsync(memory, 0, 1, s)); /* an idle stream starts at the host clock: 9500 */
    OK(cudaDeviceSynchronize());
    EXPECT(emu_host_now_ns() == 9500 + 3001);
    return 0;
}

static int waits(void)
{
    cudaStream_t s, t, u;
    cudaEvent_t e[4];

    OK(begin());
    OK(make_events(e, 4));
    OK(cudaStreamCreateWithFlags(&s, cudaStreamNonBlocking));
    OK(cudaStreamCreateWithFlags(&t, cudaStreamNonBlocking));
    OK(cudaStreamCreateWithFlags(&u, cudaStreamNonBlocking));
    OK(cudaStreamWaitEvent(t, e[0], 0));     /* never recorded: no wait                     */
    OK(cudaMemsetAsync(memory, 0, 7000, s)); /* 1000 to 11000                               */
    OK(cudaEventRecord(e[0], s));
    OK(cudaStreamWaitEvent(t, e[0], 0));
    OK(cudaMemsetAsync(memory, 0, 1000, s));       /* 11000 to 15000                              */
    OK(cudaEventRecord(e[0], s));                  /* does not affect the wait of t */
    OK(cudaMemsetAsync(memory + 8000, 0, 100, t)); /* from 11000 to 14100                         */
    OK(cudaMemsetAsync(memory + 9000, 0, 100, u)); /* concurrent: 4000 to 7100 */
    OK(cudaEventRecord(e[1], t));
    OK(cudaEventRecord(e[2], u));
    OK(cudaDeviceSynchronize());
    EXPECT(emu_host_now_ns() == 15000);
    EXPECT(between(e[1], e[0]) == 900 && between(e[2], e[0]) == 7900);
    return 0;
}

/* The legacy stream waits for blocking streams, and they wait for it; non-blocking streams run concurrently. */
static int legacy_stream(void)
{
    cudaStream_t blocking, other;
    cudaEvent_t e[3];

    OK(begin());
    OK(make_events(e, 3));
    OK(cudaStreamCreate(&blocking));
    OK(cudaStreamCreateWithFlags(&other, cudaStreamNonBlocking));
    OK(cudaMemsetAsync(memory, 0, 10000, blocking));     /* 1000 to 14000      */
    OK(cudaMemsetAsync(memory, 0, 1000, 0));             /* 14000 to 18000     */
    OK(cudaMemsetAsync(memory, 0, 1000, blocking));      /* 18000 to 22000     */
    OK(cudaMemsetAsync(memory + 20000, 0, 1000, other)); /* 4000 to 8000       */
    OK(cudaEventRecord(e[0], cudaStreamLegacy));         /* after blocking: 22000 */
    OK(cudaEventRecord(e[1], blocking));
    OK(cudaEventRecord(e[2], other));
    OK(cudaDeviceSynchronize());
    EXPECT(between(e[2], e[0]) == 14000 && between(e[0], e[1]) == 0);
    EXPECT(emu_host_now_ns() == 22000);
    return 0;
}

static int per_thread_stream(void)
{
    cudaEvent_t e[2];
    unsigned long long legacy, own;

    OK(begin());
    OK(make_events(e, 2));
    OK(cudaStreamGetId(cudaStreamLegacy, &legacy));
    OK(cudaStreamGetId(cudaStreamPerThread, &own));
    EXPECT(legacy != own);
    OK(cudaMemsetAsync(memory, 0, 1000, cudaStreamPerThread)); /* 1000 to 5000, blocks legacy */
    OK(cudaMemsetAsync(memory, 0, 1000, 0));                   /* 5000 to 9000                */
    OK(cudaDeviceSynchronize());
    EXPECT(emu_host_now_ns() == 9000);
    return 0;
}

static void append(void *to)
{
    char *text = *(char **)to;

    text[strlen(text)] = *((char **)to)[1];
}

static void append_callback(cudaStream_t stream, cudaError_t status, void *to)
{
    (void)stream;
    if (status == cudaSuccess)
        append(to);
}

static int host_functions(void)
{
    char text[8] = "", a[] = "a", b[] = "b", c[] = "c";
    char *calls[3][2] = {{text, a}, {text, b}, {text, c}};
    cudaStream_t s;

    OK(cudaStreamCreate(&s));
    OK(cudaLaunchHostFunc(s, append, calls[0]));
    OK(cudaStreamAddCallback(s, append_callback, calls[1], 0));
    OK(cudaLaunchHostFunc(s, append, calls[2]));
    OK(cudaStreamSynchronize(s));
    EXPECT(strcmp(text, "abc") == 0);
    EXPECT_RC(cudaLaunchHostFunc(s, NULL, NULL), cudaErrorInvalidValue);
    EXPECT_RC(cudaStreamAddCallback(s, append_callback, calls[0], 1), cudaErrorInvalidValue);
    return 0;
}

static void hold(void *pipe_end)
{
    char byte;

    if (read(*(int *)pipe_end, &byte, 1) != 1)
        abort();
}

/* A query returns cudaErrorNotReady while the work is delayed; that is no sticky error. */
static int queries(void)
{
    cudaEvent_t e[2];
    cudaStream_t s;
    int ends[2];
    float ms;

    OK(make_events(e, 2));
    OK(cudaStreamCreate(&s));
    EXPECT(pipe(ends) == 0);
    OK(cudaEventQuery(e[0]));
    OK(cudaStreamQuery(s));
    OK(cudaEventRecord(e[0], s));
    OK(cudaLaunchHostFunc(s, hold, &ends[0]));
    OK(cudaEventRecord(e[1], s));
    EXPECT_RC(cudaEventQuery(e[1]), cudaErrorNotReady);
    EXPECT_RC(cudaStreamQuery(s), cudaErrorNotReady);
    EXPECT_RC(cudaEventElapsedTime(&ms, e[0], e[1]), cudaErrorNotReady);
    OK(cudaGetLastError());
    EXPECT(write(ends[1], "x", 1) == 1);
    OK(cudaStreamSynchronize(s));
    OK(cudaEventQuery(e[1]));
    OK(cudaStreamQuery(s));
    return 0;
}

static int bad_events(void)
{
    cudaEvent_t plain, untimed, never;
    cudaStream_t s, gone;
    float ms;

    OK(begin());
    OK(cudaEventCreate(&plain));
    OK(cudaEventCreate(&never));
    OK(cudaEventCreateWithFlags(&untimed, cudaEventDisableTiming));
    OK(cudaStreamCreate(&s));
    OK(cudaEventRecord(plain, s));
    OK(cudaEventRecord(untimed, s));
    OK(cudaStreamSynchronize(s));
    EXPECT_RC(cudaEventElapsedTime(&ms, plain, never), cudaErrorInvalidResourceHandle);
    EXPECT_RC(cudaEventElapsedTime(&ms, plain, untimed), cudaErrorInvalidResourceHandle);
    EXPECT_RC(cudaEventCreateWithFlags(&never, 64), cudaErrorInvalidValue);
    EXPECT_RC(cudaEventCreateWithFlags(&never, cudaEventInterprocess), cudaErrorInvalidValue);
    EXPECT_RC(cudaEventRecord(NULL, s), cudaErrorInvalidResourceHandle);
    EXPECT_RC(cudaGetLastError(), cudaErrorInvalidResourceHandle);
    OK(cudaGetLastError());
    OK(cudaSetDevice(1));
    OK(cudaStreamCreate(&gone));
    EXPECT_RC(cudaEventRecord(plain, gone), cudaErrorInvalidResourceHandle); /* event of another device */
    OK(cudaStreamWaitEvent(gone, plain, 0));                                 /* any stream may wait for it */
    OK(cudaStreamDestroy(gone));
    EXPECT_RC(cudaStreamSynchronize(gone), cudaErrorInvalidResourceHandle);
    EXPECT_RC(cudaStreamDestroy(gone), cudaErrorInvalidResourceHandle);
    EXPECT_RC(cudaStreamDestroy(0), cudaErrorInvalidResourceHandle);
    OK(cudaEventDestroy(plain));
    return 0;
}

/* A destroyed stream finishes its work. */
static int destroyed_stream(void)
{
    cudaStream_t s, t;
    cudaEvent_t e;

    OK(begin());
    OK(cudaEventCreate(&e));
    OK(cudaStreamCreate(&s));
    OK(cudaStreamCreate(&t));
    for (int i = 0; i < 50; i++)
        OK(cudaMemsetAsync(memory + i, i, 1, s));
    OK(cudaEventRecord(e, s));
    OK(cudaStreamDestroy(s));
    OK(cudaStreamWaitEvent(t, e, 0));
    OK(cudaEventDestroy(e)); /* pending waits keep their state */
    OK(cudaStreamSynchronize(t));
    for (int i = 0; i < 50; i++)
        EXPECT(memory[i] == i);
    return 0;
}

static int64_t twenty_us(void *arg, int64_t ready_ns)
{
    *(int64_t *)arg = ready_ns;
    return ready_ns + 20000;
}

/* An operation on three streams starts when the last stream reaches it; all three continue when it ends. */
static int joined(void)
{
    cudaStream_t s[3];
    cudaEvent_t e[3];
    int64_t start = -1;

    OK(begin());
    OK(make_events(e, 3));
    for (int i = 0; i < 3; i++)
        OK(cudaStreamCreateWithFlags(&s[i], cudaStreamNonBlocking));
    OK(cudaMemsetAsync(memory, 0, 5000, s[1]));      /* 1000 to 9000  */
    OK(cudaMemsetAsync(memory + 9000, 0, 50, s[2])); /* 2000 to 5050  */
    OK(emu_enqueue_joined(s, 3, &(struct emu_op){.name = "joined", .run = twenty_us, .arg = &start, .host_ns = 2500}));
    for (int i = 0; i < 3; i++)
        OK(cudaEventRecord(e[i], s[i]));
    OK(cudaDeviceSynchronize());
    EXPECT(start == 9000 && emu_host_now_ns() == 29000);
    EXPECT(between(e[0], e[1]) == 0 && between(e[1], e[2]) == 0);
    EXPECT_RC(emu_enqueue_joined(s, 0, &(struct emu_op){.run = twenty_us, .arg = &start}), cudaErrorInvalidValue);
    return 0;
}

static int64_t fails(void *arg, int64_t ready_ns)
{
    (void)arg, (void)ready_ns;
    return EMU_FAILED;
}

/* A failed operation makes its device unusable until reset; other devices stay usable. */
static int sticky_error(void)
{
    cudaStream_t s, t;

    OK(cudaSetDevice(1));
    OK(cudaStreamCreate(&t));
    OK(cudaSetDevice(0));
    OK(begin());
    OK(cudaStreamCreate(&s));
    OK(emu_enqueue(s, &(struct emu_op){.name = "fails", .run = fails}));
    EXPECT_RC(cudaStreamSynchronize(s), cudaErrorLaunchFailure);
    EXPECT_RC(cudaGetLastError(), cudaErrorLaunchFailure);
    EXPECT_RC(cudaGetLastError(), cudaErrorLaunchFailure); /* sticky */
    EXPECT_RC(cudaMemsetAsync(memory, 0, 1, s), cudaErrorLaunchFailure);
    EXPECT_RC(cudaFree(memory), cudaErrorLaunchFailure);
    OK(cudaSetDevice(1));
    OK(cudaStreamSynchronize(t));
    OK(cudaSetDevice(0));
    OK(cudaDeviceReset());
    cudaGetLastError();
    OK(cudaDeviceSynchronize());
    return 0;
}

static double wall_s(void)
{
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + (double)now.tv_nsec / 1e9;
}

/* In real time 25 ms of modelled time on two concurrent streams take at least 12.5 ms. */
static int real_time(void)
{
    const int64_t before = emu_host_now_ns();
    cudaStream_t s[2];
    cudaEvent_t e[2];
    double start;
    char *big;

    OK(cudaMalloc((void **)&big, 1000000));
    OK(make_events(e, 2));
    OK(cudaStreamCreateWithFlags(&s[0], cudaStreamNonBlocking));
    OK(cudaStreamCreateWithFlags(&s[1], cudaStreamNonBlocking));
    start = wall_s();
    OK(cudaEventRecord(e[0], s[0]));
    for (int i = 0; i < 50; i++)
        OK(cudaMemsetAsync(big + i % 2 * 500000, 0, 497000, s[i % 2])); /* 0.5 ms each */
    OK(cudaEventRecord(e[1], s[0]));
    EXPECT_RC(cudaEventQuery(e[1]), cudaErrorNotReady);
    OK(cudaDeviceSynchronize());
    EXPECT(wall_s() - start >= 0.0125);
    EXPECT(between(e[0], e[1]) >= 12500000);
    EXPECT(emu_host_now_ns() - before >= 12500000);
    return 0;
}

static int64_t waits_for_the_end(void *arg, int64_t ready_ns)
{
    (void)arg;
    while (!emu_stopping())
        usleep(1000);
    return ready_ns;
}

/* A process can exit while streams are idle, wait for a mark that is never set, or execute an operation. */
static int exits_while_busy(void)
{
    cudaStream_t s[3];
    cudaEvent_t e;

    OK(begin());
    OK(cudaEventCreate(&e));
    for (int i = 0; i < 3; i++)
        OK(cudaStreamCreateWithFlags(&s[i], cudaStreamNonBlocking));
    OK(cudaMemsetAsync(memory, 0, 1, s[0]));
    OK(emu_enqueue(s[1], &(struct emu_op){.name = "endless", .run = waits_for_the_end}));
    OK(cudaEventRecord(e, s[1]));
    OK(cudaStreamWaitEvent(s[2], e, 0));
    OK(cudaStreamSynchronize(s[0]));
    return 0;
}

static int stream_properties(void)
{
    int least, greatest, priority, device;
    unsigned flags;
    cudaStream_t s;

    OK(cudaSetDevice(2));
    OK(cudaDeviceGetStreamPriorityRange(&least, &greatest));
    EXPECT(greatest < least);
    OK(cudaStreamCreateWithPriority(&s, cudaStreamNonBlocking, greatest - 7));
    OK(cudaStreamGetPriority(s, &priority));
    OK(cudaStreamGetFlags(s, &flags));
    OK(cudaStreamGetDevice(s, &device));
    EXPECT(priority == greatest && flags == cudaStreamNonBlocking && device == 2 && emu_stream_device(s) == 2);
    EXPECT_RC(cudaStreamCreateWithFlags(&s, 8), cudaErrorInvalidValue);
    EXPECT(emu_stream_device((cudaStream_t)&device) == -1);
    return 0;
}

static void *issue_many(void *failed)
{
    cudaStream_t own, shared = cudaStreamPerThread;
    cudaEvent_t e;

    if (cudaStreamCreate(&own) || cudaEventCreate(&e))
        *(int *)failed = 1;
    for (int i = 0; i < 200; i++) {
        int rc = cudaMemsetAsync(memory + i, i, 1, own) | cudaEventRecord(e, own) | cudaStreamWaitEvent(shared, e, 0) |
                 cudaMemsetAsync(memory + 1000 + i, i, 1, shared) | cudaMemsetAsync(memory + 2000, i, 1, 0);

        if (i % 20 == 0)
            rc |= cudaStreamSynchronize(own);
        if (rc)
            *(int *)failed = 1;
    }
    if (cudaStreamSynchronize(shared) || cudaStreamDestroy(own) || cudaEventDestroy(e))
        *(int *)failed = 1;
    return NULL;
}

static int many_threads(void)
{
    pthread_t threads[4];
    int failed[4] = {0};

    OK(begin());
    for (int i = 0; i < 4; i++)
        EXPECT(pthread_create(&threads[i], NULL, issue_many, &failed[i]) == 0);
    for (int i = 0; i < 4; i++)
        EXPECT(pthread_join(threads[i], NULL) == 0);
    for (int i = 0; i < 4; i++)
        EXPECT(!failed[i]);
    OK(cudaDeviceSynchronize());
    return 0;
}

#define SCENARIO(name)                                                                                                 \
    static void test_##name(void **state)                                                                              \
    {                                                                                                                  \
        (void)state;                                                                                                   \
        child_pass(name, NULL);                                                                                        \
    }
SCENARIO(one_stream)
SCENARIO(waits)
SCENARIO(legacy_stream)
SCENARIO(per_thread_stream)
SCENARIO(host_functions)
SCENARIO(queries)
SCENARIO(bad_events)
SCENARIO(destroyed_stream)
SCENARIO(joined)
SCENARIO(sticky_error)
SCENARIO(exits_while_busy)
SCENARIO(stream_properties)
SCENARIO(many_threads)

static void test_real_time(void **state)
{
    (void)state;
    child_pass(real_time, (const char *[]){"EMU_TIME=real", NULL});
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_one_stream),       cmocka_unit_test(test_waits),
        cmocka_unit_test(test_legacy_stream),    cmocka_unit_test(test_per_thread_stream),
        cmocka_unit_test(test_host_functions),   cmocka_unit_test(test_queries),
        cmocka_unit_test(test_bad_events),       cmocka_unit_test(test_destroyed_stream),
        cmocka_unit_test(test_joined),           cmocka_unit_test(test_sticky_error),
        cmocka_unit_test(test_exits_while_busy), cmocka_unit_test(test_stream_properties),
        cmocka_unit_test(test_many_threads),     cmocka_unit_test(test_real_time),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
