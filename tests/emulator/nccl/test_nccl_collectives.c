/*
 * test_nccl_collectives.c - every collective of the NCCL stand-in x every data type x every operator, in and out of
 * place, for several numbers of ranks, against the definition of each collective.
 */
#include "golden.h"
#include "ranks.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

enum kind { ALL_REDUCE, REDUCE, REDUCE_SCATTER, BROADCAST, BCAST, ALL_GATHER, ALLTOALL, GATHER, SCATTER, KINDS };

struct shape {
    const char *name;
    bool reduces, rooted, send_many, recv_many;
    enum { SAME, SEND_IN_RECV, RECV_IN_SEND, NEVER } in_place;
};
static const struct shape shapes[KINDS] = {
    [ALL_REDUCE] = {.name = "all_reduce", .reduces = true, .in_place = SAME},
    [REDUCE] = {.name = "reduce", .reduces = true, .rooted = true, .in_place = SAME},
    [REDUCE_SCATTER] = {.name = "reduce_scatter", .reduces = true, .send_many = true, .in_place = RECV_IN_SEND},
    [BROADCAST] = {.name = "broadcast", .rooted = true, .in_place = SAME},
    [BCAST] = {.name = "bcast", .rooted = true, .in_place = SAME},
    [ALL_GATHER] = {.name = "all_gather", .recv_many = true, .in_place = SEND_IN_RECV},
    [ALLTOALL] = {.name = "alltoall", .send_many = true, .recv_many = true, .in_place = NEVER},
    [GATHER] = {.name = "gather", .rooted = true, .recv_many = true, .in_place = SEND_IN_RECV},
    [SCATTER] = {.name = "scatter", .rooted = true, .send_many = true, .in_place = RECV_IN_SEND},
};

/* One collective call of one rank. */
struct one {
    enum kind kind;
    int dtype, op, root;
    bool in_place;
    size_t count;
    char *send, *recv; /* device memory */
};
enum { PREMULSUM = ncclNumOps, OPS, CANARY = 0xa5 };

enum { PERIOD = 3 };

/* Small integers, so that every sum and product is exact in float. */
static double value(int rank, size_t i)
{
    return (double)((i + (size_t)rank) % PERIOD + 1);
}

static double factor(int rank)
{
    return rank % 2 + 1;
}

/* Floating-point average: each value times 1/n (rounded to the type); sums in float or double. */
static double average(const struct rank *r, int dtype, size_t i)
{
    char share[8];
    double sum = 0, reciprocal;

    golden_store(share, 0, dtype, 1.0 / r->size);
    reciprocal = golden_load(share, 0, dtype);
    for (int s = 0; s < r->size; s++) {
        const double term = value(s, i) * reciprocal;
        sum = dtype == ncclFloat64 ? sum + term : (double)(float)(sum + (double)(float)term);
    }
    return sum;
}

static double combine(const struct rank *r, int op, int dtype, size_t i)
{
    double x = op == PREMULSUM ? value(0, i) * factor(0) : value(0, i);

    for (int s = 1; s < r->size; s++) {
        double v = value(s, i);
        x = op == ncclProd    ? x * v
            : op == ncclMax   ? (v > x ? v : x)
            : op == ncclMin   ? (v < x ? v : x)
            : op == PREMULSUM ? x + v * factor(s)
                              : x + v;
    }
    if (op != ncclAvg)
        return x;
    return dtype <= ncclUint64 ? (double)((int64_t)x / r->size) : average(r, dtype, i);
}

/* Element i of the receive buffer, by the definition of the collective. */
static double expected(const struct rank *r, const struct one *c, size_t i)
{
    size_t mine = (size_t)r->rank * c->count;

    switch (c->kind) {
    case REDUCE_SCATTER:
        return combine(r, c->op, c->dtype, mine + i);
    case BROADCAST:
    case BCAST:
        return value(c->root, i);
    case SCATTER:
        return value(c->root, mine + i);
    case ALL_GATHER:
    case GATHER:
        return value((int)(i / c->count), i % c->count);
    case ALLTOALL:
        return value((int)(i / c->count), mine + i % c->count);
    default:
        return combine(r, c->op, c->dtype, i);
    }
}

