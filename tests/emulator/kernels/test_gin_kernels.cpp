/*
 * test_gin_kernels.cpp - busbar's kernels on NCCL's GIN, run by processes with shared memory whose proxies play an
 * adverse network: results, and what a kernel that misses one of GIN's rules does.
 */
#include "host_nccl_device.h"

#define BB_MULTIMEM_BARRIER false
template <typename T> static void bb_multimem_reduce(const ncclDevComm &, ncclWindow_t, size_t, size_t) /* not run */
{
}
#include "collectives/ops/device_kernels.cuh"
#include "device_structs.h"

#include <algorithm>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

extern "C" {
#include "child.h"
#include <cmocka.h>
}

enum { RANKS = 4, CTAS = 3, THREADS = 64, WINDOW = 1 << 17, RECV = WINDOW / 2, LAUNCHES = 2, GUARD = 64 };
static const size_t STRIDE = (size_t)1 << 32;

typedef void body_function(const void *args);

/* reduces: all_reduce of `slice` floats; else alltoall of slices of `slice` bytes. */
struct test {
    body_function *body = NULL;
    int node_ranks = 1;
    bool hybrid = false, reduces = false, in_place = false, element_wise = false;
    size_t slice = 0, shift = 0; /* the buffers begin `shift` bytes after a multiple of 16 bytes */
    int64_t late_ns[RANKS] = {};
    int late_launch_us = 0; /* of rank 1 */
    char *windows = NULL, *barriers = NULL, *signals = NULL;
};

static char *shared_memory()
{
    void *flat = mmap(NULL, RANKS * STRIDE, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);

    assert_true(flat != MAP_FAILED);
    return static_cast<char *>(flat);
}

static time_t begin;

/* A launch whose peers never come ends after two seconds. */
static bool stops()
{
    return time(NULL) > begin + 1;
}

struct rank {
    struct en_gin *gin;
    struct en_lsa windows, barriers;
    struct bb_device_args args;
};

static struct en_lsa lsa_of(const struct test *t, char *flat, int rank)
{
    const int first = rank / t->node_ranks * t->node_ranks;

    return (struct en_lsa){flat + (size_t)first * STRIDE, 1, 0, rank - first, t->node_ranks, rank, RANKS,
                           {flat, STRIDE, WINDOW}};
}

/* As bb_device_scratch_bytes(). */
static size_t scratch_bytes(size_t bytes)
{
    return (bytes + 15) / 16 * 16 + 16 * (CTAS * RANKS + 1);
}

static void rank_open(struct rank *r, const struct test *t, int rank)
{
    struct en_gin_setup s = {rank, RANKS, t->node_ranks,           2 * CTAS,
                             CTAS, CTAS,  {t->signals, STRIDE, 0}, t->late_ns[rank]};

    s.memory.bytes = en_gin_bytes(&s);
    *r = {};
    r->gin = en_gin_new(&s);
    r->windows = lsa_of(t, t->windows, rank);
    r->barriers = lsa_of(t, t->barriers, rank);
    r->args.window = static_cast<ncclWindow_t>(en_new_window(&r->windows, NULL));
    en_write_device_comm(&r->args.comm, &r->barriers, NULL, CTAS, NULL, NULL);
    en_gin_write(r->gin, &r->args.comm);
    r->args.send = t->shift;
    r->args.recv = t->in_place ? r->args.send : RECV + t->shift;
    r->args.count = t->slice;
    r->args.dtype = t->reduces ? BB_FLOAT : BB_UINT8;
    r->args.element_bytes = t->reduces ? 4 : 1;
    r->args.hybrid = t->hybrid;
    r->args.element_wise = t->element_wise;
    r->args.scratch = WINDOW - scratch_bytes(t->slice * 4);
}

static void rank_launch(const struct rank *r, body_function *body)
{
    struct host_gpu_launch l = {};

    l.name = "under test";
    l.grid = dim3(CTAS);
    l.block = dim3(THREADS);
    l.body = body;
    l.args = &r->args;
    l.is_stopping = stops;
    (void)host_gpu_run(&l);
}

/* The slice of rank s for rank r in launch n contains bytes of this value. */
static char value(int s, int r, int n)
{
    return (char)(1 + 16 * s + r + 64 * n);
}

