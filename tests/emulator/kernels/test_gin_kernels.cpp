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

enum { RANKS = 4, CTAS = 3, THREADS = 64, WINDOW = 1 << 17, RECV = WINDOW / 2, LAUNCHES = 2 };
static const size_t STRIDE = (size_t)1 << 32;

typedef void body_function(const void *args);

struct test {
    body_function *body;
    int node_ranks;
    size_t slice;
    int64_t late_ns[RANKS];
    int late_launch_us; /* of rank 1 */
    char *windows, *barriers, *signals;
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

static void rank_open(struct rank *r, const struct test *t, int rank)
{
    struct en_gin_setup s = {rank, RANKS, t->node_ranks, CTAS, CTAS, CTAS, {t->signals, STRIDE, 0}, t->late_ns[rank]};

    s.memory.bytes = en_gin_bytes(&s);
    *r = {};
    r->gin = en_gin_new(&s);
    r->windows = lsa_of(t, t->windows, rank);
    r->barriers = lsa_of(t, t->barriers, rank);
    r->args.window = static_cast<ncclWindow_t>(en_new_window(&r->windows, NULL));
    en_write_device_comm(&r->args.comm, &r->barriers, NULL, CTAS, NULL, NULL);
    en_gin_write(r->gin, &r->args.comm);
    r->args.recv = RECV;
    r->args.count = t->slice;
    r->args.dtype = BB_UINT8;
    r->args.element_bytes = 1;
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

/* Runs alltoall twice. After each the send buffer is overwritten, which must not change what arrived. */
static int run_rank(const struct test *t, int rank)
{
    char *window = t->windows + (size_t)rank * STRIDE;
    struct rank r;
    int wrong = 0;

    begin = time(NULL);
    rank_open(&r, t, rank);
    for (int n = 0; n < LAUNCHES; n++) {
        for (int to = 0; to < RANKS; to++)
            memset(window + (size_t)to * t->slice, value(rank, to, n), t->slice);
        if (rank == 1)
            usleep((unsigned)t->late_launch_us);
        memset(window + RECV, 0, RANKS * t->slice);
        rank_launch(&r, t->body);
        memset(window, 0, RANKS * t->slice);
        for (int from = 0; from < RANKS; from++)
            for (size_t i = 0; i < t->slice; i++)
                wrong += window[RECV + (size_t)from * t->slice + i] != value(from, rank, n);
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

static void slices_arrive_over_any_network(void **)
{
    static const size_t slices[] = {0, 1, 4112};
    body_function *const gin = host_gpu_thread<struct bb_device_args, bb_gin_alltoall_kernel>;
    body_function *const hybrid = host_gpu_thread<struct bb_device_args, bb_hybrid_alltoall_kernel>;

    for (int64_t late_ns : {0, 300000})
        for (int node_ranks : {1, 2, 4})
            for (body_function *body : {gin, hybrid})
                for (size_t slice : slices) {
                    struct test t = {body, node_ranks, slice, {late_ns, late_ns, late_ns, late_ns},
                                     0,    NULL,       NULL,  NULL};
                    if (count_wrong(t) != 0)
                        fail_msg("%s, %d ranks per node, slices of %zu bytes, late %d", body == gin ? "gin" : "hybrid",
                                 node_ranks, slice, late_ns > 0);
                }
}

/* ---- hazards ---- */

static void enter(const ncclGin &gin)
{
    ncclGinBarrierSession<ncclCoopCta> barrier(ncclCoopCta(), gin, ncclTeamTagWorld(), blockIdx.x);

    barrier.sync(ncclCoopCta(), cuda::memory_order_acq_rel, ncclGinFenceLevel::None);
}

static void without_entry_barrier(struct bb_device_args a)
{
    const ncclGin gin(a.comm, blockIdx.x % a.comm.ginContextCount);
    const uint64_t before = gin.readSignal(blockIdx.x);

    finish_slices(gin, before, put_slices<false>(a, gin));
}

/* The signals may grow between the barrier and the read. */
static void reads_signals_after_the_barrier(struct bb_device_args a)
{
    const ncclGin gin(a.comm, blockIdx.x % a.comm.ginContextCount);

    enter(gin);
    if (a.comm.rank == 1)
        usleep(20000);
    const uint64_t before = gin.readSignal(blockIdx.x);
    finish_slices(gin, before, put_slices<false>(a, gin));
}

static void waits_for_too_few(struct bb_device_args a)
{
    const ncclGin gin(a.comm, blockIdx.x % a.comm.ginContextCount);
    const uint64_t before = gin.readSignal(blockIdx.x);

    enter(gin);
    finish_slices(gin, before, put_slices<false>(a, gin) - 1);
}

static void without_flush(struct bb_device_args a)
{
    const ncclGin gin(a.comm, blockIdx.x % a.comm.ginContextCount);
    const uint64_t before = gin.readSignal(blockIdx.x);

    enter(gin);
    gin.waitSignal(ncclCoopCta(), blockIdx.x, before + put_slices<false>(a, gin));
}

/* A put without signal, and a weak one for it: only a strong signal shows earlier puts. */
template <typename SIGNAL> static void puts_and_signals(struct bb_device_args a)
{
    const ncclGin gin(a.comm, 0);
    const uint64_t before = gin.readSignal(0);

    if (blockIdx.x > 0)
        return;
    enter(gin);
    for (int to = threadIdx.x; to < a.comm.nRanks; to += blockDim.x) {
        gin.put(ncclTeamWorld(a.comm), to, a.window, a.recv + (size_t)a.comm.rank * a.count, a.window,
                a.send + (size_t)to * a.count, a.count);
        gin.signal(ncclTeamWorld(a.comm), to, SIGNAL{0});
    }
    finish_slices(gin, before, (uint64_t)a.comm.nRanks);
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
    };

    for (const auto &c : cases) {
        bool wrong = false;

        /* On a loaded machine, the ranks themselves may be later than the network. */
        for (int times = 1; times <= 16 && !wrong && (times == 1 || c.wrong); times *= 2) {
            const struct test t = {
                c.body, 1,    4096, {times * c.first_late_ns, 300000, 300000, 300000}, times * c.late_launch_us,
                NULL,   NULL, NULL};
            wrong = count_wrong(t) > 0;
        }
        if (wrong != c.wrong)
            fail_msg("%s", c.name);
    }
}

static int put_outside()
{
    struct test t = {NULL, 1, WINDOW, {0}, 0, shared_memory(), shared_memory(), shared_memory()};
    struct rank r;

    begin = time(NULL);
    rank_open(&r, &t, 0);
    r.args.comm.nRanks = 1;
    rank_launch(&r, host_gpu_thread<struct bb_device_args, bb_gin_alltoall_kernel>);
    return 0;
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
    const struct CMUnitTest tests[] = {cmocka_unit_test(slices_arrive_over_any_network),
                                       cmocka_unit_test(missing_rules_give_wrong_data),
                                       cmocka_unit_test(put_outside_of_the_window_is_reported)};

    return cmocka_run_group_tests(tests, NULL, NULL);
}
