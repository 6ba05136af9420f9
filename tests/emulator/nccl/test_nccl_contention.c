/*
 * test_nccl_contention.c - concurrent collectives on the same GPUs share the links; times must equal results computed
 * by hand.
 *
 * The profile of these tests: all on one node, 10 us and 4 GB/s, no host time of NCCL calls. 1 MB on 2 ranks: 2 steps
 * of 10 us, and 250 us on the links. Times in us.
 */
#include "ranks.h"

#include <dlfcn.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cmocka.h>

static const char profile[] =
    "{\"name\": \"test\", \"gpus_per_node\": 8, \"launch_us\": 2, \"nccl_launch_us\": 0, \"kernel_us\": 5,"
    " \"memory_gbps\": 100, \"memory_bytes\": 1e10, \"sm_count\": 10, \"clock_khz\": 1000000,"
    " \"sharing\": {\"collective_sms\": 2, \"message_sms\": 1, \"memory_bytes\": 1},"
    " \"tflops\": {\"float32\": 1, \"float16\": 1, \"bfloat16\": 1, \"float64\": 1},"
    " \"intra\": {\"latency_us\": 10, \"gbps\": 4}, \"inter\": {\"latency_us\": 50, \"gbps\": 1}}";

/* The same GPUs with two per node and one NIC: 50 us and 1 GB/s. One NCCL variant, without extra latency. */
static const char one_nic[] =
    "{\"name\": \"test\", \"gpus_per_node\": 2, \"nics_per_node\": 1, \"launch_us\": 2, \"nccl_launch_us\": 0,"
    " \"kernel_us\": 5, \"memory_gbps\": 100, \"memory_bytes\": 1e10, \"sm_count\": 10, \"clock_khz\": 1000000,"
    " \"sharing\": {\"collective_sms\": 2, \"message_sms\": 1, \"memory_bytes\": 1},"
    " \"tflops\": {\"float32\": 1, \"float16\": 1, \"bfloat16\": 1, \"float64\": 1},"
    " \"intra\": {\"latency_us\": 10, \"gbps\": 4}, \"inter\": {\"latency_us\": 50, \"gbps\": 1},"
    " \"nccl\": [{\"algorithm\": \"ring\", \"protocol\": \"Simple\", \"base_us\": 0, \"intra_us\": 0, \"inter_us\": 0,"
    " \"gbps\": 4, \"nic\": 1}]}";

enum { MB = 1000000, STREAMS = 3 };

#define CHECK_US(got, want)                                                                                            \
    do {                                                                                                               \
        double got_ = (got), want_ = (want);                                                                           \
        if (!(fabs(got_ - want_) < 0.01)) {                                                                            \
            printf("%s:%d: rank %d: %s takes %.3f us, expected %.3f\n", __FILE__, __LINE__, r->rank, #got, got_,       \
                   want_);                                                                                             \
            return 1;                                                                                                  \
        }                                                                                                              \
    } while (0)

struct lanes {
    ncclComm_t comms[STREAMS];
    cudaStream_t streams[STREAMS];
    char *x;
};

static int make_lanes(struct rank *r, struct lanes *l)
{
    l->x = device_buffer(4 * MB);
    for (int i = 0; i < STREAMS; i++) {
        CHECK_EQ(ncclCommSplit(r->comm, 0, r->rank, &l->comms[i], NULL), ncclSuccess);
        CHECK_EQ(cudaStreamCreateWithFlags(&l->streams[i], cudaStreamNonBlocking), cudaSuccess);
    }
    return 0;
}

static int drop_lanes(struct rank *r, struct lanes *l)
{
    for (int i = 0; i < STREAMS; i++) {
        CHECK_EQ(ncclCommDestroy(l->comms[i]), ncclSuccess);
        CHECK_EQ(cudaStreamDestroy(l->streams[i]), cudaSuccess);
    }
    CHECK_EQ(cudaFree(l->x), cudaSuccess);
    return 0;
}

