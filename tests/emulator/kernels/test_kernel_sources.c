/*
 * test_kernel_sources.c - the kernels' sources and the fast twins (EMU_KERNELS=fast) give the same results for the same
 * arguments, on any grid; both find injected errors. test_gpu_layer compares the memory-bound kernels with their
 * reference, which is their fast twin.
 */
#include "twins.h"

#include "cuda/compute/busy_args.h"
#include "cuda/compute/start_barrier.h"
#include "cuda/data/kernel_args.h"
#include "tests/check.h"

#include <signal.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

enum { ROOM = 1 << 16, SMS = 3 };

static const unsigned grids[] = {1, 2, 3};

typedef void run_function(struct emu_launch *);

static run_function *fast_of(const char *name)
{
    size_t n[2];
    const struct emu_twin *twins[2] = {fast_data_twins(&n[0]), fast_compute_twins(&n[1])};

    for (int t = 0; t < 2; t++)
        for (size_t i = 0; i < n[t]; i++)
            if (strcmp(twins[t][i].name, name) == 0)
                return twins[t][i].run;
    fail_msg("%s has no quick twin", name);
    return NULL;
}

static run_function *source_of(const char *name)
{
    size_t n;
    const struct kernel_source *sources = kernel_sources(&n);

    for (size_t i = 0; i < n; i++)
        if (strcmp(sources[i].name, name) == 0)
            return sources[i].run;
    fail_msg("%s has no source", name);
    return NULL;
}

static int64_t launch(run_function *run, void *args, unsigned blocks, unsigned threads, int64_t lasts_ns)
{
    struct emu_launch l = {.grid = {blocks, 1, 1},
                           .block = {threads, 1, 1},
                           .shared_bytes = sizeof(int64_t),
                           .args = (void *const[]){args},
                           .start_ns = 1000,
                           .end_ns = 1000 + lasts_ns};

    if (run)
        run(&l);
    return l.end_ns;
}

static void both_tables_name_the_same_kernels(void **state)
{
    size_t n_data, n_compute, n_sources;
    const struct kernel_source *sources = kernel_sources(&n_sources);

    (void)state;
    fast_data_twins(&n_data);
    fast_compute_twins(&n_compute);
    assert_int_equal(n_data + n_compute, n_sources);
    for (size_t i = 0; i < n_sources; i++)
        (void)fast_of(sources[i].name);
}

/* Every type and operation, counts around the block size; memory after the end stays unchanged. */
static void fills_are_the_same(void **state)
{
    static const uint64_t counts[] = {1, 31, 256, 257, 2000};
    static unsigned char by_source[ROOM], by_twin[ROOM];

    (void)state;
    for (int type = 0; type < BB_DTYPE_COUNT; type++)
        for (int redop = BB_COPY; redop < BB_REDOP_COUNT; redop++)
            for (size_t i = 0; i < ROWS(counts); i++) {
                struct bb_fill_args a = {by_source, counts[i], bb_pattern_of(&bb_dtypes[type], redop, 5, 7), 3, 11};
                memset(by_source, 0x55, ROOM);
                memset(by_twin, 0x55, ROOM);
                launch(source_of("bb_fill_kernel"), &a, grids[i % ROWS(grids)], 256, 0);
                a.buf = by_twin;
                launch(fast_of("bb_fill_kernel"), &a, 1, 256, 0);
                assert_memory_equal(by_source, by_twin, ROOM);
            }
}

/* Returns the verdict of the named check for `n` injected errors, the first at index `first`. */
static struct bb_verdict verdict_of(run_function *run, void *args, struct bb_verdict *verdict, unsigned blocks)
{
    *verdict = (struct bb_verdict){.first = ~0ull};
    launch(run, args, blocks, 256, 0);
    return *verdict;
}

static void assert_verdicts(const char *kernel, void *args, struct bb_verdict *to, struct bb_verdict want)
{
    for (size_t g = 0; g < ROWS(grids); g++) {
        const struct bb_verdict source = verdict_of(source_of(kernel), args, to, grids[g]);
        const struct bb_verdict twin = verdict_of(fast_of(kernel), args, to, grids[g]);

        assert_memory_equal(&source, &want, sizeof want);
        assert_memory_equal(&twin, &want, sizeof want);
    }
}

