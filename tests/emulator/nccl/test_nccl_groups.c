/*
 * test_nccl_groups.c - sends, receives and groups of the NCCL stand-in: progress in any order, FIFO matching, several
 * communicators, streams, devices and threads, graphs.
 */
#include "ranks.h"

#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

static int set(const struct rank *r, int *device, size_t i, int value)
{
    CHECK_EQ(cudaMemcpy(device + i, &value, sizeof(value), cudaMemcpyHostToDevice), cudaSuccess);
    return 0;
}

static int get(const int *device, size_t i)
{
    int value = -1;

    cudaMemcpy(&value, device + i, sizeof(value), cudaMemcpyDeviceToHost);
    return value;
}

/* Every rank sends to both neighbours before it receives, more than a transport ring holds. */
static int big_ring(struct rank *r)
{
    const size_t n = 400000;
    int right = (r->rank + 1) % r->size, left = (r->rank + r->size - 1) % r->size;
    int *out = device_buffer(n * sizeof(int)), *in = device_buffer(n * sizeof(int));
    int *host = malloc(n * sizeof(int));

    for (size_t i = 0; i < n; i++)
        host[i] = (int)i * 7 + r->rank;
    CHECK_EQ(cudaMemcpy(out, host, n * sizeof(int), cudaMemcpyHostToDevice), cudaSuccess);
    for (int round = 0; round < 3; round++) {
        CHECK_EQ(ncclGroupStart(), ncclSuccess);
        CHECK_EQ(ncclSend(out, n, ncclInt, right, r->comm, r->stream), ncclSuccess);
        CHECK_EQ(ncclRecv(in, n, ncclInt, left, r->comm, r->stream), ncclSuccess);
        CHECK_EQ(ncclGroupEnd(), ncclSuccess);
    }
    CHECK_EQ(cudaStreamSynchronize(r->stream), cudaSuccess);
    CHECK_EQ(cudaMemcpy(host, in, n * sizeof(int), cudaMemcpyDeviceToHost), cudaSuccess);
    for (size_t i = 0; i < n; i++)
        CHECK_EQ(host[i], (int)i * 7 + left);
    free(host);
    return 0;
}

/* All to all by sends and receives. Each rank lists its peers in another order; each pair has two messages. */
static int any_order(struct rank *r)
{
    int n = r->size, *out = device_buffer((size_t)n * 2 * sizeof(int)),
        *in = device_buffer((size_t)n * 2 * sizeof(int));

    for (int i = 0; i < 2 * n; i++)
        CHECK_EQ(set(r, out, (size_t)i, 100 * r->rank + i), 0);
    CHECK_EQ(ncclGroupStart(), ncclSuccess);
    for (int second = 0; second < 2; second++)
        for (int k = 0; k < n; k++) {
            int peer = r->rank % 2 ? (r->rank + k) % n : n - 1 - k;
            int *from = out + peer + second * n, *to = in + peer + second * n;
            CHECK_EQ(ncclSend(from, 1, ncclInt, peer, r->comm, r->stream), ncclSuccess);
            CHECK_EQ(ncclRecv(to, 1, ncclInt, peer, r->comm, r->stream), ncclSuccess);
        }
    CHECK_EQ(ncclGroupEnd(), ncclSuccess);
    CHECK_EQ(cudaStreamSynchronize(r->stream), cudaSuccess);
    for (int second = 0; second < 2; second++)
        for (int peer = 0; peer < n; peer++)
            CHECK_EQ(get(in, (size_t)(peer + second * n)), 100 * peer + r->rank + second * n);
    return 0;
}

/* Ungrouped chain: each rank receives before it sends; messages of one pair stay in order. */
static int chain(struct rank *r)
{
    int *x = device_buffer(3 * sizeof(int));

    for (int i = 0; i < 3; i++) {
        CHECK_EQ(set(r, x, (size_t)i, 10 * i), 0);
        if (r->rank > 0)
            CHECK_EQ(ncclRecv(x + i, 1, ncclInt, r->rank - 1, r->comm, r->stream), ncclSuccess);
        if (r->rank < r->size - 1)
            CHECK_EQ(ncclSend(x + i, 1, ncclInt, r->rank + 1, r->comm, r->stream), ncclSuccess);
    }
    CHECK_EQ(cudaStreamSynchronize(r->stream), cudaSuccess);
    for (int i = 0; i < 3; i++)
        CHECK_EQ(get(x, (size_t)i), 10 * i);
    return 0;
}