/* Brings all ranks, streams and hosts to the same time. */
static int line_up(struct rank *r, const struct lanes *l)
{
    for (int i = 0; i < STREAMS; i++)
        CHECK_EQ(ncclAllReduce(l->x, l->x, 1, ncclInt8, ncclMax, l->comms[i], l->streams[0]), ncclSuccess);
    CHECK_EQ(cudaStreamSynchronize(l->streams[0]), cudaSuccess);
    return 0;
}

static int reduce(struct rank *r, const struct lanes *l, int lane, size_t bytes)
{
    CHECK_EQ(ncclAllReduce(l->x, l->x, bytes, ncclInt8, ncclMax, l->comms[lane], l->streams[lane]), ncclSuccess);
    return 0;
}

/* Size of each lane's collective (0: none), begun at the same time in this order; and the end of each. Alone: 20 +
 * size * 250 us. */
struct row {
    int order[STREAMS];
    double mb[STREAMS], ends_us[STREAMS];
};

static const struct row rows[] = {
    {{0, 1, 2}, {1, 0, 0}, {270, 0, 0}},
    {{0, 1, 2}, {1, 1, 0}, {520, 520, 0}},     /* half of the links each                          */
    {{0, 1, 2}, {1, 2, 0}, {520, 770, 0}},     /* the shorter ends, then the longer has the links alone */
    {{1, 0, 2}, {1, 2, 0}, {520, 770, 0}},     /* the order does not matter */
    {{2, 0, 1}, {1, 2, 4}, {770, 1270, 1770}}, /* a third, a half, all */
};

static int at_once(struct rank *r)
{
    struct lanes l;
    cudaEvent_t start, ends[STREAMS];
    float ms;

    CHECK_EQ(make_lanes(r, &l), 0);
    for (const struct row *row = rows; row < rows + sizeof(rows) / sizeof(*rows); row++) {
        CHECK_EQ(line_up(r, &l), 0);
        CHECK_EQ(cudaEventCreate(&start), cudaSuccess);
        CHECK_EQ(cudaEventRecord(start, l.streams[0]), cudaSuccess);
        for (int i = 0; i < STREAMS; i++)
            if (row->mb[row->order[i]] > 0)
                CHECK_EQ(reduce(r, &l, row->order[i], (size_t)(row->mb[row->order[i]] * MB)), 0);
        for (int i = 0; i < STREAMS; i++) {
            CHECK_EQ(cudaEventCreate(&ends[i]), cudaSuccess);
            CHECK_EQ(cudaEventRecord(ends[i], l.streams[i]), cudaSuccess);
        }
        CHECK_EQ(cudaDeviceSynchronize(), cudaSuccess);
        for (int i = 0; i < STREAMS; i++)
            if (row->mb[i] > 0) {
                CHECK_EQ(cudaEventElapsedTime(&ms, start, ends[i]), cudaSuccess);
                CHECK_US(ms * 1e3, row->ends_us[i]);
            }
        for (int i = 0; i < STREAMS; i++)
            CHECK_EQ(cudaEventDestroy(ends[i]), cudaSuccess);
        CHECK_EQ(cudaEventDestroy(start), cudaSuccess);
    }
    return drop_lanes(r, &l);
}

/* Operations of one communicator keep their order on two streams, and do not contend with each other. */
static int keep_order(struct rank *r, const struct lanes *l, ncclComm_t comm, double alone_us)
{
    cudaEvent_t start, ends[2];
    float ms;

    CHECK_EQ(line_up(r, l), 0);
    CHECK_EQ(cudaEventCreate(&start), cudaSuccess);
    CHECK_EQ(cudaEventRecord(start, l->streams[0]), cudaSuccess);
    for (int i = 0; i < 2; i++) {
        CHECK_EQ(cudaEventCreate(&ends[i]), cudaSuccess);
        CHECK_EQ(ncclAllReduce(l->x, l->x, MB, ncclInt8, ncclMax, comm, l->streams[i]), ncclSuccess);
        CHECK_EQ(cudaEventRecord(ends[i], l->streams[i]), cudaSuccess);
    }
    CHECK_EQ(cudaDeviceSynchronize(), cudaSuccess);
    for (int i = 0; i < 2; i++) {
        CHECK_EQ(cudaEventElapsedTime(&ms, start, ends[i]), cudaSuccess);
        CHECK_US(ms * 1e3, (i + 1) * alone_us);
        CHECK_EQ(cudaEventDestroy(ends[i]), cudaSuccess);
    }
    CHECK_EQ(cudaEventDestroy(start), cudaSuccess);
    return 0;
}