static void checks_find_the_same(void **state)
{
    static unsigned char buf[ROOM];
    struct bb_verdict verdict;

    (void)state;
    for (int type = 0; type < BB_DTYPE_COUNT; type++)
        for (int redop = BB_COPY; redop < BB_REDOP_COUNT; redop++) {
            const struct bb_pattern p = bb_pattern_of(&bb_dtypes[type], redop, 5, 7);
            const struct bb_expect e = {redop != BB_COPY, 2, 1000, 3};
            struct bb_check_args a = {buf, 1000, p, e, &verdict};

            for (uint64_t i = 0; i < a.count; i++)
                bb_store(buf, p.bytes, i, bb_expected(&p, &e, i));
            assert_verdicts("bb_check_kernel", &a, &verdict, (struct bb_verdict){0, ~0ull, 1000});
            for (uint64_t i = 999; i >= 499; i -= 250) /* 999, 749, 499; avg tolerates 2 units */
                bb_store(buf, p.bytes, i, bb_load(buf, p.bytes, i) ^ 8);
            assert_verdicts("bb_check_kernel", &a, &verdict, (struct bb_verdict){3, 499, 1000});
        }
}

static void byte_checks_find_the_same(void **state)
{
    static unsigned char buf[ROOM];
    struct bb_verdict verdict, cleared;
    struct bb_verdict *to = &verdict;
    struct bb_check_bytes_args a = {buf, 5000, 0xa5, &verdict};

    (void)state;
    memset(buf, 0xa5, ROOM);
    buf[5000] = 0; /* after the end */
    assert_verdicts("bb_check_bytes_kernel", &a, &verdict, (struct bb_verdict){0, ~0ull, 5000});
    buf[4999] ^= 1;
    buf[256] ^= 0x80;
    assert_verdicts("bb_check_bytes_kernel", &a, &verdict, (struct bb_verdict){2, 256, 5000});
    launch(source_of("bb_verdict_clear_kernel"), &to, 1, 1, 0);
    cleared = verdict;
    launch(fast_of("bb_verdict_clear_kernel"), &to, 1, 1, 0);
    assert_memory_equal(&cleared, &verdict, sizeof cleared);
    assert_true(verdict.wrong == 0 && verdict.first == ~0ull && verdict.checked == 0);
}

static void timed_kernels_last_the_same(void **state)
{
    static const int64_t asked_ns[] = {1, 63, 1000, 123457, 50000000};
    struct bb_busy_report report[2], *to[2] = {&report[0], &report[1]};

    (void)state;
    for (size_t i = 0; i < ROWS(asked_ns); i++) {
        const int64_t ns = asked_ns[i];
        struct bb_busy_args hold = {.ns = ns};

        for (int fast = 0; fast <= 1; fast++) {
            launch(fast ? fast_of("bb_busy_clear_kernel") : source_of("bb_busy_clear_kernel"), &to[fast], 1, 1, 0);
            hold.report = &report[fast];
            assert_int_equal(launch(fast ? fast_of("bb_hold_kernel") : source_of("bb_hold_kernel"), &hold, SMS, 32, ns),
                             1000 + ns);
        }
        assert_memory_equal(&report[0], &report[1], sizeof report[0]);
        assert_true(report[0].end_ns - report[0].start_ns == (unsigned long long)ns && report[0].blocks == SMS);
    }
}

enum { PORTION_BYTES = 64 << 10, SCRATCH_BYTES = 1 << 20 };
static const int64_t SHORT_NS = 200000,
                     LONG_NS = 400000; /* at 6.5 bytes per ns in 3 blocks: 3.9 and 7.8 MB, around the limit of 4 MiB */

static struct bb_busy_report traffic_of(run_function *run, void *scratch, int64_t ns)
{
    struct bb_busy_report report = {.start_ns = ~0ull};
    struct bb_busy_args a = {ns, 6.5, scratch, SCRATCH_BYTES / 16, &report};

