/*
 * test_contention.c - what operations of one GPU take from each other, against figures by hand: operations of the
 * test's own, which say what they take (struct emu_effort), and last as long as they alone would and what they lose.
 */
#include "child.h"
#include "engine.h"
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

static const char *const sharing[] = {"EMU_CLUSTER=" SHARING_PROFILE, NULL};
static const char *const short_queue[] = {"EMU_CLUSTER=" SHARING_PROFILE, "EMU_LAUNCH_QUEUE=2", NULL};
static const int64_t long_ns = 200000, short_ns = 100000;
static atomic_int released;

static int64_t last(void *arg, int64_t ready_ns)
{
    const struct emu_effort *e = arg;

    return ready_ns + (int64_t)(e->alone_ns + e->latency_ns + e->transfer_ns) + e->extra_ns;
}

static void release(void *arg)
{
    free(arg);
    atomic_fetch_add(&released, 1);
}

static int put(cudaStream_t stream, struct emu_effort effort)
{
    struct emu_effort *own = malloc(sizeof(*own));

    EXPECT(own != NULL);
    *own = effort;
    OK(emu_enqueue(stream,
                   &(struct emu_op){.name = "test", .run = last, .release = release, .arg = own, .effort = own}));
    return 0;
}

/* A kernel that memory bounds; a transfer that takes all of the memory that NCCL may have, or all of a link. */
static int put_kernel(cudaStream_t stream, int64_t ns)
{
    return put(stream, (struct emu_effort){.alone_ns = (double)ns, .by_memory = true});
}

static int put_transfer(cudaStream_t stream, int64_t ns, enum emu_part part)
{
    const double gbps = part == EMU_MEMORY ? 50 : 10;
    struct emu_effort effort = {.sms = 1, .transfer_ns = (double)ns};

    effort.bytes[part] = (double)ns * gbps;
    return put(stream, effort);
}

static int make_streams(cudaStream_t *streams, int n)
{
    for (int i = 0; i < n; i++)
        OK(cudaStreamCreateWithFlags(&streams[i], cudaStreamNonBlocking));
    return 0;
}

static double now_s(void)
{
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

static int64_t after_ns(int64_t before_ns)
{
    return cudaDeviceSynchronize() == cudaSuccess ? emu_host_now_ns() - before_ns : -1;
}

/* ---- scenarios ---- */

static int beside(void)
{
    cudaStream_t s[2];

    OK(make_streams(s, 2));
    OK(put_kernel(s[0], long_ns));
    OK(put_transfer(s[1], long_ns, EMU_MEMORY));
    EXPECT(after_ns(0) == 300000); /* half as fast for 200 us, then alone */
    OK(put_transfer(s[0], long_ns, EMU_LINK_OUT));
    OK(put_transfer(s[1], short_ns, EMU_LINK_OUT));
    EXPECT(after_ns(300000) == 300000);
    return 0;
}

/* The worker frees it as soon as the host has let it end; the host goes on issuing. */
static int waits_for_the_host(void)
{
    cudaStream_t s[2];
    cudaEvent_t open;

    OK(make_streams(s, 2));
    OK(put(s[0], (struct emu_effort){.waits = true}));
    OK(cudaEventCreate(&open));
    OK(cudaEventRecord(open, s[0]));
    OK(cudaStreamWaitEvent(s[1], open, 0));
    while (atomic_load(&released) == 0)
        nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL);
    OK(put_kernel(s[0], long_ns));
    OK(put_transfer(s[1], long_ns, EMU_MEMORY));
    EXPECT(after_ns(0) == 300000);
    return 0;
}

/* Two launches of one kernel node are queued: the first runs beside a transfer, and loses to it; the second does
 * not. */