/* The k-th receive matches the k-th send, even if only one side groups them. */
static int groups_of_other_shape(struct rank *r)
{
    int *x = device_buffer(4 * sizeof(int));

    if (r->rank == 0) {
        for (int i = 0; i < 4; i++)
            CHECK_EQ(set(r, x, (size_t)i, i + 1), 0);
        CHECK_EQ(ncclGroupStart(), ncclSuccess);
        for (int i = 0; i < 4; i++)
            CHECK_EQ(ncclSend(x + i, 1, ncclInt, 1, r->comm, r->stream), ncclSuccess);
        CHECK_EQ(ncclGroupEnd(), ncclSuccess);
    } else {
        for (int i = 0; i < 4; i++)
            CHECK_EQ(ncclRecv(x + 3 - i, 1, ncclInt, 0, r->comm, r->stream), ncclSuccess);
    }
    CHECK_EQ(cudaStreamSynchronize(r->stream), cudaSuccess);
    CHECK_EQ(get(x, 0), r->rank == 0 ? 1 : 4);
    CHECK_EQ(get(x, 3), r->rank == 0 ? 4 : 1);
    return 0;
}

/* Two collectives, a message, and a second communicator with its ranks reversed, in one group over three streams. */
static int mixed_group(struct rank *r)
{
    int *x = device_buffer(4 * sizeof(int)), next = (r->rank + 1) % r->size, before = (r->rank + r->size - 1) % r->size;
    cudaStream_t other, third;
    ncclComm_t reversed;

    CHECK_EQ(ncclCommSplit(r->comm, 0, -r->rank, &reversed, NULL), ncclSuccess);
    CHECK_EQ(cudaStreamCreate(&other), cudaSuccess);
    CHECK_EQ(cudaStreamCreate(&third), cudaSuccess);
    CHECK_EQ(set(r, x, 0, 1), 0);
    CHECK_EQ(set(r, x, 1, r->rank), 0);
    CHECK_EQ(set(r, x, 3, r->rank), 0);
    CHECK_EQ(ncclGroupStart(), ncclSuccess);
    CHECK_EQ(ncclSend(x + 1, 1, ncclInt, next, r->comm, other), ncclSuccess);
    CHECK_EQ(ncclAllReduce(x, x, 1, ncclInt, ncclSum, r->comm, r->stream), ncclSuccess);
    CHECK_EQ(ncclBcast(x + 3, 1, ncclInt, 0, reversed, third), ncclSuccess);
    CHECK_EQ(ncclRecv(x + 2, 1, ncclInt, before, r->comm, other), ncclSuccess);
    CHECK_EQ(ncclAllReduce(x, x, 1, ncclInt, ncclSum, r->comm, r->stream), ncclSuccess);
    CHECK_EQ(ncclGroupEnd(), ncclSuccess);
    CHECK_EQ(cudaStreamSynchronize(r->stream), cudaSuccess);
    CHECK_EQ(cudaStreamSynchronize(other), cudaSuccess);
    CHECK_EQ(cudaStreamSynchronize(third), cudaSuccess);
    CHECK_EQ(get(x, 0), r->size * r->size);
    CHECK_EQ(get(x, 2), before);
    CHECK_EQ(get(x, 3), r->size - 1);
    CHECK_EQ(ncclCommDestroy(reversed), ncclSuccess);
    return 0;
}

/* One communicator on two streams without waits between them: its operations still run in issue order. */
static int two_streams(struct rank *r)
{
    int *x = device_buffer(2 * sizeof(int));
    cudaStream_t other;

    CHECK_EQ(cudaStreamCreateWithFlags(&other, cudaStreamNonBlocking), cudaSuccess);
    CHECK_EQ(set(r, x, 0, 1), 0);
    for (int i = 0; i < 20; i++) {
        CHECK_EQ(ncclAllReduce(x, x, 1, ncclInt, ncclMax, r->comm, i % 2 ? r->stream : other), ncclSuccess);
        CHECK_EQ(ncclAllGather(x, x, 0, ncclInt, r->comm, r->stream), ncclSuccess);
        CHECK_EQ(ncclBcast(x + 1, 1, ncclInt, i % r->size, r->comm, i % 3 ? r->stream : other), ncclSuccess);
    }
    CHECK_EQ(cudaDeviceSynchronize(), cudaSuccess);
    CHECK_EQ(get(x, 0), 1);
    return 0;
}

