/*
 * test_parsers.c - parsers of sizes, split masks, matrix files and other options: cases written by hand, and a
 * deterministic stream of random text that must be accepted or rejected. Under the sanitizers the tests also detect
 * reads out of bounds.
 */
#include "bootstrap/cli/size_list.h"
#include "collectives/measure/sampling_options.h"
#include "collectives/nccl_tests/nccl_tests_options.h"
#include "collectives/ops/alltoallv_counts.h"
#include "collectives/overlap/overlap_metrics.h"
#include "collectives/sweep/bench_options.h"
#include "collectives/sweep/cases.h"
#include "tests/bootstrap/capture.h"
#include "tests/check.h"

#include <fcntl.h>
#include <math.h>
#include <stdbool.h>
#include <unistd.h>

enum { TRIES = 20000, TEXT = 200 };

static uint64_t state_of_random = 88172645463325252ull;

static unsigned random_below(unsigned n)
{
    state_of_random ^= state_of_random << 13;
    state_of_random ^= state_of_random >> 7;
    state_of_random ^= state_of_random << 17;
    return (unsigned)(state_of_random >> 32) % n;
}

/* Valid tokens in random order, so that many texts are nearly valid, and random bytes. */
static void random_text(char text[TEXT], const char *const *tokens, unsigned n)
{
    unsigned parts = random_below(12);
    size_t used = 0;

    for (unsigned i = 0; i < parts; i++) {
        char byte[2] = {(char)(1 + random_below(255)), 0};
        const char *token = random_below(8) ? tokens[random_below(n)] : byte;

        if (used + strlen(token) + 1 >= TEXT)
            break;
        used += (size_t)snprintf(text + used, TEXT - used, "%s", token);
    }
    text[used] = '\0';
}

/* Hides tens of thousands of error messages. */
static void mute_stderr(bool on)
{
    static int saved_stderr = -1, null_device = -1;

    if (saved_stderr < 0) {
        saved_stderr = dup(STDERR_FILENO);
        null_device = open("/dev/null", O_WRONLY);
    }
    assert_true(saved_stderr >= 0 && null_device >= 0 && dup2(on ? null_device : saved_stderr, STDERR_FILENO) >= 0);
}

static void random_sizes_do_not_crash(void **state)
{
    static const char *const tokens[] = {"8", "1", "0", "K", "M", "G", "T",
                                         ",", ",", ".", "5", "-", " ", "99999999999999999999"};
    char text[TEXT];
    int accepted = 0;

    (void)state;
    for (int i = 0; i < TRIES; i++) {
        struct bb_sizes s;
        int rc;

        random_text(text, tokens, ROWS(tokens));
        mute_stderr(true);
        rc = bb_sizes_parse(&s, "--sizes", text, 0);
        mute_stderr(false);
        assert_true(rc == 0 || rc == -BB_EUSAGE);
        if (rc != 0)
            continue;
        accepted++;
        assert_true(s.n > 0 && s.n <= BB_SIZES_MAX);
        for (int k = 0; k < s.n; k++)
            assert_true(s.bytes[k] <= (size_t)1 << 50);
    }
    assert_true(accepted > TRIES / 100 && accepted < TRIES / 2);
}

static void random_splits_do_not_crash(void **state)
{
    static const char *const tokens[] = {"AND", "or", "MOD", "DIV", "&", "|", "%", "/",
                                         ":",   " ",  "0x",  "0b",  "1", "0", "7", "f"};
    char text[TEXT];
    int accepted = 0;

    (void)state;
    for (int i = 0; i < TRIES; i++) {
        struct bb_split s;
        int rc;

        random_text(text, tokens, ROWS(tokens));
        mute_stderr(true);
        rc = bb_split_parse(&s, text);
        mute_stderr(false);
        assert_true(rc == 0 || rc == -BB_EUSAGE);
        accepted += rc == 0;
        for (int rank = 0; rc == 0 && rank < 100; rank++)
            assert_true(bb_split_group(&s, rank) >= 0);
    }
    assert_true(accepted > TRIES / 1000 && accepted < TRIES / 2);
}

