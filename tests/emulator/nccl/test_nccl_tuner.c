/*
 * test_nccl_tuner.c - this program contains a tuner plugin, which the stand-in calls before each collective. The tests
 * check the offered choices, that the cheapest entry of the changed table runs and takes the time of README.md, and
 * that the simulated estimate equals the table.
 *
 * The profile of these tests: all on one node, 10 us and 4 GB/s; a call costs no host time. Times in us.
 */
#include "ranks.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdlib.h>
#include <unistd.h>

#include <cmocka.h>

enum { TREE, RING, NVLS = 4, PAT = 6, LL = 0, LL128, SIMPLE, ALGORITHMS = 7, PROTOCOLS = 3 };

static const char profile[] =
    "{\"name\": \"test\", \"gpus_per_node\": 8, \"launch_us\": 2, \"nccl_launch_us\": 0, \"kernel_us\": 5,"
    " \"memory_gbps\": 100, \"memory_bytes\": 1e10, \"sm_count\": 1, \"clock_khz\": 1000000,"
    " \"tflops\": {\"float32\": 1, \"float16\": 1, \"bfloat16\": 1, \"float64\": 1},"
    " \"intra\": {\"latency_us\": 10, \"gbps\": 4}, \"inter\": {\"latency_us\": 50, \"gbps\": 1}}";

static struct {
    int inits, asked, finalizes, function;
    size_t ranks, bytes;
    float costs[ALGORITHMS][PROTOCOLS];
    int algorithm, protocol; /* requested choice; -1: none */
} plugin = {.algorithm = -1};

static ncclResult_t init(void **context, uint64_t id, size_t ranks, size_t nodes, void *log, void *domains,
                         void *constants)
{
    (void)id, (void)nodes, (void)log, (void)domains, (void)constants;
    plugin.inits++;
    plugin.ranks = ranks;
    *context = &plugin;
    return ncclSuccess;
}

static ncclResult_t choose(void *context, int function, size_t bytes, int operations, float *costs, int algorithms,
                           int protocols, int registered, int *channels)
{
    (void)context, (void)operations, (void)registered, (void)channels;
    plugin.asked++;
    plugin.function = function;
    plugin.bytes = bytes;
    memcpy(plugin.costs, costs, sizeof(plugin.costs));
    for (int i = 0; plugin.algorithm >= 0 && i < algorithms * protocols; i++)
        if (i != plugin.algorithm * protocols + plugin.protocol)
            costs[i] = -1;
    return ncclSuccess;
}

static ncclResult_t finalize(void *context)
{
    (void)context;
    plugin.finalizes++;
    return ncclSuccess;
}

extern const struct tuner {
    const char *name;
    ncclResult_t (*init)(void **, uint64_t, size_t, size_t, void *, void *, void *);
    ncclResult_t (*choose)(void *, int, size_t, int, float *, int, int, int, int *);
    ncclResult_t (*finalize)(void *);
} ncclTunerPlugin_v5;
const struct tuner ncclTunerPlugin_v5 = {"test", init, choose, finalize};