static int self(struct rank *r)
{
    int *x = device_buffer(4 * sizeof(int));

    CHECK_EQ(set(r, x, 0, 5), 0);
    CHECK_EQ(set(r, x, 1, 6), 0);
    CHECK_EQ(ncclGroupStart(), ncclSuccess);
    CHECK_EQ(ncclRecv(x + 2, 1, ncclInt, r->rank, r->comm, r->stream), ncclSuccess);
    CHECK_EQ(ncclSend(x, 1, ncclInt, r->rank, r->comm, r->stream), ncclSuccess);
    CHECK_EQ(ncclSend(x + 1, 1, ncclInt, r->rank, r->comm, r->stream), ncclSuccess);
    CHECK_EQ(ncclRecv(x + 3, 1, ncclInt, r->rank, r->comm, r->stream), ncclSuccess);
    CHECK_EQ(ncclGroupEnd(), ncclSuccess);
    CHECK_EQ(cudaStreamSynchronize(r->stream), cudaSuccess);
    CHECK_EQ(get(x, 2), 5);
    CHECK_EQ(get(x, 3), 6);
    CHECK_EQ(ncclSend(x, 1, ncclInt, r->rank, r->comm, r->stream), ncclInvalidUsage); /* without a receive */
    CHECK(strstr(ncclGetLastError(NULL), "without a matching recv") != NULL);
    return 0;
}

/* A captured group runs at every launch, on the buffers' contents at that time. */
static int replay(struct rank *r)
{
    int *x = device_buffer(2 * sizeof(int)), next = (r->rank + 1) % r->size, before = (r->rank + r->size - 1) % r->size;
    cudaStream_t other;
    cudaGraph_t graph;
    cudaGraphExec_t exec;

    CHECK_EQ(cudaStreamCreateWithFlags(&other, cudaStreamNonBlocking), cudaSuccess);
    CHECK_EQ(cudaStreamBeginCapture(r->stream, cudaStreamCaptureModeThreadLocal), cudaSuccess);
    CHECK_EQ(ncclAllReduce(x, x, 1, ncclInt, ncclSum, r->comm, r->stream), ncclSuccess);
    CHECK_EQ(ncclGroupStart(), ncclSuccess);
    CHECK_EQ(ncclSend(x, 1, ncclInt, next, r->comm, r->stream), ncclSuccess);
    CHECK_EQ(ncclRecv(x + 1, 1, ncclInt, before, r->comm, r->stream), ncclSuccess);
    CHECK_EQ(ncclGroupEnd(), ncclSuccess);
    CHECK_EQ(ncclAllReduce(x + 1, x + 1, 1, ncclInt, ncclMax, r->comm, r->stream), ncclSuccess);
    CHECK_EQ(cudaStreamEndCapture(r->stream, &graph), cudaSuccess);
    CHECK_EQ(cudaGraphInstantiate(&exec, graph, 0), cudaSuccess);
    CHECK_EQ(set(r, x, 0, 1), 0);
    for (int i = 0, want = r->size; i < 5; i++, want *= r->size) {
        CHECK_EQ(cudaGraphLaunch(exec, r->stream), cudaSuccess);
        CHECK_EQ(ncclAllReduce(x + 1, x + 1, 1, ncclInt, ncclMin, r->comm, r->stream), ncclSuccess);
        CHECK_EQ(cudaStreamSynchronize(r->stream), cudaSuccess);
        CHECK_EQ(get(x, 0), want);
        CHECK_EQ(get(x, 1), want);
    }
    CHECK_EQ(cudaGraphExecDestroy(exec), cudaSuccess);
    CHECK_EQ(cudaGraphDestroy(graph), cudaSuccess);
    return 0;
}