static int replays(void)
{
    cudaGraphExec_t exec;
    cudaGraph_t graph;
    cudaStream_t s[2];

    OK(make_streams(s, 2));
    OK(cudaStreamBeginCapture(s[0], cudaStreamCaptureModeGlobal));
    OK(put_kernel(s[0], short_ns));
    OK(cudaStreamEndCapture(s[0], &graph));
    OK(cudaGraphInstantiate(&exec, graph, 0));
    OK(put_transfer(s[1], long_ns, EMU_MEMORY));
    OK(cudaGraphLaunch(exec, s[0]));
    OK(cudaGraphLaunch(exec, s[0]));
    EXPECT(after_ns(0) == 300000); /* 200 us and 100 us */
    return 0;
}

/* More streams than are followed at once, one after another: the last two still share. */
static int many_streams(void)
{
    cudaStream_t s[2];

    for (int i = 0; i < 1100; i++) {
        OK(make_streams(s, 1));
        OK(put_transfer(s[0], short_ns, EMU_LINK_OUT));
        EXPECT(after_ns(i * short_ns) == short_ns);
        OK(cudaStreamDestroy(s[0]));
    }
    OK(make_streams(s, 2));
    OK(put_transfer(s[0], short_ns, EMU_LINK_OUT));
    OK(put_transfer(s[1], short_ns, EMU_LINK_OUT));
    EXPECT(after_ns(1100 * short_ns) == 2 * short_ns);
    return 0;
}

/* A copy of this process that ends leaves what runs here alone. */
static int a_fork_ends(void)
{
    cudaStream_t s[2];
    int status;
    pid_t copy;

    OK(make_streams(s, 2));
    OK(put_kernel(s[0], long_ns));
    copy = fork();
    if (copy == 0)
        exit(0);
    EXPECT(copy > 0 && waitpid(copy, &status, 0) == copy && WIFEXITED(status));
    OK(put_transfer(s[1], long_ns, EMU_MEMORY));
    EXPECT(after_ns(0) == 300000);
    return 0;
}

static cudaStream_t left;
static cudaEvent_t left_event;

/* As a destructor of the program may that was there before CUDA. */
static void come_too_late(void)
{
    put_kernel(left, long_ns);
    cudaEventRecord(left_event, left);
    cudaEventSynchronize(left_event);
    cudaDeviceSynchronize();
    cudaEventDestroy(left_event);
    cudaStreamDestroy(left);
}

static int calls_after_the_end(void)
{
    atexit(come_too_late);
    OK(make_streams(&left, 1));
    OK(cudaEventCreate(&left_event));
    OK(put_kernel(left, long_ns));
    EXPECT(after_ns(0) == long_ns);
    return 0;
}

/* The host waits for room in the queue: nobody waits for it meanwhile, and what is there goes on beside the others. */
static int a_full_queue(void)
{
    const double before_s = now_s();
    cudaStream_t s[2];

    OK(make_streams(s, 2));
    OK(put_transfer(s[1], 10 * long_ns, EMU_MEMORY));
    for (int i = 0; i < 20; i++)
        OK(put_kernel(s[0], short_ns));
    EXPECT(after_ns(0) == 3000000); /* ten by half while the transfer lasts, then ten more */
    EXPECT(now_s() - before_s < 3);
    return 0;
}

static void run(void **state)
{
    child_pass((int (*)(void))(uintptr_t)*state, sharing);
}

static void run_short_queue(void **state)
{
    child_pass((int (*)(void))(uintptr_t)*state, short_queue);
}

#define TEST(scenario)                                                                                                 \
    {                                                                                                                  \
#scenario, run, NULL, NULL, (void *)(uintptr_t)scenario                                                        \
    }

int main(void)
{
    const struct CMUnitTest tests[] = {TEST(beside),
                                       TEST(waits_for_the_host),
                                       TEST(replays),
                                       TEST(many_streams),
                                       TEST(a_fork_ends),
                                       TEST(calls_after_the_end),
                                       {"a_full_queue", run_short_queue, NULL, NULL, (void *)(uintptr_t)a_full_queue}};

    return cmocka_run_group_tests(tests, NULL, NULL);
}
