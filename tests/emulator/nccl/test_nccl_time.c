/*
 * test_nccl_time.c - virtual times of the NCCL stand-in, which must equal times computed by hand.
 *
 * The profile of these tests: 2 GPUs per node, host time per NCCL call 3 us, memory 100 GB/s,
 * intra 10 us and 4 GB/s, inter 50 us and 1 GB/s. Times in us.
 */
#include "ranks.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdlib.h>
#include <unistd.h>

#include <cmocka.h>

static const char profile[] =
    "{\"name\": \"test\", \"gpus_per_node\": 2, \"launch_us\": 2, \"nccl_launch_us\": 3, \"kernel_us\": 5,"
    " \"memory_gbps\": 100, \"memory_bytes\": 1e10, \"sm_count\": 1, \"clock_khz\": 1000000,"
    " \"tflops\": {\"float32\": 1, \"float16\": 1, \"bfloat16\": 1, \"float64\": 1},"
    " \"intra\": {\"latency_us\": 10, \"gbps\": 4}, \"inter\": {\"latency_us\": 50, \"gbps\": 1}}";

enum { HOST_US = 3 };

#define CHECK_US(got, want)                                                                                            \
    do {                                                                                                               \
        double got_ = (got), want_ = (want);                                                                           \
        if (!(fabs(got_ - want_) < 0.01)) {                                                                            \
            printf("%s:%d: rank %d of %d: %s takes %.3f us, expected %.3f\n", __FILE__, __LINE__, r->rank, r->size,    \
                   #got, got_, want_);                                                                                 \
            return 1;                                                                                                  \
        }                                                                                                              \
    } while (0)

static cudaEvent_t mark(struct rank *r)
{
    cudaEvent_t event = NULL;

    if (cudaEventCreate(&event) != cudaSuccess || cudaEventRecord(event, r->stream) != cudaSuccess)
        return NULL;
    return event;
}

/* Brings all ranks' clocks to the same time: all end an all_reduce together. Returns an event at that time. */
static cudaEvent_t line_up(struct rank *r, void *x)
{
    if (ncclAllReduce(x, x, 1, ncclInt8, ncclMax, r->comm, r->stream) != ncclSuccess)
        return NULL;
    cudaEvent_t event = mark(r);
    if (cudaStreamSynchronize(r->stream) != cudaSuccess) /* the host clocks too */
        return NULL;
    return event;
}

/* 1,000,000 bytes each, 2 ranks on one node. Time from the line-up to the end: the host's 3 us, then the operation. */
static int collectives_of_2(struct rank *r)
{
    const size_t n = 1000000;
    char *a = device_buffer(2 * n), *b = device_buffer(2 * n);
    cudaEvent_t t = line_up(r, a);

    CHECK_EQ(ncclAllReduce(a, b, n, ncclInt8, ncclSum, r->comm, r->stream), ncclSuccess);
    CHECK_US(stream_us(r->stream, t), HOST_US + 2 * 10 + 250); /* 2 steps; 2 * 1/2 * 1 MB at 4 GB/s */
    t = line_up(r, a);
    CHECK_EQ(ncclAllGather(a, b, n, ncclInt8, r->comm, r->stream), ncclSuccess);
    CHECK_US(stream_us(r->stream, t), HOST_US + 10 + 250); /* 1/2 of 2 MB */
    t = line_up(r, a);
    CHECK_EQ(ncclReduceScatter(a, b, n, ncclInt8, ncclSum, r->comm, r->stream), ncclSuccess);
    CHECK_US(stream_us(r->stream, t), HOST_US + 10 + 250);
    t = line_up(r, a);
    CHECK_EQ(ncclAlltoAll(a, b, n, ncclInt8, r->comm, r->stream), ncclSuccess);
    CHECK_US(stream_us(r->stream, t), HOST_US + 10 + 250);
    t = line_up(r, a);
    CHECK_EQ(ncclBroadcast(a, b, n, ncclInt8, 1, r->comm, r->stream), ncclSuccess);
    CHECK_US(stream_us(r->stream, t), HOST_US + 10 + 250); /* 1 MB */
    t = line_up(r, a);
    CHECK_EQ(ncclReduce(a, b, n, ncclInt8, ncclSum, 0, r->comm, r->stream), ncclSuccess);
    CHECK_US(stream_us(r->stream, t), HOST_US + 10 + 250);
    t = line_up(r, a);
    CHECK_EQ(ncclGather(a, b, n, ncclInt8, 0, r->comm, r->stream), ncclSuccess);
    CHECK_US(stream_us(r->stream, t), HOST_US + 10 + 250); /* 1/2 of 2 MB */
    t = line_up(r, a);
    CHECK_EQ(ncclScatter(a, b, n, ncclInt8, 0, r->comm, r->stream), ncclSuccess);
    CHECK_US(stream_us(r->stream, t), HOST_US + 10 + 250);
    return 0;
}

/* 3 ranks on two nodes: inter-node links for all, 2 steps per direction. */
static int collectives_of_3(struct rank *r)
{
    const size_t n = 30000;
    char *a = device_buffer(3 * n), *b = device_buffer(3 * n);
    cudaEvent_t t = line_up(r, a);

    CHECK_EQ(ncclAllReduce(a, b, n, ncclInt8, ncclSum, r->comm, r->stream), ncclSuccess);
    CHECK_US(stream_us(r->stream, t), HOST_US + 4 * 50 + 40); /* 4/3 of 30 kB at 1 GB/s */
    t = line_up(r, a);
    CHECK_EQ(ncclAllGather(a, b, n, ncclInt8, r->comm, r->stream), ncclSuccess);
    CHECK_US(stream_us(r->stream, t), HOST_US + 2 * 50 + 60); /* 2/3 of 90 kB */
    t = line_up(r, a);
    CHECK_EQ(ncclBroadcast(a, b, n, ncclInt8, 1, r->comm, r->stream), ncclSuccess);
    CHECK_US(stream_us(r->stream, t), HOST_US + 2 * 50 + 30);
    return 0;
}

/* A communicator of one rank copies: 2 x 1 MB at 100 GB/s; nothing in place. */
static int alone(struct rank *r)
{
    const size_t n = 1000000;
    char *a = device_buffer(n), *b = device_buffer(n);
    cudaEvent_t t = line_up(r, a);

    CHECK_EQ(ncclAllReduce(a, b, n, ncclInt8, ncclSum, r->comm, r->stream), ncclSuccess);
    CHECK_US(stream_us(r->stream, t), HOST_US + 20);
    t = line_up(r, a);
    CHECK_EQ(ncclAllGather(a, a, n, ncclInt8, r->comm, r->stream), ncclSuccess);
    CHECK_US(stream_us(r->stream, t), HOST_US);
    return 0;
}

/* Rank 1 first runs a memset (5 us, and 1 MB at 100 GB/s = 10 us): all ranks end after the last arrival. */
static int late_rank(struct rank *r)
{
    const size_t n = 1000000;
    char *a = device_buffer(n);
    cudaEvent_t t = line_up(r, a);

    if (r->rank == 1)
        CHECK_EQ(cudaMemsetAsync(a, 0, n, r->stream), cudaSuccess); /* host 2 us */
    CHECK_EQ(ncclAllReduce(a, a, n, ncclInt8, ncclSum, r->comm, r->stream), ncclSuccess);
    CHECK_US(stream_us(r->stream, t), 2 + 15 + 20 + 250);
    return 0;
}

/* A group of two: host time once, one operation after the other. */
static int grouped(struct rank *r)
{
    const size_t n = 1000000;
    char *a = device_buffer(n);
    cudaEvent_t t = line_up(r, a);

    CHECK_EQ(ncclGroupStart(), ncclSuccess);
    CHECK_EQ(ncclBroadcast(a, a, n, ncclInt8, 0, r->comm, r->stream), ncclSuccess);
    CHECK_EQ(ncclBroadcast(a, a, n, ncclInt8, 0, r->comm, r->stream), ncclSuccess);
    CHECK_EQ(ncclGroupEnd(), ncclSuccess);
    CHECK_US(stream_us(r->stream, t), HOST_US + 2 * (10 + 250));
    t = line_up(r, a); /* ungrouped: the host runs ahead of the stream */
    CHECK_EQ(ncclBroadcast(a, a, n, ncclInt8, 0, r->comm, r->stream), ncclSuccess);
    CHECK_EQ(ncclBroadcast(a, a, n, ncclInt8, 0, r->comm, r->stream), ncclSuccess);
    CHECK_US(stream_us(r->stream, t), HOST_US + 2 * (10 + 250));
    return 0;
}

/* One communicator on two streams: the second operation starts when the first has ended. */
static int serialised(struct rank *r)
{
    const size_t n = 1000000;
    char *a = device_buffer(n);
    cudaEvent_t t = line_up(r, a);
    cudaStream_t other;

    CHECK_EQ(cudaStreamCreateWithFlags(&other, cudaStreamNonBlocking), cudaSuccess);
    CHECK_EQ(ncclBroadcast(a, a, n, ncclInt8, 0, r->comm, r->stream), ncclSuccess);
    CHECK_EQ(ncclBroadcast(a, a, n, ncclInt8, 0, r->comm, other), ncclSuccess);
    CHECK_US(stream_us(other, t), HOST_US + 2 * (10 + 250));
    return 0;
}

/*
 * 4 ranks, nodes {0 1} {2 3}; in one group rank 0 sends 100 kB to 1, 50 kB to 2; rank 1 sends 100 kB to 0.
 * Loads: rank 0 out 100k/4 + 50k/1 = 25 + 50 = 75, in 25; rank 1 25; rank 2 in 50.
 * 0->1: 10 + max(75, 25) = 85; 1->0: 85; 0->2: 50 + max(75, 50) = 125. Ends: rank 0 125, rank 1 85, rank 2 125.
 */
static int messages(struct rank *r)
{
    static const double end[3] = {125, 85, 125};
    char *a = device_buffer(1000000), *b = device_buffer(1000000);
    cudaEvent_t t = line_up(r, a);

    CHECK_EQ(ncclGroupStart(), ncclSuccess);
    if (r->rank == 0) {
        CHECK_EQ(ncclSend(a, 100000, ncclInt8, 1, r->comm, r->stream), ncclSuccess);
        CHECK_EQ(ncclRecv(b, 100000, ncclInt8, 1, r->comm, r->stream), ncclSuccess);
        CHECK_EQ(ncclSend(a, 50000, ncclInt8, 2, r->comm, r->stream), ncclSuccess);
    } else if (r->rank == 1) {
        CHECK_EQ(ncclSend(a, 100000, ncclInt8, 0, r->comm, r->stream), ncclSuccess);
        CHECK_EQ(ncclRecv(b, 100000, ncclInt8, 0, r->comm, r->stream), ncclSuccess);
    } else if (r->rank == 2) {
        CHECK_EQ(ncclRecv(b, 50000, ncclInt8, 0, r->comm, r->stream), ncclSuccess);
    }
    CHECK_EQ(ncclGroupEnd(), ncclSuccess);
    CHECK_US(stream_us(r->stream, t), r->rank < 3 ? HOST_US + end[r->rank] : 0); /* an empty group costs nothing */
    return 0;
}

/* A message to itself: 2 x 1 MB at 100 GB/s = 20 us, together with a message to another rank that ends later. */
static int to_itself(struct rank *r)
{
    const size_t n = 1000000;
    char *a = device_buffer(n), *b = device_buffer(n);
    cudaEvent_t t = line_up(r, a);

    CHECK_EQ(ncclGroupStart(), ncclSuccess);
    CHECK_EQ(ncclSend(a, n, ncclInt8, r->rank, r->comm, r->stream), ncclSuccess);
    CHECK_EQ(ncclRecv(b, n, ncclInt8, r->rank, r->comm, r->stream), ncclSuccess);
    CHECK_EQ(ncclGroupEnd(), ncclSuccess);
    CHECK_US(stream_us(r->stream, t), HOST_US + 20);
    return 0;
}

/* The send waits for a receive that is issued after 5 + 10 us of memset. */
static int rendezvous(struct rank *r)
{
    const size_t n = 1000000;
    char *a = device_buffer(n);
    cudaEvent_t t = line_up(r, a);

    if (r->rank == 0) {
        CHECK_EQ(ncclSend(a, n, ncclInt8, 1, r->comm, r->stream), ncclSuccess);
    } else {
        CHECK_EQ(cudaMemsetAsync(a, 0, n, r->stream), cudaSuccess);
        CHECK_EQ(ncclRecv(a, n, ncclInt8, 0, r->comm, r->stream), ncclSuccess);
    }
    CHECK_US(stream_us(r->stream, t), 2 + 15 + 10 + 250);
    return 0;
}

/* Three launches of a captured all_reduce: the launch's host time, then one operation after the other. */
static int replayed(struct rank *r)
{
    const size_t n = 1000000;
    char *a = device_buffer(n);
    cudaGraphExec_t exec;
    cudaGraph_t graph;

    CHECK_EQ(cudaStreamBeginCapture(r->stream, cudaStreamCaptureModeThreadLocal), cudaSuccess);
    CHECK_EQ(ncclAllReduce(a, a, n, ncclInt8, ncclSum, r->comm, r->stream), ncclSuccess);
    CHECK_EQ(ncclAllReduce(a, a, n, ncclInt8, ncclSum, r->comm, r->stream), ncclSuccess);
    CHECK_EQ(cudaStreamEndCapture(r->stream, &graph), cudaSuccess);
    CHECK_EQ(cudaGraphInstantiate(&exec, graph, 0), cudaSuccess);
    cudaEvent_t t = line_up(r, a);
    for (int i = 0; i < 3; i++)
        CHECK_EQ(cudaGraphLaunch(exec, r->stream), cudaSuccess);
    CHECK_US(stream_us(r->stream, t), 2 + 3 * 2 * (20 + 250));
    CHECK_EQ(cudaGraphExecDestroy(exec), cudaSuccess);
    CHECK_EQ(cudaGraphDestroy(graph), cudaSuccess);
    return 0;
}

/* A split communicator whose ranks are on one node uses the links of the node. */
static int split_by_node(struct rank *r)
{
    const size_t n = 1000000;
    char *a = device_buffer(n);
    ncclComm_t node, world = r->comm;
    double want = HOST_US + 2 * 10 + 250;

    CHECK_EQ(ncclCommSplit(world, r->rank / 2, r->rank, &node, NULL), ncclSuccess);
    cudaEvent_t t = line_up(r, a);
    CHECK_EQ(ncclAllReduce(a, a, n, ncclInt8, ncclSum, node, r->stream), ncclSuccess);
    CHECK_US(stream_us(r->stream, t), want);
    CHECK_EQ(ncclCommDestroy(node), ncclSuccess);
    return 0;
}

#define AT(name, size, fn)                                                                                             \
    static void name(void **state)                                                                                     \
    {                                                                                                                  \
        (void)state;                                                                                                   \
        run_ranks(size, fn, NULL, 0, NULL);                                                                            \
    }
AT(two_ranks, 2, collectives_of_2)
AT(three_ranks_on_two_nodes, 3, collectives_of_3)
AT(one_rank, 1, alone)
AT(the_last_arrival_counts, 2, late_rank)
AT(groups_pay_the_host_once, 2, grouped)
AT(one_communicator_is_one_queue, 2, serialised)
AT(messages_by_load_and_link, 4, messages)
AT(messages_to_oneself, 2, to_itself)
AT(sends_wait_for_receives, 2, rendezvous)
AT(graph_launches, 2, replayed)
AT(nodes_of_split_communicators, 4, split_by_node)

static void times_without_data(void **state)
{
    (void)state;
    setenv("EMU_DATA", "off", 1);
    run_ranks(2, collectives_of_2, NULL, 0, NULL);
    run_ranks(4, messages, NULL, 0, NULL);
    unsetenv("EMU_DATA");
}

static int write_profile(void **state)
{
    (void)state;
    return use_profile(profile);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(two_ranks),
        cmocka_unit_test(three_ranks_on_two_nodes),
        cmocka_unit_test(one_rank),
        cmocka_unit_test(the_last_arrival_counts),
        cmocka_unit_test(groups_pay_the_host_once),
        cmocka_unit_test(one_communicator_is_one_queue),
        cmocka_unit_test(messages_by_load_and_link),
        cmocka_unit_test(messages_to_oneself),
        cmocka_unit_test(sends_wait_for_receives),
        cmocka_unit_test(graph_launches),
        cmocka_unit_test(nodes_of_split_communicators),
        cmocka_unit_test(times_without_data),
    };

    return cmocka_run_group_tests(tests, write_profile, drop_profile);
}
