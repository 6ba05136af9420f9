/*
 * test_nccl_profiler.c - this program contains a profiler plugin, which the stand-in calls as NCCL does: the plugin
 * receives each operation while its mask requests events, and no others.
 */
#include "ranks.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

struct received {
    int inits, finalizes, collectives, messages;
    int nodes, ranks, rank, channels;
    char algorithm[16], protocol[16], function[32];
    int *mask;
};

static struct received received;

static ncclResult_t init(void **context, uint64_t id, int *mask, const char *name, int nodes, int ranks, int rank,
                         void (*log)(int, unsigned long, const char *, int, const char *, ...))
{
    (void)id, (void)name, (void)log;
    received.inits++;
    received.mask = mask;
    received.nodes = nodes;
    received.ranks = ranks;
    received.rank = rank;
    *context = &received;
    *mask = 0;
    return ncclSuccess;
}

/* Reads the event by byte offsets, because the layout is a binary interface. */
static ncclResult_t start(void *context, void **handle, const unsigned char *event)
{
    uint64_t type;
    const char *text;

    (void)context;
    *handle = NULL;
    memcpy(&type, event, sizeof(type));
    if (type == 4) {
        received.messages++;
        received.channels = event[60];
        return ncclSuccess;
    }
    received.collectives++;
    received.channels = event[80];
    memcpy(&text, event + 32, sizeof(text));
    snprintf(received.function, sizeof(received.function), "%s", text);
    memcpy(&text, event + 88, sizeof(text));
    snprintf(received.algorithm, sizeof(received.algorithm), "%s", text);
    memcpy(&text, event + 96, sizeof(text));
    snprintf(received.protocol, sizeof(received.protocol), "%s", text);
    return ncclSuccess;
}

static ncclResult_t stop(void *handle)
{
    (void)handle;
    return ncclSuccess;
}

static ncclResult_t change(void *handle, int state, void *arguments)
{
    (void)handle, (void)state, (void)arguments;
    return ncclSuccess;
}

static ncclResult_t finalize(void *context)
{
    (void)context;
    received.finalizes++;
    return ncclSuccess;
}

extern const struct plugin {
    const char *name;
    ncclResult_t (*init)(void **, uint64_t, int *, const char *, int, int, int,
                         void (*)(int, unsigned long, const char *, int, const char *, ...));
    ncclResult_t (*start)(void *, void **, const unsigned char *);
    ncclResult_t (*stop)(void *);
    ncclResult_t (*state)(void *, int, void *);
    ncclResult_t (*finalize)(void *);
} ncclProfiler_v5;
const struct plugin ncclProfiler_v5 = {"test", init, start, stop, change, finalize};

static int three_sums_and_an_exchange(struct rank *r, ncclComm_t comm)
{
    int *x = device_buffer(64 * sizeof(*x)), *y = device_buffer(64 * sizeof(*y));

    CHECK_EQ(ncclAllReduce(x, x, 1, ncclInt, ncclSum, comm, r->stream), ncclSuccess);
    CHECK_EQ(received.collectives, 0); /* not requested yet */
    *received.mask = 2 | 4;
    CHECK_EQ(ncclAllReduce(x, x, 1, ncclInt, ncclSum, comm, r->stream), ncclSuccess);
    CHECK_EQ(ncclGroupStart(), ncclSuccess);
    CHECK_EQ(ncclReduce(x, y, 1, ncclInt, ncclSum, 0, comm, r->stream), ncclSuccess);
    CHECK_EQ(ncclSend(x, 1, ncclInt, (r->rank + 1) % r->size, comm, r->stream), ncclSuccess);
    CHECK_EQ(ncclRecv(y, 1, ncclInt, (r->rank + r->size - 1) % r->size, comm, r->stream), ncclSuccess);
    CHECK_EQ(received.collectives, 1); /* reported when the group is launched */
    CHECK_EQ(ncclGroupEnd(), ncclSuccess);
    *received.mask = 0;
    CHECK_EQ(ncclAllReduce(x, x, 1, ncclInt, ncclSum, comm, r->stream), ncclSuccess);
    CHECK_EQ(cudaStreamSynchronize(r->stream), cudaSuccess);
    return 0;
}

static int receives_events(struct rank *r)
{
    ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
    ncclComm_t comm;

    config.maxCTAs = 3;
    setenv("NCCL_PROFILER_PLUGIN", "STATIC_PLUGIN", 1);
    CHECK_EQ(ncclCommInitRankConfig(&comm, r->size, r->id, r->rank, &config), ncclSuccess);
    CHECK_EQ(received.inits, 1);
    CHECK_EQ(received.ranks, r->size);
    CHECK_EQ(received.rank, r->rank);
    CHECK_EQ(three_sums_and_an_exchange(r, comm), 0);
    CHECK_EQ(received.collectives, 2);
    CHECK_EQ(received.messages, 2);
    CHECK_EQ(received.channels, 3);
    CHECK(strcmp(received.function, "Reduce") == 0);
    CHECK(strcmp(received.algorithm, "RING") == 0);
    CHECK(strcmp(received.protocol, "SIMPLE") == 0);
    CHECK_EQ(ncclCommDestroy(comm), ncclSuccess);
    CHECK_EQ(received.finalizes, 1);
    return 0;
}

static int is_not_called(struct rank *r)
{
    ncclComm_t comm;

    setenv("NCCL_PROFILER_PLUGIN", "none", 1);
    CHECK_EQ(ncclCommInitRank(&comm, r->size, r->id, r->rank), ncclSuccess);
    CHECK_EQ(received.inits, 0);
    CHECK_EQ(ncclCommDestroy(comm), ncclSuccess);
    CHECK_EQ(received.finalizes, 0);
    return 0;
}

static void plugin_receives_requested_events(void **state)
{
    (void)state;
    run_ranks(3, receives_events, NULL, RANKS_NO_COMM, NULL);
}

static void unselected_plugin_is_not_called(void **state)
{
    (void)state;
    run_ranks(2, is_not_called, NULL, RANKS_NO_COMM, NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(plugin_receives_requested_events),
        cmocka_unit_test(unselected_plugin_is_not_called),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
