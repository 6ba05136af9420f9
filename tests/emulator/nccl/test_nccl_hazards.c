/*
 * test_nccl_hazards.c - NCCL calls that block the host: the first collective until its peers call it, and work that
 * exceeds the FIFO. Rank 1 arrives late, in wall clock time; rank 0 measures its calls. Operations of two communicators
 * that wait for each other's SMs.
 */
#include "ranks.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

enum { LATE_MS = 600, KEPT_MS = 400 }; /* calls that do not block take a few ms, on a busy machine some ten */

static double now_ms(void)
{
    struct timespec t;

    clock_gettime(CLOCK_MONOTONIC, &t);
    return 1e3 * (double)t.tv_sec + 1e-6 * (double)t.tv_nsec;
}

static void arrive_late(const struct rank *r)
{
    if (r->rank == 1)
        usleep(LATE_MS * 1000);
}

/* Checks that a call of rank 0 was blocked if and only if expected. */
#define CHECK_KEPT(begin_ms, kept)                                                                                     \
    do {                                                                                                               \
        if (r->rank == 0)                                                                                              \
            CHECK((now_ms() - (begin_ms) > KEPT_MS) == (kept));                                                        \
    } while (0)

/* ---- first collectives ---- */

static int reduce_twice(struct rank *r)
{
    const bool *kept = r->arg;
    float *data;

    CHECK(cudaMalloc((void **)&data, sizeof(*data)) == cudaSuccess);
    for (int i = 0; i < 2; i++) {
        arrive_late(r);
        double begin_ms = now_ms();
        CHECK(ncclAllReduce(data, data, 1, ncclFloat, ncclSum, r->comm, r->stream) == ncclSuccess);
        CHECK_KEPT(begin_ms, *kept && i == 0);
    }
    CHECK(cudaStreamSynchronize(r->stream) == cudaSuccess);
    return 0;
}

static void test_first_collective(void **state)
{
    const bool yes = true, no = false;

    (void)state;
    run_ranks(2, reduce_twice, &no, 0, NULL);
    setenv("EMU_RUNTIME_CONNECT", "1", 1);
    run_ranks(2, reduce_twice, &yes, 0, NULL);
    setenv("NCCL_RUNTIME_CONNECT", "0", 1);
    run_ranks(2, reduce_twice, &no, 0, NULL);
    unsetenv("EMU_RUNTIME_CONNECT");
    unsetenv("NCCL_RUNTIME_CONNECT");
}

/* ---- work FIFO ---- */

/* Three groups of n messages in each direction: 48 bytes of work each; above 4096 bytes the work is in the FIFO. */
struct groups {
    int messages;
    bool kept;
};

static int exchange(struct rank *r, const struct groups *g, float *data)
{
    CHECK(ncclGroupStart() == ncclSuccess);
    for (int i = 0; i < g->messages; i++) {
        CHECK(ncclSend(data, 1, ncclFloat, 1 - r->rank, r->comm, r->stream) == ncclSuccess);
        CHECK(ncclRecv(data + 1, 1, ncclFloat, 1 - r->rank, r->comm, r->stream) == ncclSuccess);
    }
    CHECK(ncclGroupEnd() == ncclSuccess);
    return 0;
}

static int exchange_thrice(struct rank *r)
{
    const struct groups *g = r->arg;
    float *data;

    CHECK(cudaMalloc((void **)&data, 2 * sizeof(*data)) == cudaSuccess);
    arrive_late(r);
    for (int i = 0; i < 3; i++) {
        double begin_ms = now_ms();
        if (exchange(r, g, data))
            return 1;
        CHECK_KEPT(begin_ms, g->kept && i == 2);
    }
    CHECK(cudaStreamSynchronize(r->stream) == cudaSuccess);
    return 0;
}

static void test_work_fifo(void **state)
{
    const struct groups in_arguments = {80, false}, endless = {128, false}, full = {128, true};

    (void)state;
    run_ranks(2, exchange_thrice, &endless, 0, NULL);
    setenv("EMU_WORK_FIFO", "16384", 1); /* two groups of 6144 bytes, not three */
    run_ranks(2, exchange_thrice, &full, 0, NULL);
    run_ranks(2, exchange_thrice, &in_arguments, 0, NULL);
    unsetenv("EMU_WORK_FIFO");
}

/* ---- CTAs against SMs ---- */

static void sleep_on_stream(void *unused)
{
    (void)unused;
    usleep(50000);
}

/* Both ranks call the operations of two communicators in the same order, on two streams. The stream of the first
 * operation is late on rank 0, the other stream on rank 1. */
static int reduce_on_two_communicators(struct rank *r)
{
    cudaStream_t streams[2] = {r->stream};
    ncclComm_t comms[2] = {r->comm};
    cudaError_t state = cudaErrorNotReady;
    float *data;

    CHECK(cudaMalloc((void **)&data, 2 * sizeof(*data)) == cudaSuccess);
    CHECK(ncclCommSplit(r->comm, 0, r->rank, &comms[1], NULL) == ncclSuccess);
    CHECK(cudaStreamCreateWithFlags(&streams[1], cudaStreamNonBlocking) == cudaSuccess);
    CHECK(cudaLaunchHostFunc(streams[r->rank], sleep_on_stream, NULL) == cudaSuccess);
    for (int i = 0; i < 2; i++)
        CHECK(ncclAllReduce(data + i, data + i, 1, ncclFloat, ncclSum, comms[i], streams[i]) == ncclSuccess);
    for (int ms = 0; ms < 20 * KEPT_MS && state == cudaErrorNotReady; ms += 5) {
        usleep(5000);
        state = cudaStreamQuery(streams[0]) == cudaSuccess ? cudaStreamQuery(streams[1]) : cudaErrorNotReady;
    }
    CHECK_EQ(state, cudaSuccess);
    CHECK(ncclCommAbort(comms[1]) == ncclSuccess);
    return 0;
}

/* Without the order the ranks may wait for ever: tests/cli/test_hazards.py. */
static void test_communicators_share_sms(void **state)
{
    (void)state;
    run_ranks(2, reduce_on_two_communicators, NULL, RANKS_ABORT, NULL);
    setenv("EMU_SMS", "15", 1); /* each operation has 8 CTAs */
    setenv("NCCL_LAUNCH_ORDER_IMPLICIT", "1", 1);
    run_ranks(2, reduce_on_two_communicators, NULL, RANKS_ABORT, NULL);
    unsetenv("NCCL_LAUNCH_ORDER_IMPLICIT");
    setenv("EMU_SMS", "16", 1);
    run_ranks(2, reduce_on_two_communicators, NULL, RANKS_ABORT, NULL);
    unsetenv("EMU_SMS");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_first_collective),
        cmocka_unit_test(test_work_fifo),
        cmocka_unit_test(test_communicators_share_sms),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