static ncclResult_t call(struct rank *r, const struct one *c, ncclRedOp_t op)
{
    ncclDataType_t t = (ncclDataType_t)c->dtype;

    switch (c->kind) {
    case ALL_REDUCE:
        return ncclAllReduce(c->send, c->recv, c->count, t, op, r->comm, r->stream);
    case REDUCE:
        return ncclReduce(c->send, c->recv, c->count, t, op, c->root, r->comm, r->stream);
    case REDUCE_SCATTER:
        return ncclReduceScatter(c->send, c->recv, c->count, t, op, r->comm, r->stream);
    case BROADCAST:
        return ncclBroadcast(c->send, c->recv, c->count, t, c->root, r->comm, r->stream);
    case BCAST:
        return ncclBcast(c->recv, c->count, t, c->root, r->comm, r->stream);
    case ALL_GATHER:
        return ncclAllGather(c->send, c->recv, c->count, t, r->comm, r->stream);
    case ALLTOALL:
        return ncclAlltoAll(c->send, c->recv, c->count, t, r->comm, r->stream);
    case GATHER:
        return ncclGather(c->send, c->recv, c->count, t, c->root, r->comm, r->stream);
    default:
        return ncclScatter(c->send, c->recv, c->count, t, c->root, r->comm, r->stream);
    }
}

static size_t send_elements(const struct rank *r, const struct one *c)
{
    return c->count * (shapes[c->kind].send_many ? (size_t)r->size : 1);
}

static size_t recv_elements(const struct rank *r, const struct one *c)
{
    return c->count * (shapes[c->kind].recv_many ? (size_t)r->size : 1);
}

static bool receives(const struct rank *r, const struct one *c)
{
    return (c->kind != REDUCE && c->kind != GATHER) || r->rank == c->root;
}

/* Fills the input of a rank: the values of one period, again and again. */
static void fill(const struct rank *r, const struct one *c, char *host)
{
    const size_t period = PERIOD * golden_bytes(c->dtype), total = send_elements(r, c) * golden_bytes(c->dtype);

    for (size_t i = 0; i < PERIOD && i < send_elements(r, c); i++)
        golden_store(host, i, c->dtype, value(r->rank, i));
    for (size_t done = period; done < total; done *= 2)
        memcpy(host + done, host, done < total - done ? done : total - done);
}

/* Places the buffers (in or out of place), and fills them with canary and input. */
static int prepare(struct rank *r, struct one *c, char *a, char *b, char *host, size_t capacity)
{
    size_t bytes = golden_bytes(c->dtype), mine = (size_t)r->rank * c->count * bytes;

    c->send = a;
    c->recv = b;
    if (c->in_place && shapes[c->kind].in_place == SAME)
        c->recv = a;
    else if (c->in_place && shapes[c->kind].in_place == SEND_IN_RECV)
        c->send = b + mine;
    else if (c->in_place && shapes[c->kind].in_place == RECV_IN_SEND)
        c->recv = a + mine;
    if (c->kind == BCAST)
        c->send = c->recv;
    CHECK_EQ(cudaMemset(a, CANARY, capacity), cudaSuccess);
    CHECK_EQ(cudaMemset(b, CANARY, capacity), cudaSuccess);
    fill(r, c, host);
    CHECK_EQ(cudaMemcpy(c->send, host, send_elements(r, c) * bytes, cudaMemcpyHostToDevice), cudaSuccess);
    CHECK_EQ(cudaDeviceSynchronize(), cudaSuccess);
    return 0;
}

static int say(const struct rank *r, const struct one *c, size_t i, double got, double want)
{
    printf("rank %d of %d: %s type %d op %d root %d count %zu%s: element %zu is %g, expected %g\n", r->rank, r->size,
           shapes[c->kind].name, c->dtype, c->op, c->root, c->count, c->in_place ? " in place" : "", i, got, want);
    return 1;
}