/* A fork inside a capture: the two branches use one communicator, whose operations are chained. */
static int replay_of_branches(struct rank *r)
{
    int *x = device_buffer(2 * sizeof(int));
    cudaStream_t other;
    cudaEvent_t fork, join;
    cudaGraph_t graph;
    cudaGraphExec_t exec;

    CHECK_EQ(cudaStreamCreateWithFlags(&other, cudaStreamNonBlocking), cudaSuccess);
    CHECK_EQ(cudaEventCreate(&fork), cudaSuccess);
    CHECK_EQ(cudaEventCreate(&join), cudaSuccess);
    CHECK_EQ(cudaStreamBeginCapture(r->stream, cudaStreamCaptureModeThreadLocal), cudaSuccess);
    CHECK_EQ(cudaEventRecord(fork, r->stream), cudaSuccess);
    CHECK_EQ(cudaStreamWaitEvent(other, fork, 0), cudaSuccess);
    for (int i = 0; i < 3; i++) {
        CHECK_EQ(ncclAllReduce(x, x, 1, ncclInt, ncclSum, r->comm, r->stream), ncclSuccess);
        CHECK_EQ(ncclBcast(x + 1, 1, ncclInt, i % r->size, r->comm, other), ncclSuccess);
    }
    CHECK_EQ(cudaEventRecord(join, other), cudaSuccess);
    CHECK_EQ(cudaStreamWaitEvent(r->stream, join, 0), cudaSuccess);
    CHECK_EQ(cudaStreamEndCapture(r->stream, &graph), cudaSuccess);
    CHECK_EQ(cudaGraphInstantiate(&exec, graph, 0), cudaSuccess);
    CHECK_EQ(set(r, x, 0, 1), 0);
    CHECK_EQ(set(r, x, 1, 7), 0);
    for (int i = 0; i < 20; i++)
        CHECK_EQ(cudaGraphLaunch(exec, r->stream), cudaSuccess);
    CHECK_EQ(cudaStreamSynchronize(r->stream), cudaSuccess);
    CHECK_EQ(get(x, 1), 7);
    CHECK_EQ(cudaEventDestroy(fork), cudaSuccess);
    CHECK_EQ(cudaEventDestroy(join), cudaSuccess);
    CHECK_EQ(cudaGraphExecDestroy(exec), cudaSuccess);
    CHECK_EQ(cudaGraphDestroy(graph), cudaSuccess);
    return 0;
}

/* A non-blocking communicator in a capture: a helper thread adds the node. */
static int nonblocking_replay(struct rank *r)
{
    ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
    int *x = device_buffer(sizeof(int));
    ncclResult_t state;
    cudaGraphExec_t exec;
    cudaGraph_t graph;
    ncclComm_t comm;

    config.blocking = 0;
    CHECK_EQ(ncclCommInitRankConfig(&comm, r->size, r->id, r->rank, &config), ncclInProgress);
    CHECK_EQ(wait_for(comm, &state), 0);
    CHECK_EQ(cudaStreamBeginCapture(r->stream, cudaStreamCaptureModeThreadLocal), cudaSuccess);
    CHECK_EQ(ncclAllReduce(x, x, 1, ncclInt, ncclSum, comm, r->stream), ncclInProgress);
    CHECK_EQ(wait_for(comm, &state), 0);
    CHECK_EQ(state, ncclSuccess);
    CHECK_EQ(cudaStreamEndCapture(r->stream, &graph), cudaSuccess);
    CHECK_EQ(cudaGraphInstantiate(&exec, graph, 0), cudaSuccess);
    CHECK_EQ(set(r, x, 0, 1), 0);
    for (int i = 0; i < 3; i++)
        CHECK_EQ(cudaGraphLaunch(exec, r->stream), cudaSuccess);
    CHECK_EQ(cudaStreamSynchronize(r->stream), cudaSuccess);
    CHECK_EQ(get(x, 0), r->size * r->size * r->size);
    CHECK_EQ(cudaGraphExecDestroy(exec), cudaSuccess);
    CHECK_EQ(cudaGraphDestroy(graph), cudaSuccess);
    CHECK_EQ(ncclCommDestroy(comm), ncclSuccess);
    return 0;
}

/* Many groups on a non-blocking communicator, distinguished by count: none may overtake the previous one. */
static int nonblocking_ring(struct rank *r)
{
    enum { ROUNDS = 400 };
    ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
    int *x = device_buffer(2 * ROUNDS * sizeof(int));
    ncclResult_t state;
    ncclComm_t comm;

    config.blocking = 0;
    CHECK_EQ(ncclCommInitRankConfig(&comm, r->size, r->id, r->rank, &config), ncclInProgress);
    CHECK_EQ(wait_for(comm, &state), 0);
    for (int i = 1; i <= ROUNDS; i++) {
        CHECK_EQ(ncclGroupStart(), ncclSuccess);
        ncclSend(x, (size_t)i, ncclInt, (r->rank + 1) % r->size, comm, r->stream);
        ncclRecv(x + ROUNDS, (size_t)i, ncclInt, (r->rank + r->size - 1) % r->size, comm, r->stream);
        CHECK_EQ(ncclGroupEnd(), ncclInProgress);
        CHECK_EQ(wait_for(comm, &state), 0);
        CHECK_EQ(state, ncclSuccess);
    }
    CHECK_EQ(cudaStreamSynchronize(r->stream), cudaSuccess);
    CHECK_EQ(ncclCommDestroy(comm), ncclSuccess);
    return 0;
}