static int in_order(struct rank *r)
{
    struct lanes l;

    CHECK_EQ(make_lanes(r, &l), 0);
    CHECK_EQ(keep_order(r, &l, l.comms[0], 270), 0);
    return drop_lanes(r, &l);
}

/* A host that waits for its peer without a CUDA call: the issued operations still complete. */
static int host_waits_without_cuda(struct rank *r)
{
    struct lanes l;

    CHECK_EQ(make_lanes(r, &l), 0);
    CHECK_EQ(line_up(r, &l), 0);
    CHECK_EQ(reduce(r, &l, 0, MB), 0);
    for (int i = 0; i < 70 && l.x != NULL; i++)
        usleep(r->rank == 0 ? 20000 : 0);
    CHECK_EQ(cudaDeviceSynchronize(), cudaSuccess);
    return drop_lanes(r, &l);
}

/* Time of a message to `to` and one from `from` (-1: none), starting on all ranks at the same time. */
static double send_us(struct rank *r, const struct lanes *l, int to, int from)
{
    cudaEvent_t start;

    if (line_up(r, l) != 0 || cudaEventCreate(&start) != cudaSuccess)
        return -1;
    cudaEventRecord(start, l->streams[0]);
    ncclGroupStart();
    if (to >= 0)
        ncclSend(l->x, MB, ncclInt8, to, l->comms[0], l->streams[0]);
    if (from >= 0)
        ncclRecv(l->x + MB, MB, ncclInt8, from, l->comms[0], l->streams[0]);
    ncclGroupEnd();
    return stream_us(l->streams[0], start);
}

/* Four ranks on two nodes, two on each NIC. */
static int on_one_nic(struct rank *r)
{
    const int node = r->rank / 2, partner = (r->rank + 2) % 4;
    struct lanes l;
    cudaEvent_t start;
    ncclComm_t pair;

    CHECK_EQ(make_lanes(r, &l), 0);
    CHECK_US(send_us(r, &l, node == 0 ? partner : -1, node == 1 ? partner : -1), 50 + 2000); /* half of the NIC each */
    CHECK_US(send_us(r, &l, r->rank < 3 ? r->rank + 1 : -1, r->rank - 1), r->rank % 3 == 0 ? 10 + 1000 : 50 + 1000);
    CHECK_EQ(ncclCommSplit(r->comm, r->rank % 2, r->rank, &pair, NULL), ncclSuccess);
    CHECK_EQ(line_up(r, &l), 0);
    CHECK_EQ(cudaEventCreate(&start), cudaSuccess);
    CHECK_EQ(cudaEventRecord(start, l.streams[0]), cudaSuccess);
    CHECK_EQ(ncclAllReduce(l.x, l.x, MB, ncclInt8, ncclMax, pair, l.streams[0]), ncclSuccess);
    CHECK_US(stream_us(l.streams[0], start), 2000); /* alone 1 MB at 1 GB/s; the other pair sends 1 MB too */
    CHECK_EQ(keep_order(r, &l, pair, 2000), 0);
    CHECK_EQ(ncclCommDestroy(pair), ncclSuccess);
    return drop_lanes(r, &l);
}

struct gate {
    atomic_int waiting, open;
};

/* As on_one_nic, after a barrier in shared memory: the second pair has polled for long when the first pair arrives, which
 * waits for one pause only. The second pair notices the end of the barrier 30 ms later. */