static void fill_send(const struct test *t, char *send, int rank, int n)
{
    for (int to = 0; to < RANKS && !t->reduces; to++)
        memset(send + (size_t)to * t->slice, value(rank, to, n), t->slice);
    for (size_t i = 0; i < t->slice && t->reduces; i++)
        reinterpret_cast<float *>(send)[i] = (float)((i * 7 + (size_t)(rank * 5 + n)) % 100);
}

static int count_wrong_elements(const struct test *t, const char *recv, int rank, int n)
{
    int wrong = 0;

    for (int from = 0; from < RANKS && !t->reduces; from++)
        for (size_t i = 0; i < t->slice; i++)
            wrong += recv[(size_t)from * t->slice + i] != value(from, rank, n);
    for (size_t i = 0; i < t->slice && t->reduces; i++) {
        float sum = 0;
        for (int from = 0; from < RANKS; from++)
            sum += (float)((i * 7 + (size_t)(from * 5 + n)) % 100);
        wrong += reinterpret_cast<const float *>(recv)[i] != sum;
    }
    return wrong;
}

/* Number of bytes that are not 0 in an area of GUARD bytes. */
static int count_overwritten(const char *area)
{
    return (int)(GUARD - std::count(area, area + GUARD, 0));
}

/* Runs the collective twice. After each the send buffer is overwritten, which must not change what arrived. */
static int run_rank(const struct test *t, int rank)
{
    char *window = t->windows + (size_t)rank * STRIDE;
    const size_t bytes = t->reduces ? 4 * t->slice : RANKS * t->slice;
    struct rank r;
    int wrong = 0;

    begin = time(NULL);
    rank_open(&r, t, rank);
    char *send = window + r.args.send, *recv = window + r.args.recv;
    for (int n = 0; n < LAUNCHES; n++) {
        if (rank == 1)
            usleep((unsigned)t->late_launch_us);
        memset(recv, 0, bytes);
        fill_send(t, send, rank, n);
        rank_launch(&r, t->body);
        if (!t->in_place)
            memset(send, 0, bytes);
        wrong += count_wrong_elements(t, recv, rank, n);
        wrong += count_overwritten(window + WINDOW) + count_overwritten(recv + bytes) +
                 (t->in_place ? 0 : count_overwritten(recv - GUARD));
    }
    if (wrong == 0)
        en_gin_free(r.gin); /* in an error other ranks may wait for its proxy */
    else
        usleep(100000);
    return wrong > 0;
}

/* Runs the ranks in processes of their own. Returns the number of ranks with wrong data. */
static int count_wrong(struct test t)
{
    int wrong = 0;

    t.windows = shared_memory();
    t.barriers = shared_memory();
    t.signals = shared_memory();
    for (int r = 0; r < RANKS; r++)
        if (fork() == 0)
            _exit(run_rank(&t, r));
    for (int r = 0; r < RANKS; r++) {
        int status = 1;
        wait(&status);
        wrong += status != 0;
    }
    for (char *flat : {t.windows, t.barriers, t.signals})
        munmap(flat, RANKS * STRIDE);
    return wrong;
}

/* Over networks in order and late ones, with 1, 2 and all ranks per node. */
static void check_everywhere(struct test t)
{
    for (int64_t late_ns : {0, 300000})
        for (int node_ranks : {1, 2, 4})
            for (bool hybrid : {false, true}) {
                for (int64_t &late : t.late_ns)
                    late = late_ns;
                t.node_ranks = node_ranks;
                t.hybrid = hybrid;
                if (count_wrong(t) != 0)
                    fail_msg("%s, %d ranks per node, slices of %zu, late %d", hybrid ? "hybrid" : "gin", node_ranks,
                             t.slice, late_ns > 0);
            }
}

static void slices_arrive_over_any_network(void **)
{
    static const size_t slices[] = {0, 1, 4112};

    for (size_t slice : slices)
        check_everywhere({.body = host_gpu_thread<struct bb_device_args, bb_gin_alltoall_kernel>, .slice = slice});
}

static void sums_arrive_over_any_network(void **)
{
    body_function *const body = host_gpu_thread<struct bb_device_args, bb_gin_all_reduce_kernel>;

    check_everywhere({.body = body, .reduces = true, .slice = 0});
    check_everywhere({.body = body, .reduces = true, .slice = 1, .shift = 4});
    check_everywhere({.body = body, .reduces = true, .in_place = true, .slice = 1003, .shift = 12});
    check_everywhere({.body = body, .reduces = true, .element_wise = true, .slice = 4096});
}

/* ---- hazards ---- */