/* Compares the n elements from `first` with the definition. */
static int verify_each(struct rank *r, const struct one *c, const char *host, size_t first, size_t n)
{
    size_t bytes = golden_bytes(c->dtype);
    char want[8];

    for (size_t i = first; i < first + n; i++) {
        golden_store(want, 0, c->dtype, expected(r, c, i));
        if (memcmp(want, host + i * bytes, bytes) != 0)
            return say(r, c, i, golden_load(host, i, c->dtype), golden_load(want, 0, c->dtype));
    }
    return 0;
}

/* Compares the c->count elements from `first`, which are periodic: the first period with the definition, each other
 * element with the one a period earlier. */
static int verify_block(struct rank *r, const struct one *c, const char *host, size_t first)
{
    size_t bytes = golden_bytes(c->dtype), n = c->count < PERIOD ? c->count : PERIOD;
    const char *block = host + first * bytes;

    if (memcmp(block, block + n * bytes, (c->count - n) * bytes) != 0)
        n = c->count;
    return verify_each(r, c, host, first, n);
}

static int verify(struct rank *r, const struct one *c, char *host)
{
    size_t bytes = golden_bytes(c->dtype), n = recv_elements(r, c);

    CHECK_EQ(cudaMemcpy(host, c->recv, n * bytes + 1, cudaMemcpyDeviceToHost), cudaSuccess);
    for (size_t first = 0; receives(r, c) && first < n; first += c->count)
        CHECK_EQ(verify_block(r, c, host, first), 0);
    if (!receives(r, c) && !c->in_place) /* ranks that receive nothing write nothing */
        CHECK_EQ((unsigned char)host[0], CANARY);
    if (!c->in_place)
        CHECK_EQ((unsigned char)host[n * bytes], CANARY);
    return 0;
}

static int make_op(struct rank *r, const struct one *c, ncclRedOp_t *op)
{
    char scalar[8];

    *op = (ncclRedOp_t)c->op;
    if (c->op != PREMULSUM)
        return 0;
    golden_store(scalar, 0, c->dtype, factor(r->rank));
    CHECK_EQ(ncclRedOpCreatePreMulSum(op, scalar, (ncclDataType_t)c->dtype, ncclScalarHostImmediate, r->comm),
             ncclSuccess);
    return 0;
}

static int run_one(struct rank *r, struct one *c, char *a, char *b, char *host, size_t capacity)
{
    ncclRedOp_t op;

    CHECK_EQ(prepare(r, c, a, b, host, capacity), 0);
    CHECK_EQ(make_op(r, c, &op), 0);
    CHECK_EQ(call(r, c, op), ncclSuccess);
    if (c->op == PREMULSUM)
        CHECK_EQ(ncclRedOpDestroy(op, r->comm), ncclSuccess);
    CHECK_EQ(cudaStreamSynchronize(r->stream), cudaSuccess);
    return verify(r, c, host);
}

/* All operators; once for a collective without a reduction. */
static int run_ops(struct rank *r, struct one c, char *a, char *b, char *host, size_t capacity)
{
    int ops = shapes[c.kind].reduces ? OPS : 1;

    for (c.op = 0; c.op < ops; c.op++)
        CHECK_EQ(run_one(r, &c, a, b, host, capacity), 0);
    return 0;
}

static int everything(struct rank *r)
{
    const size_t most = 37, capacity = most * 8 * (size_t)r->size + 64;
    char *a = device_buffer(capacity), *b = device_buffer(capacity), *host = calloc(1, capacity);

    for (int k = 0; k < KINDS; k++)
        for (int dtype = 0; dtype < ncclNumTypes; dtype++)
            for (int in_place = 0; in_place <= (shapes[k].in_place != NEVER); in_place++)
                for (size_t count = 1; count <= most; count += most - 1) {
                    struct one c = {.kind = (enum kind)k, .dtype = dtype, .count = count, .in_place = in_place};
                    c.root = shapes[k].rooted ? (int)(count + (size_t)dtype) % r->size : 0;
                    CHECK_EQ(run_ops(r, c, a, b, host, capacity), 0);
                }
    free(host);
    return 0;
}

/* Three steps or more through the staging buffers of at most 512 KiB, so that each buffer is used again, and a
 * remainder. Another type for each collective and placement: steps depend on the type only by its size. */