static void random_matrices_do_not_crash(void **state)
{
    static const char *const tokens[] = {"16", "1e3", "0",    " ",   "  ",   "\n", "\n",
                                         "\t", "-5",  "1e30", "nan", "0x10", "3.5"};
    char text[TEXT];
    int accepted = 0;

    (void)state;
    for (int i = 0; i < TRIES; i++) {
        struct bb_alltoallv_counts a = {.imbalance = 1};
        int rc;

        random_text(text, tokens, ROWS(tokens));
        mute_stderr(true);
        rc = bb_alltoallv_counts_parse(&a, text, "made up", 1);
        mute_stderr(false);
        assert_true(rc == 0 || rc == -BB_EUSAGE);
        assert_true((rc == 0) == (a.bytes != NULL));
        accepted += rc == 0;
        for (int k = 0; rc == 0 && k < a.n * a.n; k++)
            assert_true(a.bytes[k] % 16 == 0 && a.bytes[k] <= (size_t)1 << 50);
        bb_alltoallv_counts_release(&a);
    }
    assert_true(accepted > TRIES / 1000 && accepted < TRIES / 2);
}

/* Accepted text sets delays of ranks 0 to 3 only, each from 0 to 1e9 us. */
static void random_delays_do_not_crash(void **state)
{
    static const char *const tokens[] = {"0",   "1",  "3",  "77", ":",           ":",  ",",
                                         "100", ".5", "e3", "-",  "99999999999", "nan"};
    char text[TEXT];
    int accepted = 0;

    (void)state;
    for (int i = 0; i < TRIES; i++) {
        double us[4] = {-1, -1, -1, -1};
        int highest, rc;

        random_text(text, tokens, ROWS(tokens));
        mute_stderr(true);
        rc = bb_sampling_parse_delays(text, 4, us, &highest);
        mute_stderr(false);
        assert_true(rc == 0 || rc == -BB_EUSAGE);
        accepted += rc == 0;
        for (int r = 0; r < 4; r++)
            assert_true(us[r] == -1 || (us[r] >= 0 && us[r] <= 1e9));
        assert_true(highest >= -1);
    }
    assert_true(accepted > 10 && accepted < TRIES / 2);
}

/* CTA limits, GEMM dimensions and size lists of bench overlap, p2p and comm. */
static void random_lists_do_not_crash(void **state)
{
    static const char *const tokens[] = {"default", ",",    ",", ":", "x", "x", "1",  "8",
                                         "16",      "4096", "K", "M", "-", "0", "1.5"};
    char text[TEXT];
    int accepted = 0;

    (void)state;
    for (int i = 0; i < TRIES; i++) {
        struct bb_cta_limit limits[BB_CTA_LIMITS];
        struct bb_sizes sizes;
        int64_t mnk[3];
        int n = 0, limits_rc, gemm_rc, sizes_rc;

        random_text(text, tokens, ROWS(tokens));
        mute_stderr(true);
        limits_rc = bb_cta_limits_parse(text, limits, &n);
        gemm_rc = bb_gemm_dimensions_parse(text, mnk);
        sizes_rc = bb_sizes_parse(&sizes, "--sizes", text, 1);
        mute_stderr(false);
        accepted += limits_rc == 0;
        assert_true(limits_rc == -BB_EUSAGE || (limits_rc == 0 && n > 0 && n <= BB_CTA_LIMITS));
        for (int k = 0; limits_rc == 0 && k < n; k++)
            assert_true(limits[k].min >= 0 && limits[k].max >= 0);
        assert_true(gemm_rc == -BB_EUSAGE || (gemm_rc == 0 && mnk[0] > 0 && mnk[1] > 0 && mnk[2] > 0));
        assert_true(sizes_rc == -BB_EUSAGE || (sizes_rc == 0 && sizes.n > 0 && sizes.n <= BB_SIZES_MAX));
    }
    assert_true(accepted > 10 && accepted < TRIES / 2);
}

/* The names of all options. */
struct option_names {
    const char *name[64];
    unsigned n;
};

static void add_option(void *arg, const struct bb_opt *opt, const void *field)
{
    struct option_names *w = arg;

    (void)field;
    if (w->n < ROWS(w->name))
        w->name[w->n++] = opt->name;
}