#define CHECK_US(got, want)                                                                                            \
    do {                                                                                                               \
        double got_ = (got), want_ = (want);                                                                           \
        if (!(fabs(got_ - want_) < 0.01)) {                                                                            \
            printf("%s:%d: %s is %.3f us, expected %.3f\n", __FILE__, __LINE__, #got, got_, want_);                    \
            return 1;                                                                                                  \
        }                                                                                                              \
    } while (0)

static double reduces_us(struct rank *r, ncclComm_t comm, char *x, size_t n)
{
    cudaEvent_t event;

    if (cudaEventCreate(&event) != cudaSuccess || cudaEventRecord(event, r->stream) != cudaSuccess ||
        ncclAllReduce(x, x, n, ncclInt8, ncclMax, comm, r->stream) != ncclSuccess)
        return NAN;
    return stream_us(r->stream, event);
}

/* 1 MB on 2 ranks: 2 steps of 10 us, and 1 MB at 4 GB/s. */
static int forced_times(struct rank *r, ncclComm_t comm, char *x)
{
    const size_t n = 1000000;

    CHECK_US(reduces_us(r, comm, x, n), 20 + 250); /* also lines up the clocks */
    CHECK_US(reduces_us(r, comm, x, n), 20 + 250);
    plugin.algorithm = RING, plugin.protocol = LL;
    CHECK_US(reduces_us(r, comm, x, n), 0.4 * 20 + 250 / 0.25);
    plugin.algorithm = TREE, plugin.protocol = LL128;
    CHECK_US(reduces_us(r, comm, x, n), 0.75 * 0.7 * 20 + 250 / (0.8 * 0.9));
    plugin.algorithm = -1;
    CHECK_US(reduces_us(r, comm, x, n), 20 + 250);
    return 0;
}

static int offers(struct rank *r, ncclComm_t comm, char *x)
{
    CHECK_EQ(ncclAllReduce(x, x, 8, ncclInt32, ncclSum, comm, r->stream), ncclSuccess);
    CHECK_EQ(plugin.function, 4);
    CHECK_EQ(plugin.bytes, 32);
    CHECK_US(plugin.costs[RING][SIMPLE], 20.008); /* the modelled time */
    CHECK_US(plugin.costs[TREE][LL], 22.009);     /* above RING SIMPLE, although the modelled time is shorter */
    CHECK(plugin.costs[NVLS][SIMPLE] < 0 && plugin.costs[PAT][SIMPLE] < 0);
    CHECK_EQ(ncclAllGather(x, x + 64, 8, ncclInt32, comm, r->stream), ncclSuccess);
    CHECK_EQ(plugin.function, 2);
    CHECK_EQ(plugin.bytes, 64);
    CHECK(plugin.costs[TREE][SIMPLE] < 0 && plugin.costs[PAT][SIMPLE] > 0 && plugin.costs[PAT][LL] < 0);
    CHECK_EQ(ncclAlltoAll(x, x + 64, 1, ncclInt32, comm, r->stream), ncclSuccess);
    CHECK_EQ(plugin.function, 2); /* the tuner is not called for messages */
    CHECK_EQ(cudaStreamSynchronize(r->stream), cudaSuccess);
    return 0;
}

static int estimates(struct rank *r, ncclComm_t comm, char *x)
{
    ncclSimInfo_t info = NCCL_SIM_INFO_INITIALIZER;

    for (int forced = 0; forced <= 1; forced++) {
        plugin.algorithm = forced ? RING : -1, plugin.protocol = LL;
        CHECK_EQ(ncclGroupStart(), ncclSuccess);
        CHECK_EQ(ncclAllReduce(x, x, 1000000, ncclInt8, ncclMax, comm, r->stream), ncclSuccess);
        CHECK_EQ(ncclGroupSimulateEnd(&info), ncclSuccess);
        CHECK_US(info.estimatedTime, forced ? 0.4 * 20 + 1000 : 270);
    }
    CHECK_EQ(ncclGroupStart(), ncclSuccess);
    CHECK_EQ(ncclAlltoAll(x, x + 64, 1, ncclInt32, comm, r->stream), ncclSuccess);
    CHECK_EQ(ncclGroupSimulateEnd(&info), ncclSuccess);
    CHECK_US(info.estimatedTime, -1);
    return 0;
}

static int tuned(struct rank *r)
{
    char *x = device_buffer(1000000);
    ncclComm_t comm;

    setenv("NCCL_TUNER_PLUGIN", "STATIC_PLUGIN", 1);
    CHECK_EQ(ncclCommInitRank(&comm, r->size, r->id, r->rank), ncclSuccess);
    CHECK_EQ(plugin.inits, 1);
    CHECK_EQ(plugin.ranks, 2);
    CHECK_EQ(forced_times(r, comm, x), 0);
    CHECK_EQ(offers(r, comm, x), 0);
    CHECK_EQ(estimates(r, comm, x), 0);
    CHECK_EQ(ncclCommDestroy(comm), ncclSuccess);
    CHECK_EQ(plugin.finalizes, 1);
    return 0;
}

/* The injected fault, and a plugin that NCCL_TUNER_PLUGIN does not select. */
static int ignored_choice(struct rank *r)
{
    char *x = device_buffer(1000);
    ncclComm_t comm;

    setenv("NCCL_TUNER_PLUGIN", r->size == 2 ? "STATIC_PLUGIN" : "none", 1);
    setenv("EMU_NCCL_IGNORE", "LL", 1);
    CHECK_EQ(ncclCommInitRank(&comm, r->size, r->id, r->rank), ncclSuccess);
    plugin.algorithm = RING, plugin.protocol = LL;
    CHECK(reduces_us(r, comm, x, 4) > 0);
    CHECK_US(reduces_us(r, comm, x, 4), r->size == 2 ? 20.001 : 40.0015);
    CHECK_EQ(plugin.asked, r->size == 2 ? 2 : 0);
    CHECK_EQ(ncclCommDestroy(comm), ncclSuccess);
    return 0;
}

/* NCCL_ALGO and NCCL_PROTO, without a plugin. */
static int restricted_by_environment(struct rank *r)
{
    static const struct {
        const char *algorithm, *protocol;
        double expected_us;
    } rows[] = {{"Ring", "LL", 0.4 * 20 + 250 / 0.25},
                {"tree", "LL128", 0.75 * 0.7 * 20 + 250 / (0.8 * 0.9)},
                {"^Ring", "^LL,LL128", 0.75 * 20 + 250 / 0.8},
                {"Ring", "", 20 + 250},
                {"ring;allreduce:tree", "Broadcast:LL", 0.75 * 20 + 250 / 0.8},
                {"AllReduce:^Ring;Reduce:Ring", "^LL,LL128", 0.75 * 20 + 250 / 0.8}};
    static const struct {
        const char *algorithm, *error;
    } invalid[] = {{"Foo", "Unrecognized token \"Foo\" when parsing NCCL_ALGO=Foo"},
                   {"allreduce:ring;tree", "Unrecognized token \"tree\""},
                   {"foo:tree", "Unrecognized token \"foo:tree\""}};
    char *x = device_buffer(1000000);
    ncclComm_t comm;

    setenv("NCCL_TUNER_PLUGIN", "none", 1);
    CHECK_EQ(ncclCommInitRank(&comm, r->size, r->id, r->rank), ncclSuccess);
    CHECK(reduces_us(r, comm, x, 4) > 0); /* lines up the clocks */
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        setenv("NCCL_ALGO", rows[i].algorithm, 1);
        setenv("NCCL_PROTO", rows[i].protocol, 1);
        CHECK_US(reduces_us(r, comm, x, 1000000), rows[i].expected_us);
    }
    setenv("NCCL_ALGO", "NVLS", 1); /* this machine has none */
    CHECK_EQ(ncclAllReduce(x, x, 4, ncclInt8, ncclMax, comm, r->stream), ncclInvalidUsage);
    CHECK(strstr(ncclGetLastError(comm),
                 "no algorithm/protocol available for function AllReduce. NCCL_ALGO was set to NVLS"));
    for (size_t i = 0; i < sizeof(invalid) / sizeof(invalid[0]); i++) {
        ncclComm_t rejected = NULL;

        setenv("NCCL_ALGO", invalid[i].algorithm, 1);
        CHECK_EQ(ncclCommSplit(comm, 0, r->rank, &rejected, NULL), ncclInvalidUsage);
        CHECK(strstr(ncclGetLastError(NULL), invalid[i].error) != NULL);
    }
    CHECK_EQ(ncclCommDestroy(comm), ncclSuccess);
    return 0;
}