    assert_int_equal(launch(run, &a, SMS, 512, ns), 1000 + ns);
    return report;
}

/* The source moves whole portions: at most one too many per block. */
static void traffic_is_the_same_within_a_portion(void **state)
{
    static _Alignas(4096) unsigned char scratch[SCRATCH_BYTES], before[SCRATCH_BYTES];

    (void)state;
    for (size_t i = 0; i < sizeof scratch; i++)
        scratch[i] = before[i] = (unsigned char)(i * 2654435761u >> 13);
    setenv("EMU_KERNELS", "source", 1);
    for (int64_t ns = SHORT_NS; ns <= LONG_NS; ns += LONG_NS - SHORT_NS) {
        struct bb_busy_report source = traffic_of(source_of("bb_busy_kernel"), scratch, ns);
        struct bb_busy_report twin = traffic_of(fast_of("bb_busy_kernel"), scratch, ns);

        assert_memory_equal(scratch, before, sizeof scratch);
        assert_in_range(source.bytes, twin.bytes, twin.bytes + SMS * PORTION_BYTES);
        source.bytes = twin.bytes;
        assert_memory_equal(&source, &twin, sizeof source);
    }
    unsetenv("EMU_KERNELS");
}

/* Whether a launch of ns touches its scratch memory, which is not accessible: access ends the child process. */
static bool touches_scratch(run_function *run, int64_t ns)
{
    void *scratch = mmap(NULL, SCRATCH_BYTES, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    int status;
    pid_t child = fork();

    assert_true(scratch != MAP_FAILED && child >= 0);
    if (child == 0) {
        signal(SIGSEGV, SIG_DFL); /* replaces the test's own handler */
        (void)traffic_of(run, scratch, ns);
        _exit(0);
    }
    assert_int_equal(waitpid(child, &status, 0), child);
    munmap(scratch, SCRATCH_BYTES);
    return WIFSIGNALED(status) && WTERMSIG(status) == SIGSEGV;
}

/* For a launch that would take too long the source runs only the beginning, and the twin accounts for all. */
static void long_traffic_begins_with_the_source(void **state)
{
    static _Alignas(4096) unsigned char scratch[SCRATCH_BYTES];
    struct bb_busy_report sampled, twin;

    (void)state;
    sampled = traffic_of(source_of("bb_busy_kernel"), scratch, LONG_NS);
    twin = traffic_of(fast_of("bb_busy_kernel"), scratch, LONG_NS);
    assert_memory_equal(&sampled, &twin, sizeof twin);
    assert_true(touches_scratch(source_of("bb_busy_kernel"), SHORT_NS));
    assert_true(touches_scratch(source_of("bb_busy_kernel"), LONG_NS));
    assert_false(touches_scratch(fast_of("bb_busy_kernel"), LONG_NS));
}

/* An open start barrier does not wait. A start barrier that is never opened lasts as long as its timeout and reports
 * this. */
static void start_barrier_ends_at_same_time_in_twin_and_source(void **state)
{
    (void)state;
    for (int fast = 0; fast <= 1; fast++) {
        run_function *start_barrier = fast ? fast_of("bb_start_barrier_kernel") : source_of("bb_start_barrier_kernel");
        struct bb_start_barrier_flags words = {2, 0};
        struct bb_start_barrier_args a = {&words, 2, 3000000};

        assert_int_equal(launch(start_barrier, &a, 1, 1, 0), 1000);
        assert_int_equal(words.expired, 0);
        a.number = 3;
        assert_int_equal(launch(start_barrier, &a, 1, 1, 0), 1000 + 3000000);
        assert_int_equal(words.expired, 3);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(both_tables_name_the_same_kernels),
        cmocka_unit_test(fills_are_the_same),
        cmocka_unit_test(checks_find_the_same),
        cmocka_unit_test(byte_checks_find_the_same),
        cmocka_unit_test(timed_kernels_last_the_same),
        cmocka_unit_test(traffic_is_the_same_within_a_portion),
        cmocka_unit_test(long_traffic_begins_with_the_source),
        cmocka_unit_test(start_barrier_ends_at_same_time_in_twin_and_source),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