static void finish_slices(const ncclGin &gin, uint64_t before, uint64_t comes)
{
    gin.waitSignal(ncclCoopCta(), blockIdx.x, before + comes);
    gin.flush(ncclCoopCta());
}

static void without_entry_barrier(struct bb_device_args a)
{
    const ncclGin gin(a.comm, blockIdx.x % a.comm.ginContextCount);
    const uint64_t before = gin.readSignal(blockIdx.x);

    finish_slices(gin, before, put_slices(a, gin));
}

/* The signals may grow between the barrier and the read. */
static void reads_signals_after_the_barrier(struct bb_device_args a)
{
    const ncclGin gin(a.comm, blockIdx.x % a.comm.ginContextCount);

    enter(a, gin);
    if (a.comm.rank == 1)
        usleep(20000);
    const uint64_t before = gin.readSignal(blockIdx.x);
    finish_slices(gin, before, put_slices(a, gin));
}

static void waits_for_too_few(struct bb_device_args a)
{
    const ncclGin gin(a.comm, blockIdx.x % a.comm.ginContextCount);
    const uint64_t before = gin.readSignal(blockIdx.x);

    enter(a, gin);
    finish_slices(gin, before, put_slices(a, gin) - 1);
}

static void without_flush(struct bb_device_args a)
{
    const ncclGin gin(a.comm, blockIdx.x % a.comm.ginContextCount);
    const uint64_t before = gin.readSignal(blockIdx.x);

    enter(a, gin);
    gin.waitSignal(ncclCoopCta(), blockIdx.x, before + put_slices(a, gin));
}

/* A put without signal, and a weak one for it: only a strong signal shows earlier puts. */
template <typename SIGNAL> static void puts_and_signals(struct bb_device_args a)
{
    const ncclGin gin(a.comm, 0);
    const uint64_t before = gin.readSignal(0);

    if (blockIdx.x > 0)
        return;
    enter(a, gin);
    for (int to = threadIdx.x; to < a.comm.nRanks; to += blockDim.x) {
        gin.put(ncclTeamWorld(a.comm), to, a.window, a.recv + (size_t)a.comm.rank * a.count, a.window,
                a.send + (size_t)to * a.count, a.count);
        gin.signal(ncclTeamWorld(a.comm), to, SIGNAL{0});
    }
    finish_slices(gin, before, (uint64_t)a.comm.nRanks);
}

/* Two CTAs count different puts with one signal: each goes on after the puts of the other one. */
static void shares_a_signal(struct bb_device_args a)
{
    const ncclGin gin(a.comm, 0);
    const uint64_t before = gin.readSignal(0);
    const int ranks = a.comm.nRanks, i = (int)blockIdx.x + 1, to = (a.comm.rank + i) % ranks;

    enter(a, gin);
    if (threadIdx.x == 0)
        gin.put(ncclTeamWorld(a.comm), to, a.window, a.recv + (size_t)a.comm.rank * a.count, a.window,
                a.send + (size_t)to * a.count, a.count, ncclGin_WeakSignalInc{0});
    if (blockIdx.x == 0)
        memcpy(ncclGetLocalPointer(a.window, a.recv + (size_t)a.comm.rank * a.count),
               ncclGetLocalPointer(a.window, a.send + (size_t)a.comm.rank * a.count), a.count);
    finish_slices(gin, 0, before + 1);
}

/* all_reduce with one signal: a finished piece counts as a partial sum. */
static void sums_with_one_signal(struct bb_device_args a)
{
    const ncclGin gin(a.comm, 0);
    const uint64_t before = gin.readSignal(blockIdx.x);
    const struct bb_rail r = rail_of(a);
    const uint64_t others = (uint64_t)(r.nodes.nRanks - 1);

    enter(a, gin);
    reduce_in_node<float>(a, r);
    put_pieces(a, r, gin, false, blockIdx.x);
    gin.waitSignal(ncclCoopCta(), blockIdx.x, before + others);
    reduce_slots<float>(a, r);
    put_pieces(a, r, gin, true, blockIdx.x);
    gin.waitSignal(ncclCoopCta(), blockIdx.x, before + 2 * others);
    leave(a, gin);
}