enum { GPUS = 3 };

/* Several GPUs of one thread: init in a group, operations in a group, one stream each. */
static int one_thread_many_gpus(struct rank *r)
{
    ncclComm_t comms[GPUS];
    cudaStream_t streams[GPUS];
    int *x[GPUS];

    CHECK_EQ(ncclGroupStart(), ncclSuccess);
    for (int g = 0; g < GPUS; g++) {
        CHECK_EQ(cudaSetDevice(r->rank * GPUS + g), cudaSuccess);
        CHECK_EQ(ncclCommInitRank(&comms[g], r->size * GPUS, r->id, r->rank * GPUS + g), ncclSuccess);
    }
    CHECK_EQ(ncclGroupEnd(), ncclSuccess);
    for (int g = 0; g < GPUS; g++) {
        CHECK_EQ(cudaSetDevice(r->rank * GPUS + g), cudaSuccess);
        CHECK_EQ(cudaStreamCreate(&streams[g]), cudaSuccess);
        x[g] = device_buffer(sizeof(int));
        CHECK_EQ(set(r, x[g], 0, g + 1), 0);
    }
    CHECK_EQ(ncclGroupStart(), ncclSuccess);
    for (int g = 0; g < GPUS; g++)
        CHECK_EQ(ncclAllReduce(x[g], x[g], 1, ncclInt, ncclSum, comms[g], streams[g]), ncclSuccess);
    CHECK_EQ(ncclGroupEnd(), ncclSuccess);
    for (int g = 0; g < GPUS; g++) {
        CHECK_EQ(cudaStreamSynchronize(streams[g]), cudaSuccess);
        CHECK_EQ(get(x[g], 0), r->size * 6);
    }
    for (int g = 0; g < GPUS; g++)
        CHECK_EQ(ncclCommDestroy(comms[g]), ncclSuccess);
    return 0;
}

static int init_all(struct rank *r)
{
    const int devices[GPUS] = {4, 0, 2}, twice[2] = {1, 1};
    ncclComm_t comms[GPUS];
    int n, rank, device, current = -1;

    CHECK_EQ(ncclCommInitAll(comms, GPUS, devices), ncclSuccess);
    for (int g = 0; g < GPUS; g++) {
        CHECK_EQ(ncclCommCount(comms[g], &n), ncclSuccess);
        CHECK_EQ(ncclCommUserRank(comms[g], &rank), ncclSuccess);
        CHECK_EQ(ncclCommCuDevice(comms[g], &device), ncclSuccess);
        CHECK(n == GPUS && rank == g && device == devices[g]);
    }
    CHECK_EQ(cudaGetDevice(&current), cudaSuccess);
    CHECK_EQ(current, 0);
    for (int g = 0; g < GPUS; g++)
        CHECK_EQ(ncclCommDestroy(comms[g]), ncclSuccess);
    CHECK_EQ(ncclCommInitAll(comms, 2, twice), ncclInvalidUsage);
    CHECK_EQ(ncclCommInitAll(comms, 1000, NULL), ncclInvalidArgument);
    return 0;
}

struct thread {
    struct rank *r;
    int index, rc;
};

static int thread_body(struct rank *r, int index)
{
    ncclComm_t comm;
    cudaStream_t stream;
    int *x;

    CHECK_EQ(cudaSetDevice(index), cudaSuccess);
    CHECK_EQ(cudaStreamCreate(&stream), cudaSuccess);
    x = device_buffer(sizeof(int));
    CHECK_EQ(ncclCommInitRank(&comm, GPUS, r->id, index), ncclSuccess);
    CHECK_EQ(set(r, x, 0, index + 1), 0);
    for (int i = 0; i < 50; i++)
        CHECK_EQ(ncclAllReduce(x, x, 1, ncclInt, i ? ncclMax : ncclSum, comm, stream), ncclSuccess);
    CHECK_EQ(cudaStreamSynchronize(stream), cudaSuccess);
    CHECK_EQ(get(x, 0), 6);
    CHECK_EQ(ncclCommFinalize(comm), ncclSuccess);
    CHECK_EQ(ncclCommDestroy(comm), ncclSuccess);
    return 0;
}

