/*
 * test_device_kernels.cpp - busbar's kernels on NCCL's device API, run by processes with shared memory: results of all
 * types and alignments, and what a kernel without one of its barriers does. The sums are computed here in double or, for
 * integers, modulo 2^64.
 */
#include "host_nccl_device.h"

#define BB_MULTIMEM_BARRIER false
template <typename T> static void bb_multimem_reduce(const ncclDevComm &, ncclWindow_t, size_t, size_t) /* not run */
{
}
#include "collectives/ops/device_kernels.cuh"
#include "device_structs.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

extern "C" {
#include <cmocka.h>
}

enum { RANKS = 3, CTAS = 2, THREADS = 64, WINDOW = 1 << 16, RECV = WINDOW / 2 };

/* Windows of all ranks, and the memory of their barriers. */
struct job {
    struct en_lsa windows, barriers;
};

static struct en_lsa shared_memory(void)
{
    void *flat =
        mmap(NULL, (size_t)RANKS << 32, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);

    assert_true(flat != MAP_FAILED);
    return (struct en_lsa){static_cast<char *>(flat), 1, 0, 0, RANKS, 0, RANKS, {}};
}

static struct job job_new(void)
{
    return (struct job){shared_memory(), shared_memory()};
}

static void job_free(struct job *j)
{
    munmap(j->windows.flat, (size_t)RANKS << 32);
    munmap(j->barriers.flat, (size_t)RANKS << 32);
}

static char *window_of(const struct job *j, int rank)
{
    return j->windows.flat + ((size_t)rank << 32);
}

static void run_kernel(const struct job *j, int rank, struct bb_device_args a, void (*body)(const void *))
{
    struct host_gpu_launch l = {};
    struct en_lsa windows = j->windows, barriers = j->barriers;

    windows.rank = windows.world_rank = barriers.rank = barriers.world_rank = rank;
    a.window = static_cast<ncclWindow_t>(en_new_window(&windows, NULL));
    en_write_device_comm(&a.comm, &barriers, NULL, CTAS, NULL, NULL);
    l.name = "under test";
    l.grid = dim3(CTAS);
    l.block = dim3(THREADS);
    l.body = body;
    l.args = &a;
    (void)host_gpu_run(&l);
    free(a.window);
}

/* Runs `rank_main` as each rank in its own process. Returns the number of ranks that did not return 0. */
static int run_ranks(const struct job *j, int (*rank_main)(const struct job *j, int rank, const void *arg),
                     const void *arg)
{
    int failed = 0;

    for (int r = 0; r < RANKS; r++)
        if (fork() == 0)
            _exit(rank_main(j, r, arg));
    for (int r = 0; r < RANKS; r++) {
        int status;
        wait(&status);
        failed += status != 0;
    }
    return failed;
}

/* ---- results ---- */

struct type {
    int dtype, bytes;
    double (*read)(const void *at);
    void (*write)(void *at, double x);
};

template <typename T> static double read_as(const void *at)
{
    return static_cast<double>(static_cast<typename bb_sum_of<T>::type>(*static_cast<const T *>(at)));
}

template <typename T> static void write_as(void *at, double x)
{
    *static_cast<T *>(at) = static_cast<T>(static_cast<typename bb_sum_of<T>::type>(x));
}
#define TYPE(id, T)                                                                                                    \
    {                                                                                                                  \
        id, sizeof(T), read_as<T>, write_as<T>                                                                         \
    }
static const struct type types[] = {
    TYPE(BB_INT8, uint8_t),         TYPE(BB_UINT8, uint8_t),
    TYPE(BB_INT32, uint32_t),       TYPE(BB_UINT32, uint32_t),
    TYPE(BB_INT64, uint64_t),       TYPE(BB_UINT64, uint64_t),
    TYPE(BB_HALF, __half),          TYPE(BB_FLOAT, float),
    TYPE(BB_DOUBLE, double),        TYPE(BB_BFLOAT16, __nv_bfloat16),
    TYPE(BB_F8E4M3, __nv_fp8_e4m3), TYPE(BB_F8E5M2, __nv_fp8_e5m2),
};

/* A case: `count` elements, `shift` elements after a multiple of 16 bytes. */
struct reduction {
    const struct type *type;
    size_t count;
    int shift;
    bool in_place, element_wise;
};

/* Integers up to 2, so that every sum is exact in 8 bits. */
static double input(int rank, size_t i)
{
    return (double)((i * 7 + (size_t)rank * 5) % 3);
}

static struct bb_device_args args_of(const struct reduction *c)
{
    struct bb_device_args a = {};

    a.send = (size_t)(c->shift * c->type->bytes);
    a.recv = a.send + (c->in_place ? 0 : RECV);
    a.count = c->count;
    a.dtype = c->type->dtype;
    a.element_bytes = c->type->bytes;
    a.element_wise = c->element_wise;
    return a;
}

static int reduce_rank(const struct job *j, int rank, const void *arg)
{
    const struct reduction *c = static_cast<const struct reduction *>(arg);
    const struct bb_device_args a = args_of(c);
    char *window = window_of(j, rank);

    for (size_t i = 0; i < c->count; i++)
        c->type->write(window + a.send + i * (size_t)c->type->bytes, input(rank, i));
    run_kernel(j, rank, a, host_gpu_thread<struct bb_device_args, bb_lsa_all_reduce_kernel>);
    for (size_t i = 0; i < c->count; i++) {
        double sum = 0;
        for (int r = 0; r < RANKS; r++)
            sum += input(r, i);
        if (c->type->read(window + a.recv + i * (size_t)c->type->bytes) != sum)
            return 1;
    }
    return 0;
}