static void missing_rules_give_wrong_data(void **)
{
    static const struct {
        const char *name;
        body_function *body;
        int64_t first_late_ns; /* of rank 0 */
        int late_launch_us;
        bool wrong;
    } cases[] = {
        {"without entry barrier", host_gpu_thread<struct bb_device_args, without_entry_barrier>, 300000, 50000, true},
        {"signals read late", host_gpu_thread<struct bb_device_args, reads_signals_after_the_barrier>, 300000, 0, true},
        {"too few waits", host_gpu_thread<struct bb_device_args, waits_for_too_few>, 20000000, 0, true},
        {"without flush", host_gpu_thread<struct bb_device_args, without_flush>, 20000000, 0, true},
        {"weak signal", host_gpu_thread<struct bb_device_args, puts_and_signals<ncclGin_WeakSignalInc>>, 20000000, 0,
         true},
        {"strong signal", host_gpu_thread<struct bb_device_args, puts_and_signals<ncclGin_StrongSignalInc>>, 20000000,
         0, false},
        {"one signal for two CTAs", host_gpu_thread<struct bb_device_args, shares_a_signal>, 20000000, 0, true},
        {"one signal for two phases", host_gpu_thread<struct bb_device_args, sums_with_one_signal>, 20000000, 0, true},
    };

    for (const auto &c : cases) {
        bool wrong = false;

        /* On a loaded machine, the ranks themselves may be later than the network. */
        for (int times = 1; times <= 16 && !wrong && (times == 1 || c.wrong); times *= 2) {
            const struct test t = {.body = c.body,
                                   .node_ranks = 1,
                                   .reduces = strstr(c.name, "phases") != NULL,
                                   .slice = 4096,
                                   .late_ns = {times * c.first_late_ns, 300000, 300000, 300000},
                                   .late_launch_us = times * c.late_launch_us};
            wrong = count_wrong(t) > 0;
        }
        if (wrong != c.wrong)
            fail_msg("%s", c.name);
    }
}

/* ---- what the proxy reports ---- */

static void run_one_rank(size_t slice, body_function *body)
{
    struct test t = {.node_ranks = 1,
                     .slice = slice,
                     .windows = shared_memory(),
                     .barriers = shared_memory(),
                     .signals = shared_memory()};
    struct rank r;

    begin = time(NULL);
    rank_open(&r, &t, 0);
    r.args.comm.nRanks = 1;
    rank_launch(&r, body);
    en_gin_free(r.gin);
    free(r.args.window);
}

static int put_outside()
{
    run_one_rank(WINDOW, host_gpu_thread<struct bb_device_args, bb_gin_alltoall_kernel>);
    return 0;
}

template <bool RESET> static void increments_and_adds(struct bb_device_args a)
{
    const ncclGin gin(a.comm, 0);

    if (blockIdx.x > 0 || threadIdx.x > 0)
        return;
    gin.signal(ncclTeamWorld(a.comm), 0, ncclGin_StrongSignalInc{0});
    gin.waitSignal(ncclCoopThread(), 0, 1);
    if (RESET)
        gin.resetSignal(0);
    gin.signal(ncclTeamWorld(a.comm), 0, ncclGin_StrongSignalAdd{0, 5});
    gin.waitSignal(ncclCoopThread(), 0, RESET ? 5 : 6);
}

template <bool RESET> static int mix_signals()
{
    run_one_rank(1, host_gpu_thread<struct bb_device_args, increments_and_adds<RESET>>);
    return 0;
}

static void mixed_signals_require_a_reset(void **)
{
    struct child child;

    child_run(&child, mix_signals<false>, NULL);
    assert_int_equal(child.status, CHILD_SIGNAL + SIGABRT);
    assert_non_null(
        strstr(child.err, "GIN: signal 0 of rank 0: increments and additions without a reset between them"));
    child_run(&child, mix_signals<true>, NULL);
    assert_int_equal(child.status, 0);
}

static void put_outside_of_the_window_is_reported(void **)
{
    struct child child;

    child_run(&child, put_outside, NULL);
    assert_int_equal(child.status, CHILD_SIGNAL + SIGABRT);
    assert_non_null(
        strstr(child.err, "GIN: a put of 131072 bytes at offset 65536 is outside of its window of 131072 bytes"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(slices_arrive_over_any_network), cmocka_unit_test(sums_arrive_over_any_network),
        cmocka_unit_test(mixed_signals_require_a_reset), cmocka_unit_test(missing_rules_give_wrong_data),
        cmocka_unit_test(put_outside_of_the_window_is_reported)};

    return cmocka_run_group_tests(tests, NULL, NULL);
}