static void make_command_line(const struct option_names *w, char lines[8][TEXT], int n)
{
    static const char *const values[] = {"0",
                                         "1",
                                         "8",
                                         "1K",
                                         "64M",
                                         "all",
                                         "float",
                                         "sum",
                                         "sync",
                                         "stream",
                                         "1%",
                                         "MOD:2",
                                         "auto",
                                         "1:5",
                                         "8,16",
                                         "2.5",
                                         "-3",
                                         "1e99",
                                         "99999999999999999999",
                                         "",
                                         "nan",
                                         "in_place"};

    snprintf(lines[1], TEXT, "all_reduce");
    for (int i = 2; i < n; i++)
        snprintf(lines[i], TEXT, "--%s%s%s", w->name[random_below(w->n)], random_below(4) ? "=" : "",
                 values[random_below(ROWS(values))]);
}

/* Accepted values are within the ranges of their options, whatever the combination. */
static void check_accepted_options(const struct bb_bench_options *o, const struct bb_sweep *s)
{
    assert_true(s->n_colls == 1 && s->n_dtypes >= 1 && s->n_redops >= 1);
    assert_true(s->sizes.n > 0 || s->min_bytes <= s->max_bytes);
    assert_true(o->iterations >= 1 && o->repeats >= 1 && o->warmup >= 0 && o->checks >= 0 && o->root >= -1);
    assert_true(o->sampling.start_barrier_limit_ms >= 0.001 && o->sampling.start_barrier_limit_ms <= 1e6);
    assert_true(o->sampling.confidence_fraction >= 0 && o->sampling.confidence_fraction <= 1);
    assert_true(isfinite(o->matrix_scale) && o->imbalance >= 0 && o->imbalance <= 1);
    assert_true(!o->sampling.sweep_algorithms || (o->warmup > 0 && !o->split && o->cta_policy <= 0));
}

static void random_command_lines_do_not_crash(void **state)
{
    struct bb_bench_options options = {0};
    struct option_names names = {0};
    int accepted = 0;
    FILE *null_device = fopen("/dev/null", "w");

    (void)state;
    assert_non_null(null_device);
    bb_opts_each(&bb_bench_set, &options, add_option, &names);
    assert_true(names.n > 40);
    for (int i = 0; i < TRIES / 4; i++) {
        char lines[8][TEXT] = {"bench"}, *argv[9] = {lines[0], lines[1], lines[2], lines[3], lines[4], lines[5]};
        int n = 2 + (int)random_below(5), rc;
        struct bb_sweep sweep;

        make_command_line(&names, lines, n);
        argv[n] = NULL;
        options = (struct bb_bench_options){0};
        mute_stderr(true);
        rc = bb_bench_parse(&options, &sweep, n, argv, null_device);
        mute_stderr(false);
        assert_true(rc == 0 || rc == -BB_EUSAGE);
        accepted += rc == 0;
        if (rc == 0)
            check_accepted_options(&options, &sweep);
        bb_bench_release_sweep(&sweep);
    }
    fclose(null_device);
    assert_true(accepted > TRIES / 100 && accepted < TRIES / 4);
}

static void split_rules_compute_groups(void **state)
{
    static const struct {
        const char *text;
        int group_of_13;
    } cases[] = {{"AND:0x3", 1}, {"and 3", 1},       {"&3", 1},    {"OR:0x10", 29}, {"|0b10000", 29},
                 {"MOD:5", 3},   {"%5", 3},          {"MOD 5", 3}, {"DIV:4", 3},    {"/0x4", 3},
                 {"div2", 6},    {"AND:0xFFFF", 13}, {"AND:0", 0}};
    struct bb_split s;

    (void)state;
    for (size_t i = 0; i < ROWS(cases); i++) {
        assert_int_equal(bb_split_parse(&s, cases[i].text), 0);
        assert_int_equal(bb_split_group(&s, 13), cases[i].group_of_13);
    }
}

static void parses_matrices_in_bytes(void **state)
{
    static const char *const rejected[] = {"",         " \n\n",     "1 2\n3",       "1 2 3\n4 5 6",
                                           "1 x\n2 3", "1 -2\n3 4", "1 2\n3 1e300", "1,2\n3,4"};
    struct bb_alltoallv_counts a = {0};

    (void)state;
    assert_int_equal(bb_alltoallv_counts_parse(&a, "\n100 32\n\n  7\t64", "made up", 1), 0);
    assert_int_equal(a.n, 2);
    assert_true(a.bytes[0] == 96 && a.bytes[1] == 32 && a.bytes[2] == 0 && a.bytes[3] == 64);
    assert_int_equal(bb_alltoallv_counts_count(&a, 0, 4, 2, 0, 1), 8);
    assert_int_equal(bb_alltoallv_counts_sent(&a, 0, 4, 2, 0), 32);
    assert_int_equal(bb_alltoallv_counts_received(&a, 0, 4, 2, 0), 24);
    assert_int_equal(bb_alltoallv_counts_most(&a, 0, 4, 2, true), 32);
    bb_alltoallv_counts_release(&a);
    assert_int_equal(bb_alltoallv_counts_parse(&a, "100", "made up", 2.5), 0);
    assert_int_equal(a.bytes[0], 240);
    bb_alltoallv_counts_release(&a);
    for (size_t i = 0; i < ROWS(rejected); i++)
        assert_int_equal(bb_alltoallv_counts_parse(&a, rejected[i], "made up", 1), -BB_EUSAGE);
}

