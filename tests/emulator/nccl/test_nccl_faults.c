/*
 * test_nccl_faults.c - error reports: different calls of ranks are reported on all ranks with both ranks' values;
 * injected faults take effect.
 */
#include "ranks.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdlib.h>
#include <time.h>

#include <cmocka.h>

/* Rank `odd` makes the second call, all others the first. */
struct call {
    enum { ALL_REDUCE, ALL_GATHER, BROADCAST, SEND_RECV } kind;
    size_t count;
    int dtype, op, root;
};
struct mismatch {
    int odd;
    struct call usual, other;
    const char *report;
};

static ncclResult_t issue(struct rank *r, const struct call *c, void *x)
{
    ncclDataType_t t = (ncclDataType_t)c->dtype;

    switch (c->kind) {
    case ALL_REDUCE:
        return ncclAllReduce(x, x, c->count, t, (ncclRedOp_t)c->op, r->comm, r->stream);
    case ALL_GATHER:
        return ncclAllGather((char *)x + 4096, x, c->count, t, r->comm, r->stream);
    case BROADCAST:
        return ncclBroadcast(x, x, c->count, t, c->root, r->comm, r->stream);
    default:
        return r->rank == 0   ? ncclSend(x, c->count, t, 1, r->comm, r->stream)
               : r->rank == 1 ? ncclRecv(x, c->count, t, 0, r->comm, r->stream)
                              : ncclSuccess;
    }
}

/* The stream fails, and on every rank the communicator reports the reason and rejects further operations. */
static int disagree(struct rank *r)
{
    const struct mismatch *m = r->arg;
    const struct call *c = r->rank == m->odd ? &m->other : &m->usual;
    bool involved = c->kind != SEND_RECV || r->rank < 2;
    float *x = device_buffer(1 << 16);
    ncclResult_t state = ncclSuccess;

    CHECK_EQ(issue(r, c, x), ncclSuccess);
    if (involved)
        CHECK_EQ(cudaStreamSynchronize(r->stream), cudaErrorLaunchFailure);
    for (int i = 0; i < 20000 && state == ncclSuccess; i++) {
        CHECK_EQ(ncclCommGetAsyncError(r->comm, &state), ncclSuccess);
        struct timespec nap = {.tv_nsec = 1000000};
        if (state == ncclSuccess)
            nanosleep(&nap, NULL);
    }
    CHECK_EQ(state, ncclInvalidUsage);
    CHECK(strstr(ncclGetLastError(r->comm), m->report) != NULL);
    CHECK_EQ(ncclAllReduce(x, x, 1, ncclFloat, ncclSum, r->comm, r->stream), ncclInvalidUsage);
    return 0;
}

static const struct mismatch mismatches[] = {
    {.odd = 2,
     .usual = {.kind = ALL_REDUCE, .count = 1024, .dtype = ncclFloat},
     .other = {.kind = ALL_REDUCE, .count = 1000, .dtype = ncclFloat},
     .report = "rank 0: all_reduce count 1024 float sum; rank 2: all_reduce count 1000 float sum"},
    {.odd = 1,
     .usual = {.kind = ALL_REDUCE, .count = 8, .dtype = ncclFloat},
     .other = {.kind = ALL_REDUCE, .count = 8, .dtype = ncclHalf, .op = ncclMax},
     .report = "rank 0: all_reduce count 8 float sum; rank 1: all_reduce count 8 half max"},
    {.odd = 0,
     .usual = {.kind = ALL_REDUCE, .count = 8, .dtype = ncclInt8},
     .other = {.kind = ALL_GATHER, .count = 8, .dtype = ncclInt8},
     .report = "rank 0: all_gather count 8 int8; rank 1: all_reduce count 8 int8 sum"},
    {.odd = 1,
     .usual = {.kind = BROADCAST, .count = 3, .dtype = ncclDouble, .root = 0},
     .other = {.kind = BROADCAST, .count = 3, .dtype = ncclDouble, .root = 2},
     .report = "rank 0: broadcast count 3 double root 0; rank 1: broadcast count 3 double root 2"},
    {.odd = 1,
     .usual = {.kind = SEND_RECV, .count = 16, .dtype = ncclFloat},
     .other = {.kind = SEND_RECV, .count = 15, .dtype = ncclFloat},
     .report = "rank 0: send count 16 float to rank 1; rank 1: recv count 15 float from rank 0"},
    {.odd = 0,
     .usual = {.kind = SEND_RECV, .count = 4, .dtype = ncclInt32},
     .other = {.kind = SEND_RECV, .count = 4, .dtype = ncclFloat},
     .report = "rank 0: send count 4 float to rank 1; rank 1: recv count 4 int32 from rank 0"},
};