static int after_a_barrier(struct rank *r)
{
    struct gate *gate = *(struct gate *const *)r->arg;
    void (*emu_host_pauses)(void);
    struct lanes l;
    cudaEvent_t start;
    ncclComm_t pair;

    *(void **)&emu_host_pauses = dlsym(RTLD_DEFAULT, "emu_host_pauses"); /* ../engine.h */
    CHECK(emu_host_pauses != NULL);
    CHECK_EQ(make_lanes(r, &l), 0);
    CHECK_EQ(ncclCommSplit(r->comm, r->rank % 2, r->rank, &pair, NULL), ncclSuccess);
    CHECK_EQ(line_up(r, &l), 0);
    CHECK_EQ(cudaEventCreate(&start), cudaSuccess);
    for (int i = 0; r->rank % 2 == 1 && i < 20; i++) {
        emu_host_pauses();
        usleep(200);
    }
    atomic_fetch_add(&gate->waiting, r->rank % 2);
    while (atomic_load(r->rank % 2 == 1 ? &gate->open : &gate->waiting) < 2)
        usleep(100);
    if (r->rank % 2 == 0)
        emu_host_pauses();
    atomic_fetch_add(&gate->open, 1 - r->rank % 2);
    usleep(r->rank % 2 * 30000);
    CHECK_EQ(cudaEventRecord(start, l.streams[0]), cudaSuccess);
    CHECK_EQ(ncclAllReduce(l.x, l.x, MB, ncclInt8, ncclMax, pair, l.streams[0]), ncclSuccess);
    CHECK_US(stream_us(l.streams[0], start), 2000);
    CHECK_EQ(ncclCommDestroy(pair), ncclSuccess);
    return drop_lanes(r, &l);
}

/* Four GPUs of one process, two on each NIC. The first and second GPU of a node communicate with those of the other
 * node. The second pair sends twice as much, half of it after the first pair has ended. */
enum { GPUS = 4 };

static int make_pairs(struct rank *r, int n, ncclComm_t all[GPUS], ncclComm_t pair[GPUS])
{
    CHECK_EQ(ncclGroupStart(), ncclSuccess);
    for (int g = 0; g < n; g++) {
        CHECK_EQ(cudaSetDevice(n * r->rank + g), cudaSuccess);
        CHECK_EQ(ncclCommInitRank(&all[g], GPUS, r->id, n * r->rank + g), ncclSuccess);
    }
    CHECK_EQ(ncclGroupEnd(), ncclSuccess);
    CHECK_EQ(ncclGroupStart(), ncclSuccess);
    for (int g = 0; g < n; g++)
        CHECK_EQ(ncclCommSplit(all[g], g % 2, n * r->rank + g, &pair[g], NULL), ncclSuccess);
    CHECK_EQ(ncclGroupEnd(), ncclSuccess);
    return 0;
}

static int reduce_all_at_once(struct rank *r, int n, char **x, ncclComm_t *comms, cudaStream_t *s,
                              const size_t bytes[2])
{
    CHECK_EQ(ncclGroupStart(), ncclSuccess);
    for (int g = 0; g < n; g++)
        CHECK_EQ(ncclAllReduce(x[g], x[g], bytes[g % 2], ncclInt8, ncclMax, comms[g], s[g]), ncclSuccess);
    CHECK_EQ(ncclGroupEnd(), ncclSuccess);
    return 0;
}