/* The reported position refers to the text; rows and columns count from 1. */
static void reports_the_position_of_a_matrix_error(void **state)
{
    static const char *const rows[][2] = {
        {"x 1", "row 1, column 1: 'x'"},
        {"0,8\n8,0", "'0,8' is not a number of bytes, expected decimal numbers separated by blanks or tabs"},
        {"1 2\n3 y", "row 2, column 2: 'y'"},
        {"1 2\n\n3 -4", "column 2: negative"},
        {"1e300", "row 1, column 1: more than 1 PiB"}};
    struct bb_alltoallv_counts a = {0};
    struct capture captured;

    (void)state;
    for (size_t i = 0; i < ROWS(rows); i++) {
        capture_begin(&captured);
        assert_int_equal(bb_alltoallv_counts_parse(&a, rows[i][0], "made up", 1), -BB_EUSAGE);
        assert_non_null(strstr(capture_end(&captured), rows[i][1]));
    }
}

/* 4 ranks, 6 * 1024 bytes each: the shares at distances 0, 1, 2 and 3 are 0, 1/6, 2/6 and 3/6. */
static void generated_counts_grow_with_the_distance(void **state)
{
    struct bb_alltoallv_counts a = {.imbalance = 1}, even = {.imbalance = 0}, half = {.imbalance = 0.5};

    (void)state;
    for (int from = 0; from < 4; from++)
        for (int d = 0; d < 4; d++) {
            assert_int_equal(bb_alltoallv_counts_count(&a, 384, 4, 4, from, (from + d) % 4), 256 * d);
            assert_int_equal(bb_alltoallv_counts_count(&even, 384, 4, 4, from, (from + d) % 4), 384);
            assert_int_equal(bb_alltoallv_counts_count(&half, 384, 4, 4, from, (from + d) % 4), 192 + 128 * d);
            assert_int_equal(bb_alltoallv_counts_sent(&a, 384, 4, 4, from), 1536);
            assert_int_equal(bb_alltoallv_counts_received(&a, 384, 4, 4, from), 1536);
        }
    assert_int_equal(bb_alltoallv_counts_count(&a, 384, 4, 1, 0, 0), 384);
}

static void maps_program_names_to_collectives(void **state)
{
    (void)state;
    assert_int_equal(bb_nccl_tests_kind("all_reduce_perf"), BB_ALL_REDUCE);
    assert_int_equal(bb_nccl_tests_kind("/opt/x/../bin/hypercube_perf"), BB_HYPERCUBE);
    assert_int_equal(bb_nccl_tests_kind("all_reduce_perf/busbar"), -1);
    assert_int_equal(bb_nccl_tests_kind("_perf"), -1);
    assert_int_equal(bb_nccl_tests_kind("allreduce_perf"), -1);
    assert_int_equal(bb_nccl_tests_kind("all_reduce"), -1);
    assert_int_equal(bb_nccl_tests_kind(""), -1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(split_rules_compute_groups),
        cmocka_unit_test(parses_matrices_in_bytes),
        cmocka_unit_test(reports_the_position_of_a_matrix_error),
        cmocka_unit_test(generated_counts_grow_with_the_distance),
        cmocka_unit_test(maps_program_names_to_collectives),
        cmocka_unit_test(random_sizes_do_not_crash),
        cmocka_unit_test(random_splits_do_not_crash),
        cmocka_unit_test(random_matrices_do_not_crash),
        cmocka_unit_test(random_delays_do_not_crash),
        cmocka_unit_test(random_lists_do_not_crash),
        cmocka_unit_test(random_command_lines_do_not_crash),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