static int times_in(const char *text, const char *part)
{
    int n = 0;

    for (const char *at = strstr(text, part); at != NULL; at = strstr(at + 1, part))
        n++;
    return n;
}

static void mismatches_are_reported(void **state)
{
    struct output out;

    (void)state;
    for (size_t i = 0; i < sizeof(mismatches) / sizeof(mismatches[0]); i++) {
        run_ranks(3, disagree, &mismatches[i], RANKS_ABORT, &out);
        assert_int_equal(times_in(out.text, mismatches[i].report), 1); /* once per job, not once per rank */
    }
}

/* Counts wrong elements on this rank: one bit flips on one rank. */
static int corrupted(struct rank *r)
{
    enum { N = 100 };
    unsigned char *x = device_buffer(N), host[N];
    int wrong = 0;

    for (int op = 0; op < 3; op++) {
        CHECK_EQ(ncclBroadcast(x, x, N, ncclUint8, 0, r->comm, r->stream), ncclSuccess);
        CHECK_EQ(cudaStreamSynchronize(r->stream), cudaSuccess);
        CHECK_EQ(cudaMemcpy(host, x, N, cudaMemcpyDeviceToHost), cudaSuccess);
        for (int i = 0; i < N; i++)
            wrong += host[i] != 0;
        CHECK_EQ(wrong, r->rank == 1 && op == 1);
        CHECK_EQ(cudaMemset(x, 0, N), cudaSuccess); /* not ordered with the rank's stream */
        CHECK_EQ(cudaDeviceSynchronize(), cudaSuccess);
        wrong = 0;
    }
    return 0;
}

static void corruption_reaches_one_operation_of_one_rank(void **state)
{
    (void)state;
    setenv("EMU_FAULT", "corrupt:rank=1,call=2", 1);
    run_ranks(2, corrupted, NULL, 0, NULL);
    unsetenv("EMU_FAULT");
}

static int third_fails(struct rank *r)
{
    float *x = device_buffer(sizeof(*x));

    for (int i = 1; i <= 4; i++) {
        ncclResult_t want = r->rank == 0 && i == 3 ? ncclSystemError : ncclSuccess;
        CHECK_EQ(ncclAllReduce(x, x, 1, ncclFloat, ncclSum, r->comm, r->stream), want);
        if (want != ncclSuccess) {
            CHECK(strstr(ncclGetLastError(r->comm), "ncclAllReduce : injected fault") != NULL);
            CHECK_EQ(ncclAllReduce(x, x, 1, ncclFloat, ncclSum, r->comm, r->stream), ncclSuccess);
        }
    }
    CHECK_EQ(cudaStreamSynchronize(r->stream), cudaSuccess);
    return 0;
}

static void injected_failures_are_returned(void **state)
{
    (void)state;
    setenv("EMU_FAULT", "fail:rank=0,name=ncclAllReduce,call=3", 1);
    run_ranks(2, third_fails, NULL, 0, NULL);
    unsetenv("EMU_FAULT");
}

/* The peer exits after the first operation: the second one hangs until this rank aborts, as with NCCL. */
static int peer_dies(struct rank *r)
{
    float *x = device_buffer(sizeof(*x));
    ncclResult_t state;

    CHECK_EQ(ncclAllReduce(x, x, 1, ncclFloat, ncclSum, r->comm, r->stream), ncclSuccess);
    CHECK_EQ(cudaStreamSynchronize(r->stream), cudaSuccess);
    if (r->rank == 1)
        _Exit(0);
    CHECK_EQ(ncclAllReduce(x, x, 1, ncclFloat, ncclSum, r->comm, r->stream), ncclSuccess);
    CHECK_EQ(cudaStreamQuery(r->stream), cudaErrorNotReady);
    CHECK_EQ(ncclCommGetAsyncError(r->comm, &state), ncclSuccess);
    CHECK_EQ(state, ncclSuccess);
    CHECK_EQ(ncclCommAbort(r->comm), ncclSuccess);
    CHECK_EQ(cudaStreamSynchronize(r->stream), cudaSuccess);
    r->comm = NULL;
    return 0;
}

static void a_dead_peer_hangs_until_abort(void **state)
{
    (void)state;
    run_ranks(2, peer_dies, NULL, 0, NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(mismatches_are_reported),
        cmocka_unit_test(corruption_reaches_one_operation_of_one_rank),
        cmocka_unit_test(injected_failures_are_returned),
        cmocka_unit_test(a_dead_peer_hangs_until_abort),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