static int gpus_of_a_process(struct rank *r)
{
    static const size_t least[2] = {1, 1}, much[2] = {MB, 2 * MB};
    const int n = GPUS / r->size;
    ncclComm_t all[GPUS], pair[GPUS];
    cudaStream_t s[GPUS];
    cudaEvent_t start[GPUS], end[GPUS];
    char *x[GPUS];
    float ms;

    CHECK_EQ(make_pairs(r, n, all, pair), 0);
    for (int g = 0; g < n; g++) {
        CHECK_EQ(cudaSetDevice(n * r->rank + g), cudaSuccess);
        x[g] = device_buffer(2 * MB);
        CHECK_EQ(cudaStreamCreateWithFlags(&s[g], cudaStreamNonBlocking), cudaSuccess);
        CHECK_EQ(cudaEventCreate(&start[g]), cudaSuccess);
        CHECK_EQ(cudaEventCreate(&end[g]), cudaSuccess);
    }
    CHECK_EQ(reduce_all_at_once(r, n, x, all, s, least), 0);
    for (int g = 0; g < n; g++) {
        CHECK_EQ(cudaStreamSynchronize(s[g]), cudaSuccess);
        CHECK_EQ(cudaEventRecord(start[g], s[g]), cudaSuccess);
    }
    CHECK_EQ(reduce_all_at_once(r, n, x, pair, s, much), 0);
    for (int g = 0; g < n; g++)
        CHECK_EQ(cudaEventRecord(end[g], s[g]), cudaSuccess);
    for (int g = 0; g < n; g++) {
        CHECK_EQ(cudaEventSynchronize(end[g]), cudaSuccess);
        CHECK_EQ(cudaEventElapsedTime(&ms, start[g], end[g]), cudaSuccess);
        CHECK_US(ms * 1e3, 2000 + g % 2 * 1000);
        CHECK_EQ(cudaEventDestroy(start[g]), cudaSuccess);
        CHECK_EQ(cudaEventDestroy(end[g]), cudaSuccess);
        CHECK_EQ(cudaStreamDestroy(s[g]), cudaSuccess);
        CHECK_EQ(cudaFree(x[g]), cudaSuccess);
        CHECK_EQ(ncclCommDestroy(pair[g]), ncclSuccess);
        CHECK_EQ(ncclCommDestroy(all[g]), ncclSuccess);
    }
    return 0;
}

static int joins(struct rank *r)
{
    CHECK_EQ(r->comm != NULL, 1);
    return 0;
}

static void ranks_without_a_common_timeline_are_reported(void **state)
{
    static const char warning[] = "emulated GPUs: the ranks of a communicator are on several hosts or in several jobs";
    struct output out;

    (void)state;
    run_ranks(2, joins, NULL, RANKS_OF_JOBS, &out);
    assert_non_null(strstr(out.text, warning));
    assert_null(strstr(strstr(out.text, warning) + 1, warning));
    run_ranks(2, joins, NULL, 0, &out);
    assert_null(strstr(out.text, warning));
}

static void links_are_shared(void **state)
{
    (void)state;
    run_ranks(2, at_once, NULL, 0, NULL);
    run_ranks(2, in_order, NULL, 0, NULL);
}

static void a_nic_is_shared(void **state)
{
    struct gate *gate = mmap(NULL, sizeof(*gate), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);

    (void)state;
    assert_true(gate != MAP_FAILED);
    run_ranks(4, on_one_nic, NULL, 0, NULL);
    run_ranks(4, after_a_barrier, &gate, 0, NULL);
    run_ranks(2, gpus_of_a_process, NULL, RANKS_NO_COMM, NULL);
    run_ranks(1, gpus_of_a_process, NULL, RANKS_NO_COMM, NULL);
}

static void unreported_host_wait_does_not_hang(void **state)
{
    (void)state;
    run_ranks(2, host_waits_without_cuda, NULL, 0, NULL);
}

static int write_profile(void **state)
{
    (void)state;
    return use_profile(profile);
}

static int write_one_nic(void **state)
{
    (void)state;
    return use_profile(one_nic);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(links_are_shared),
        cmocka_unit_test(unreported_host_wait_does_not_hang),
    };
    const struct CMUnitTest nics[] = {cmocka_unit_test(a_nic_is_shared),
                                      cmocka_unit_test(ranks_without_a_common_timeline_are_reported)};
    const int failed = cmocka_run_group_tests(tests, write_profile, drop_profile);

    return failed + cmocka_run_group_tests(nics, write_one_nic, drop_profile);
}