static void *run_thread(void *arg)
{
    struct thread *t = arg;

    t->rc = thread_body(t->r, t->index);
    return NULL;
}

static int one_thread_per_gpu(struct rank *r)
{
    struct thread threads[GPUS];
    pthread_t ids[GPUS];

    for (int i = 0; i < GPUS; i++) {
        threads[i] = (struct thread){.r = r, .index = i};
        CHECK_EQ(pthread_create(&ids[i], NULL, run_thread, &threads[i]), 0);
    }
    for (int i = 0; i < GPUS; i++) {
        pthread_join(ids[i], NULL);
        CHECK_EQ(threads[i].rc, 0);
    }
    return 0;
}

/* An error inside a group fails the whole group; no call of it runs, and the communicator stays usable. */
static int failed_group(struct rank *r)
{
    int *x = device_buffer(sizeof(int));

    CHECK_EQ(set(r, x, 0, 1), 0);
    CHECK_EQ(ncclGroupStart(), ncclSuccess);
    CHECK_EQ(ncclAllReduce(x, x, 1, ncclInt, ncclSum, r->comm, r->stream), ncclSuccess);
    CHECK_EQ(ncclSend(x, 1, ncclInt, r->size, r->comm, r->stream), ncclInvalidArgument);
    CHECK_EQ(ncclGroupEnd(), ncclInvalidArgument);
    CHECK_EQ(ncclGroupEnd(), ncclInvalidUsage); /* not in a group */
    CHECK_EQ(ncclAllReduce(x, x, 1, ncclInt, ncclSum, r->comm, r->stream), ncclSuccess);
    CHECK_EQ(cudaStreamSynchronize(r->stream), cudaSuccess);
    CHECK_EQ(get(x, 0), r->size);
    return 0;
}

#define AT(name, size, fn, flags)                                                                                      \
    static void name(void **state)                                                                                     \
    {                                                                                                                  \
        (void)state;                                                                                                   \
        run_ranks(size, fn, NULL, flags, NULL);                                                                        \
    }
AT(a_large_ring_of_4, 4, big_ring, 0)
AT(peers_in_any_order, 5, any_order, 0)
AT(a_chain_of_4, 4, chain, 0)
AT(one_side_grouped, 2, groups_of_other_shape, 0)
AT(collectives_and_messages_mixed, 3, mixed_group, 0)
AT(one_communicator_on_two_streams, 3, two_streams, 0)
AT(messages_to_itself, 2, self, 0)
AT(graphs_of_2, 2, replay, 0)
AT(graphs_of_3, 3, replay, 0)
AT(graphs_with_branches, 3, replay_of_branches, 0)
AT(graphs_of_nonblocking, 3, nonblocking_replay, RANKS_NO_COMM)
AT(nonblocking_groups_in_order, 3, nonblocking_ring, RANKS_NO_COMM)
AT(three_gpus_in_one_thread, 1, one_thread_many_gpus, RANKS_NO_COMM)
AT(three_gpus_in_each_of_two_processes, 2, one_thread_many_gpus, RANKS_NO_COMM)
AT(init_all_devices, 1, init_all, RANKS_NO_COMM)
AT(three_threads, 1, one_thread_per_gpu, RANKS_NO_COMM)
AT(errors_in_groups, 2, failed_group, 0)

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_large_ring_of_4),
        cmocka_unit_test(peers_in_any_order),
        cmocka_unit_test(a_chain_of_4),
        cmocka_unit_test(one_side_grouped),
        cmocka_unit_test(collectives_and_messages_mixed),
        cmocka_unit_test(one_communicator_on_two_streams),
        cmocka_unit_test(messages_to_itself),
        cmocka_unit_test(graphs_of_2),
        cmocka_unit_test(graphs_of_3),
        cmocka_unit_test(graphs_with_branches),
        cmocka_unit_test(graphs_of_nonblocking),
        cmocka_unit_test(nonblocking_groups_in_order),
        cmocka_unit_test(three_gpus_in_one_thread),
        cmocka_unit_test(three_gpus_in_each_of_two_processes),
        cmocka_unit_test(init_all_devices),
        cmocka_unit_test(three_threads),
        cmocka_unit_test(errors_in_groups),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