static void sums_of_all_types_and_alignments(void **)
{
    static const size_t counts[] = {0, 1, 17, 1001};

    for (const struct type &type : types)
        for (size_t n : counts)
            for (int shift = 0; shift < 2; shift++) {
                const struct reduction c = {&type, n, shift, n % 2 == 1, n == 17 && shift == 0};
                struct job j = job_new();

                if (run_ranks(&j, reduce_rank, &c) != 0)
                    fail_msg("type %d, %zu elements, shift %d", type.dtype, n, shift);
                job_free(&j);
            }
}

/* alltoall: the slice of rank s for rank r contains bytes of the value 16 s + r. */
static int exchange_rank(const struct job *j, int rank, const void *arg)
{
    const size_t slice = *static_cast<const size_t *>(arg);
    struct bb_device_args a = {};
    char *window = window_of(j, rank);

    a.recv = RECV;
    a.count = slice;
    a.dtype = BB_UINT8;
    a.element_bytes = 1;
    for (int r = 0; r < RANKS; r++)
        memset(window + (size_t)r * slice, 16 * rank + r, slice);
    run_kernel(j, rank, a, host_gpu_thread<struct bb_device_args, bb_lsa_alltoall_kernel>);
    for (int r = 0; r < RANKS; r++)
        for (size_t i = 0; i < slice; i++)
            if (window[RECV + (size_t)r * slice + i] != 16 * r + rank)
                return 1;
    return window[RECV + RANKS * slice] != 0;
}

static void slices_arrive(void **)
{
    static const size_t slices[] = {0, 1, 16, 4096, 4112};

    for (size_t slice : slices) {
        struct job j = job_new();

        assert_int_equal(run_ranks(&j, exchange_rank, &slice), 0);
        job_free(&j);
    }
}

/* ---- hazards ---- */

/* A word of rank 1's window, with which rank 0 lets rank 1 go on. */
static volatile int *signal_of(struct en_lsa windows)
{
    return reinterpret_cast<volatile int *>(windows.flat + ((size_t)1 << 32) + WINDOW - 64);
}

static void await_signal(volatile int *word)
{
    for (int ms = 0; ms < 20000 && !*word; ms++)
        usleep(1000);
}

static volatile int *signal_in(const struct bb_device_args &a)
{
    return at_peer<volatile int>(peers_at(a, 0), 1, WINDOW - 64);
}

static void without_entry_barrier(struct bb_device_args a)
{
    reduce_elements<float, false>(a);
    if (a.comm.lsaRank == 0)
        *signal_in(a) = 1;
    meet(a, false);
}

static void without_exit_barrier(struct bb_device_args a)
{
    meet(a, false);
    if (a.comm.lsaRank == 1 && blockIdx.x == CTAS - 1) /* the blocks run one after another */
        await_signal(signal_in(a));
    reduce_elements<float, false>(a);
}

/* Rank 1 is late: with its data (entry), or with its part of the sums (exit). */
static int late_rank(const struct job *j, int rank, const void *arg)
{
    const bool entry = *static_cast<const bool *>(arg);
    const struct reduction c = {&types[7], 1001, 0, false, false};
    struct bb_device_args a = args_of(&c);
    float *window = reinterpret_cast<float *>(window_of(j, rank));
    int wrong = 0;

    if (rank == 1 && entry)
        await_signal(signal_of(j->windows));
    for (size_t i = 0; i < c.count; i++)
        window[i] = 1;
    run_kernel(j, rank, a,
               entry ? host_gpu_thread<struct bb_device_args, without_entry_barrier>
                     : host_gpu_thread<struct bb_device_args, without_exit_barrier>);
    for (size_t i = 0; i < c.count; i++)
        wrong += window[RECV / sizeof(float) + i] != RANKS;
    if (rank == 0)
        *signal_of(j->windows) = 1;
    return wrong > 0;
}

static void missing_barrier_gives_wrong_data(void **)
{
    for (int entry = 0; entry < 2; entry++) {
        const bool arg = entry;
        struct job j = job_new();

        assert_true(run_ranks(&j, late_rank, &arg) > 0);
        job_free(&j);
    }
}

/* A rank whose peers never come: the launch ends when the process must stop. */
static bool stops(void)
{
    static time_t begin;

    begin = begin ? begin : time(NULL);
    return time(NULL) > begin;
}

static void kernel_without_peers_stops(void **)
{
    struct job j = job_new();
    struct host_gpu_launch l = {};
    struct bb_device_args a = {};

    en_write_device_comm(&a.comm, &j.barriers, NULL, CTAS, NULL, NULL);
    l.name = "under test";
    l.grid = dim3(CTAS);
    l.block = dim3(THREADS);
    l.body = host_gpu_thread<struct bb_device_args, without_exit_barrier>;
    l.args = &a;
    l.is_stopping = stops;
    l.start_ns = 5;
    l.lasts_ns = 7;
    assert_int_equal(host_gpu_run(&l), 12);
    job_free(&j);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(sums_of_all_types_and_alignments), cmocka_unit_test(slices_arrive),
        cmocka_unit_test(missing_barrier_gives_wrong_data), cmocka_unit_test(kernel_without_peers_stops)};

    return cmocka_run_group_tests(tests, NULL, NULL);
}