static int choose_differently(struct rank *r)
{
    char *x = device_buffer(1000);
    ncclComm_t comm;

    setenv("NCCL_TUNER_PLUGIN", "STATIC_PLUGIN", 1);
    CHECK_EQ(ncclCommInitRank(&comm, r->size, r->id, r->rank), ncclSuccess);
    plugin.algorithm = RING, plugin.protocol = r->rank == 0 ? LL : SIMPLE;
    CHECK_EQ(ncclAllReduce(x, x, 4, ncclInt8, ncclMax, comm, r->stream), ncclSuccess);
    CHECK(cudaStreamSynchronize(r->stream) != cudaSuccess);
    CHECK(strstr(ncclGetLastError(comm), "RING LL") != NULL);
    return 0;
}

static void cheapest_entry_runs(void **state)
{
    (void)state;
    run_ranks(2, tuned, NULL, RANKS_NO_COMM, NULL);
}

static void ignored_choices_do_not_run(void **state)
{
    (void)state;
    run_ranks(2, ignored_choice, NULL, RANKS_NO_COMM, NULL);
    run_ranks(4, ignored_choice, NULL, RANKS_NO_COMM, NULL);
}

static void environment_restricts_the_choice(void **state)
{
    (void)state;
    run_ranks(2, restricted_by_environment, NULL, RANKS_NO_COMM, NULL);
}

static void different_choices_are_reported(void **state)
{
    (void)state;
    run_ranks(2, choose_differently, NULL, RANKS_NO_COMM, NULL);
}

static int write_profile(void **state)
{
    (void)state;
    return use_profile(profile);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(cheapest_entry_runs),
        cmocka_unit_test(ignored_choices_do_not_run),
        cmocka_unit_test(environment_restricts_the_choice),
        cmocka_unit_test(different_choices_are_reported),
    };

    return cmocka_run_group_tests(tests, write_profile, drop_profile);
}