static int large(struct rank *r)
{
    static const struct {
        int dtype;
        size_t count;
    } sizes[] = {{ncclFloat64, 200003}, {ncclFloat32, 400003}, {ncclInt8, 1600003}};
    const size_t capacity = 1600024 * (size_t)r->size + 64; /* 1600024: 200003 x 8 */
    char *a = device_buffer(capacity), *b = device_buffer(capacity), *host = calloc(1, capacity);

    for (int k = 0; k < KINDS; k++)
        for (int in_place = 0; in_place <= (shapes[k].in_place != NEVER); in_place++) {
            const int t = (k + in_place) % 3;
            struct one c = {
                .kind = (enum kind)k, .dtype = sizes[t].dtype, .count = sizes[t].count, .in_place = in_place};
            c.root = shapes[k].rooted ? r->size - 1 : 0;
            c.op = shapes[k].reduces ? ncclSum : 0;
            CHECK_EQ(run_one(r, &c, a, b, host, capacity), 0);
        }
    free(host);
    return 0;
}

static int zero_counts_do_nothing(struct rank *r)
{
    CHECK_EQ(ncclAllReduce(NULL, NULL, 0, ncclFloat, ncclSum, r->comm, r->stream), ncclSuccess);
    if (r->rank == 0) /* dropped: no wait for a peer */
        CHECK_EQ(ncclAllGather(NULL, NULL, 0, ncclFloat, r->comm, r->stream), ncclSuccess);
    CHECK_EQ(cudaStreamSynchronize(r->stream), cudaSuccess);
    return 0;
}

static int device_scalar(struct rank *r)
{
    float *x = device_buffer(sizeof(*x)), *scalar = device_buffer(sizeof(*scalar)), got = 2, f = 10;
    ncclRedOp_t op;

    CHECK_EQ(ncclRedOpCreatePreMulSum(&op, scalar, ncclFloat, ncclScalarDevice, r->comm), ncclSuccess);
    CHECK_EQ(cudaMemcpy(scalar, &f, sizeof(f), cudaMemcpyHostToDevice), cudaSuccess); /* read when the operation runs */
    CHECK_EQ(cudaMemcpy(x, &got, sizeof(got), cudaMemcpyHostToDevice), cudaSuccess);
    CHECK_EQ(ncclAllReduce(x, x, 1, ncclFloat, op, r->comm, r->stream), ncclSuccess);
    CHECK_EQ(cudaStreamSynchronize(r->stream), cudaSuccess);
    CHECK_EQ(cudaMemcpy(&got, x, sizeof(got), cudaMemcpyDeviceToHost), cudaSuccess);
    CHECK(got == 20.0f * (float)r->size);
    CHECK_EQ(ncclAllReduce(x, x, 1, ncclDouble, op, r->comm, r->stream), ncclInvalidArgument);
    CHECK_EQ(ncclRedOpDestroy(op, r->comm), ncclSuccess);
    CHECK_EQ(ncclAllReduce(x, x, 1, ncclFloat, op, r->comm, r->stream), ncclInvalidArgument);
    CHECK_EQ(ncclRedOpDestroy(op, r->comm), ncclInvalidArgument);
    CHECK_EQ(ncclRedOpDestroy(ncclSum, r->comm), ncclInvalidArgument);
    return 0;
}

#define AT(name, size, fn)                                                                                             \
    static void name(void **state)                                                                                     \
    {                                                                                                                  \
        (void)state;                                                                                                   \
        run_ranks(size, fn, NULL, 0, NULL);                                                                            \
    }
AT(everything_at_1, 1, everything)
AT(everything_at_2, 2, everything)
AT(everything_at_3, 3, everything)
AT(everything_at_5, 5, everything)
AT(large_at_2, 2, large)
AT(large_at_3, 3, large)
AT(counts_of_zero, 2, zero_counts_do_nothing)
AT(scalars_on_the_device, 3, device_scalar)

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(everything_at_1), cmocka_unit_test(everything_at_2),
        cmocka_unit_test(everything_at_3), cmocka_unit_test(everything_at_5),
        cmocka_unit_test(large_at_2),      cmocka_unit_test(large_at_3),
        cmocka_unit_test(counts_of_zero),  cmocka_unit_test(scalars_on_the_device),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
