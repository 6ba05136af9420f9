/*
 * test_contention.c - contention between operations of one GPU, against results computed by hand. The test enqueues its
 * own operations with a known demand (struct emu_demand); each takes its time alone plus its loss.
 */
#include "child.h"
#include "engine.h"
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
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
    const struct emu_demand *e = arg;

    return ready_ns + (int64_t)(e->alone_ns + e->latency_ns + e->transfer_ns) + e->extra_ns;
}

static void release(void *arg)
{
    free(arg);
    atomic_fetch_add(&released, 1);
}

static int put(cudaStream_t stream, struct emu_demand demand)
{
    struct emu_demand *own = malloc(sizeof(*own));

    EXPECT(own != NULL);
    *own = demand;
    OK(emu_enqueue(stream,
                   &(struct emu_op){.name = "test", .run = last, .release = release, .arg = own, .demand = own}));
    return 0;
}

/* A memory-bound kernel, and a transfer that takes all memory bandwidth available to NCCL, or all of a link. */
static int put_kernel(cudaStream_t stream, int64_t ns)
{
    return put(stream, (struct emu_demand){.alone_ns = (double)ns, .by_memory = true});
}

static int put_transfer(cudaStream_t stream, int64_t ns, enum emu_part part)
{
    const double gbps = part == EMU_MEMORY ? 50 : 10;
    struct emu_demand demand = {.sms = 1, .transfer_ns = (double)ns};

    demand.bytes[part] = (double)ns * gbps;
    return put(stream, demand);
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

static int concurrent_operations(void)
{
    cudaStream_t s[2];

    OK(make_streams(s, 2));
    OK(put_kernel(s[0], long_ns));
    OK(put_transfer(s[1], long_ns, EMU_MEMORY));
    EXPECT(after_ns(0) == 300000); /* half rate for 200 us, then alone */
    OK(put_transfer(s[0], long_ns, EMU_LINK_OUT));
    OK(put_transfer(s[1], short_ns, EMU_LINK_OUT));
    EXPECT(after_ns(300000) == 300000);
    return 0;
}

/* The worker frees the kernel as soon as the host has let it end; the host continues to issue. */
static int start_barrier_waits_for_host(void)
{
    cudaStream_t s[2];
    cudaEvent_t open;

    OK(make_streams(s, 2));
    OK(put(s[0], (struct emu_demand){.waits = true}));
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

/* Two queued launches of one kernel node: the first runs during a transfer and is delayed; the second runs after it. */
static int graph_replays(void)
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

/* 1100 streams, created and destroyed one after another, leave the model intact: the last two share the link. */
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

static bool is_copy;

/* LeakSanitizer asks this function. Its check in a fork() child can block forever on a malloc lock that another
 * thread held at the fork. */
int __lsan_is_turned_off(void);
int __lsan_is_turned_off(void)
{
    return is_copy;
}

/* The exit of a fork() child does not affect the operations of its parent. */
static int fork_child_exits(void)
{
    cudaStream_t s[2];
    int status;
    pid_t copy;

    OK(make_streams(s, 2));
    OK(put_kernel(s[0], long_ns));
    copy = fork();
    is_copy = copy == 0;
    if (is_copy)
        exit(0);
    EXPECT(copy > 0 && waitpid(copy, &status, 0) == copy && WIFEXITED(status));
    OK(put_transfer(s[1], long_ns, EMU_MEMORY));
    EXPECT(after_ns(0) == 300000);
    return 0;
}

static cudaStream_t left;
static cudaEvent_t left_event;

/* Runs at exit, like a destructor of the program that was registered before CUDA. */
static void enqueue_at_exit(void)
{
    put_kernel(left, long_ns);
    cudaEventRecord(left_event, left);
    cudaEventSynchronize(left_event);
    cudaDeviceSynchronize();
    cudaEventDestroy(left_event);
    cudaStreamDestroy(left);
}

static int calls_during_exit(void)
{
    atexit(enqueue_at_exit);
    OK(make_streams(&left, 1));
    OK(cudaEventCreate(&left_event));
    OK(put_kernel(left, long_ns));
    EXPECT(after_ns(0) == long_ns);
    return 0;
}

/* The host waits for space in the launch queue: the timeline does not wait for the host meanwhile, and queued
 * operations contend as usual. */
static int a_full_queue(void)
{
    const double before_s = now_s();
    cudaStream_t s[2];

    OK(make_streams(s, 2));
    OK(put_transfer(s[1], 10 * long_ns, EMU_MEMORY));
    for (int i = 0; i < 20; i++)
        OK(put_kernel(s[0], short_ns));
    EXPECT(after_ns(0) == 3000000); /* ten at half rate during the transfer, then ten at full rate */
    EXPECT(now_s() - before_s < 3);
    return 0;
}

/* ---- the processes of a job ---- */

struct process {
    pid_t pid;
    uint64_t name; /* id of the shared timeline */
};

/* Starts a process that lives until it is killed. */
static struct process start_rank(const char *rank)
{
    struct process p = {0};
    int message[2];

    if (pipe(message) != 0 || (p.pid = fork()) < 0)
        return p;
    if (p.pid == 0) {
        setenv("OMPI_COMM_WORLD_RANK", rank, 1);
        p.name = emu_timeline_name();
        if (write(message[1], &p.name, sizeof(p.name)) == (ssize_t)sizeof(p.name))
            pause();
        _exit(1);
    }
    close(message[1]);
    if (read(message[0], &p.name, sizeof(p.name)) != (ssize_t)sizeof(p.name))
        p.name = 0;
    close(message[0]);
    return p;
}

static void end_rank(const struct process *p)
{
    kill(p->pid, SIGKILL);
    waitpid(p->pid, NULL, 0);
}

/* The processes of one job find each other. A second process of a live rank is rejected. A process whose rank has
 * left belongs to the next job, and waits until this job has ended. */
static int ranks_find_each_other(void)
{
    struct process first, second, sibling, next, last;
    int status;

    unsetenv("PMIX_NAMESPACE"); /* the job is identified by the parent process */
    unsetenv("PMI_JOBID");
    unsetenv("SLURM_JOB_ID");
    first = start_rank("0");
    second = start_rank("1");
    sibling = start_rank("1");
    EXPECT(first.name == (uint64_t)first.pid && second.name == first.name);
    EXPECT(waitpid(sibling.pid, &status, 0) == sibling.pid && WIFEXITED(status) && WEXITSTATUS(status) == 2);
    end_rank(&second);
    if (fork() == 0) {
        usleep(50000);
        kill(first.pid, SIGKILL);
        _exit(0);
    }
    next = start_rank("1");
    last = start_rank("0");
    EXPECT(next.name == (uint64_t)next.pid && last.name == next.name);
    end_rank(&first);
    end_rank(&next);
    end_rank(&last);
    return 0;
}

/* Two steps of a Slurm job are two jobs, also with a long job name. */
static int slurm_steps_are_separate_jobs(void)
{
    struct process first, second, of_next;
    char job[160];

    snprintf(job, sizeof(job), "%0140d", (int)getpid());
    unsetenv("PMIX_NAMESPACE");
    unsetenv("PMI_JOBID");
    setenv("SLURM_JOB_ID", job, 1);
    setenv("SLURM_STEP_ID", "0", 1);
    first = start_rank("0");
    second = start_rank("1");
    setenv("SLURM_STEP_ID", "1", 1);
    of_next = start_rank("0");
    EXPECT(first.name == (uint64_t)first.pid && second.name == first.name && of_next.name == (uint64_t)of_next.pid);
    end_rank(&first);
    end_rank(&second);
    end_rank(&of_next);
    return 0;
}

static int begin(void)
{
    return (int)emu_timeline_name();
}

static const char *const shared_nics[] = {"EMU_CLUSTER=l40s-pcie-ib", "OMPI_COMM_WORLD_SIZE=2", NULL};
static const char *const hazards[][4] = {
    {"EMU_CLUSTER=l40s-pcie-ib", "OMPI_COMM_WORLD_SIZE=2", "EMU_HARDWARE_QUEUES=1"},
    {"EMU_CLUSTER=l40s-pcie-ib", "OMPI_COMM_WORLD_SIZE=2", "EMU_SEND_AHEAD=8"},
    {"EMU_CLUSTER=l40s-pcie-ib", "OMPI_COMM_WORLD_SIZE=2", "EMU_SMS=8"}};

static void run_job(void **state)
{
    child_pass((int (*)(void))(uintptr_t)*state, shared_nics);
}

static void hazards_are_refused_on_job_timelines(void **state)
{
    struct child child;

    (void)state;
    for (int i = 0; i < 3; i++) {
        child_run(&child, begin, hazards[i]);
        assert_int_equal(child.status, 2);
        assert_non_null(strstr(child.err, hazards[i][2]));
        assert_non_null(strstr(child.err, "is not supported with several processes on 'l40s-pcie-ib'"));
    }
}

static void one_process_is_one_rank(void **state)
{
    struct child child;

    (void)state;
    child_run(&child, ranks_find_each_other, shared_nics);
    assert_non_null(strstr(child.err, "two processes claim rank 1 of 2, but profile 'l40s-pcie-ib'"));
    assert_int_equal(child.status, 0);
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
    const struct CMUnitTest tests[] = {
        TEST(concurrent_operations),
        TEST(start_barrier_waits_for_host),
        TEST(graph_replays),
        TEST(many_streams),
        TEST(fork_child_exits),
        TEST(calls_during_exit),
        cmocka_unit_test(one_process_is_one_rank),
        {"slurm_steps_are_separate_jobs", run_job, NULL, NULL, (void *)(uintptr_t)slurm_steps_are_separate_jobs},
        cmocka_unit_test(hazards_are_refused_on_job_timelines),
        {"a_full_queue", run_short_queue, NULL, NULL, (void *)(uintptr_t)a_full_queue}};

    return cmocka_run_group_tests(tests, NULL, NULL);
}
