/*
 * test_parsers.c - sizes, split masks and matrix files: hand-made cases, and a deterministic stream of random text that
 * must be taken or refused, never anything else. Run under the sanitizers, it also shows that no byte outside is read.
 */
#include "bootstrap/cli/size_list.h"
#include "collectives/nccl_tests/nccl_tests_options.h"
#include "collectives/ops/alltoallv_counts.h"
#include "collectives/overlap/overlap_metrics.h"
#include "collectives/sweep/bench_options.h"
#include "collectives/sweep/cases.h"
#include "collectives/sweep/sampling_options.h"
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

/* Pieces of the language, so that many texts are nearly right, and bytes that belong to nothing. */
static void random_text(char text[TEXT], const char *const *pieces, unsigned n)
{
    unsigned parts = random_below(12);
    size_t used = 0;

    for (unsigned i = 0; i < parts; i++) {
        char byte[2] = {(char)(1 + random_below(255)), 0};
        const char *piece = random_below(8) ? pieces[random_below(n)] : byte;

        if (used + strlen(piece) + 1 >= TEXT)
            break;
        used += (size_t)snprintf(text + used, TEXT - used, "%s", piece);
    }
    text[used] = '\0';
}

/* Tens of thousands of refusals are not for the eye. */
static void hush(bool on)
{
    static int kept = -1, nowhere = -1;

    if (kept < 0) {
        kept = dup(STDERR_FILENO);
        nowhere = open("/dev/null", O_WRONLY);
    }
    assert_true(kept >= 0 && nowhere >= 0 && dup2(on ? nowhere : kept, STDERR_FILENO) >= 0);
}

static void random_sizes(void **state)
{
    static const char *const pieces[] = {"8", "1", "0", "K", "M", "G", "T",
                                         ",", ",", ".", "5", "-", " ", "99999999999999999999"};
    char text[TEXT];
    int taken = 0;

    (void)state;
    for (int i = 0; i < TRIES; i++) {
        struct bb_sizes s;
        int rc;

        random_text(text, pieces, ROWS(pieces));
        hush(true);
        rc = bb_sizes_parse(&s, "--sizes", text, 0);
        hush(false);
        assert_true(rc == 0 || rc == -BB_EUSAGE);
        if (rc != 0)
            continue;
        taken++;
        assert_true(s.n > 0 && s.n <= BB_SIZES_MAX);
        for (int k = 0; k < s.n; k++)
            assert_true(s.bytes[k] <= (size_t)1 << 50);
    }
    assert_true(taken > TRIES / 100 && taken < TRIES / 2);
}

static void random_splits(void **state)
{
    static const char *const pieces[] = {"AND", "or", "MOD", "DIV", "&", "|", "%", "/",
                                         ":",   " ",  "0x",  "0b",  "1", "0", "7", "f"};
    char text[TEXT];
    int taken = 0;

    (void)state;
    for (int i = 0; i < TRIES; i++) {
        struct bb_split s;
        int rc;

        random_text(text, pieces, ROWS(pieces));
        hush(true);
        rc = bb_split_parse(&s, text);
        hush(false);
        assert_true(rc == 0 || rc == -BB_EUSAGE);
        taken += rc == 0;
        for (int rank = 0; rc == 0 && rank < 100; rank++)
            assert_true(bb_split_group(&s, rank) >= 0);
    }
    assert_true(taken > TRIES / 1000 && taken < TRIES / 2);
}

static void random_matrices(void **state)
{
    static const char *const pieces[] = {"16", "1e3", "0",    " ",   "  ",   "\n", "\n",
                                         "\t", "-5",  "1e30", "nan", "0x10", "3.5"};
    char text[TEXT];
    int taken = 0;

    (void)state;
    for (int i = 0; i < TRIES; i++) {
        struct bb_alltoallv_counts a = {.imbalance = 1};
        int rc;

        random_text(text, pieces, ROWS(pieces));
        hush(true);
        rc = bb_alltoallv_counts_parse(&a, text, "made up", 1);
        hush(false);
        assert_true(rc == 0 || rc == -BB_EUSAGE);
        assert_true((rc == 0) == (a.bytes != NULL));
        taken += rc == 0;
        for (int k = 0; rc == 0 && k < a.n * a.n; k++)
            assert_true(a.bytes[k] % 16 == 0 && a.bytes[k] <= (size_t)1 << 50);
        bb_alltoallv_counts_release(&a);
    }
    assert_true(taken > TRIES / 1000 && taken < TRIES / 2);
}

/* Rank 0 to 3 at most are named by what was taken, with times that are none or from 0 on. */
static void random_delays(void **state)
{
    static const char *const pieces[] = {"0",   "1",  "3",  "77", ":",           ":",  ",",
                                         "100", ".5", "e3", "-",  "99999999999", "nan"};
    char text[TEXT];
    int taken = 0;

    (void)state;
    for (int i = 0; i < TRIES; i++) {
        double us[4] = {-1, -1, -1, -1};
        int highest, rc;

        random_text(text, pieces, ROWS(pieces));
        hush(true);
        rc = bb_sampling_parse_delays(text, 4, us, &highest);
        hush(false);
        assert_true(rc == 0 || rc == -BB_EUSAGE);
        taken += rc == 0;
        for (int r = 0; r < 4; r++)
            assert_true(us[r] == -1 || (us[r] >= 0 && us[r] <= 1e9));
        assert_true(highest >= -1);
    }
    assert_true(taken > 10 && taken < TRIES / 2);
}

/* Lists and products of overlap, p2p and comm. */
static void random_lists(void **state)
{
    static const char *const pieces[] = {"default", ",",    ",", ":", "x", "x", "1",  "8",
                                         "16",      "4096", "K", "M", "-", "0", "1.5"};
    char text[TEXT];
    int taken = 0;

    (void)state;
    for (int i = 0; i < TRIES; i++) {
        struct bb_cta_limit limits[BB_CTA_LIMITS];
        struct bb_sizes sizes;
        int64_t mnk[3];
        int n = 0, limits_rc, product_rc, sizes_rc;

        random_text(text, pieces, ROWS(pieces));
        hush(true);
        limits_rc = bb_cta_limits_parse(text, limits, &n);
        product_rc = bb_gemm_dimensions_parse(text, mnk);
        sizes_rc = bb_sizes_parse(&sizes, "--sizes", text, 1);
        hush(false);
        taken += limits_rc == 0;
        assert_true(limits_rc == -BB_EUSAGE || (limits_rc == 0 && n > 0 && n <= BB_CTA_LIMITS));
        for (int k = 0; limits_rc == 0 && k < n; k++)
            assert_true(limits[k].min >= 0 && limits[k].max >= 0);
        assert_true(product_rc == -BB_EUSAGE || (product_rc == 0 && mnk[0] > 0 && mnk[1] > 0 && mnk[2] > 0));
        assert_true(sizes_rc == -BB_EUSAGE || (sizes_rc == 0 && sizes.n > 0 && sizes.n <= BB_SIZES_MAX));
    }
    assert_true(taken > 10 && taken < TRIES / 2);
}

/* Every option by its name, and values that suit some of them. */
struct words {
    const char *word[64];
    unsigned n;
};

static void add_option(void *arg, const struct bb_opt *opt, const void *field)
{
    struct words *w = arg;

    (void)field;
    if (w->n < ROWS(w->word))
        w->word[w->n++] = opt->name;
}

static void line_of(const struct words *w, char lines[8][TEXT], int n)
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
        snprintf(lines[i], TEXT, "--%s%s%s", w->word[random_below(w->n)], random_below(4) ? "=" : "",
                 values[random_below(ROWS(values))]);
}

/* What is taken obeys the ranges of its options, whatever stood beside it. */
static void taken_makes_sense(const struct bb_bench_options *o, const struct bb_sweep *s)
{
    assert_true(s->n_colls == 1 && s->n_dtypes >= 1 && s->n_redops >= 1);
    assert_true(s->sizes.n > 0 || s->min_bytes <= s->max_bytes);
    assert_true(o->iterations >= 1 && o->repeats >= 1 && o->warmup >= 0 && o->checks >= 0 && o->root >= -1);
    assert_true(o->sampling.start_barrier_limit_ms >= 0.001 && o->sampling.start_barrier_limit_ms <= 1e6);
    assert_true(o->sampling.confidence_fraction >= 0 && o->sampling.confidence_fraction <= 1);
    assert_true(isfinite(o->matrix_scale) && o->imbalance >= 0 && o->imbalance <= 1);
    assert_true(!o->sampling.sweep_algorithms || (o->warmup > 0 && !o->split && o->cta_policy <= 0));
}

static void random_command_lines(void **state)
{
    struct bb_bench_options options = {0};
    struct words names = {0};
    int taken = 0;
    FILE *nowhere = fopen("/dev/null", "w");

    (void)state;
    assert_non_null(nowhere);
    bb_opts_each(&bb_bench_set, &options, add_option, &names);
    assert_true(names.n > 40);
    for (int i = 0; i < TRIES / 4; i++) {
        char lines[8][TEXT] = {"bench"}, *argv[9] = {lines[0], lines[1], lines[2], lines[3], lines[4], lines[5]};
        int n = 2 + (int)random_below(5), rc;
        struct bb_sweep sweep;

        line_of(&names, lines, n);
        argv[n] = NULL;
        options = (struct bb_bench_options){0};
        hush(true);
        rc = bb_bench_parse(&options, &sweep, n, argv, nowhere);
        hush(false);
        assert_true(rc == 0 || rc == -BB_EUSAGE);
        taken += rc == 0;
        if (rc == 0)
            taken_makes_sense(&options, &sweep);
        bb_bench_release_sweep(&sweep);
    }
    fclose(nowhere);
    assert_true(taken > TRIES / 100 && taken < TRIES / 4);
}

static void split_rules_give_groups(void **state)
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

static void matrices_are_rows_of_bytes(void **state)
{
    static const char *const refused[] = {"",         " \n\n",     "1 2\n3",       "1 2 3\n4 5 6",
                                          "1 x\n2 3", "1 -2\n3 4", "1 2\n3 1e300", "1,2\n3,4"};
    struct bb_alltoallv_counts a = {0};

    (void)state;
    assert_int_equal(bb_alltoallv_counts_parse(&a, "\n100 32\n\n  7\t64", "made up", 1), 0);
    assert_int_equal(a.n, 2);
    assert_true(a.bytes[0] == 96 && a.bytes[1] == 32 && a.bytes[2] == 0 && a.bytes[3] == 64);
    assert_int_equal(bb_alltoallv_counts_count(&a, 0, 4, 2, 0, 1), 8);
    assert_int_equal(bb_alltoallv_counts_sent(&a, 0, 4, 2, 0), 32);
    assert_int_equal(bb_alltoallv_counts_received(&a, 0, 4, 2, 0), 24);
    assert_int_equal(bb_alltoallv_counts_most(&a, 0, 4, 2), 32);
    bb_alltoallv_counts_release(&a);
    assert_int_equal(bb_alltoallv_counts_parse(&a, "100", "made up", 2.5), 0);
    assert_int_equal(a.bytes[0], 240);
    bb_alltoallv_counts_release(&a);
    for (size_t i = 0; i < ROWS(refused); i++)
        assert_int_equal(bb_alltoallv_counts_parse(&a, refused[i], "made up", 1), -BB_EUSAGE);
}

/* The place is that of the text, counted from 1 as editors do. */
static void mistakes_of_a_matrix_have_a_place(void **state)
{
    static const char *const rows[][2] = {{"x 1", "row 1, column 1: 'x'"},
                                          {"1 2\n3 y", "row 2, column 2: 'y'"},
                                          {"1 2\n\n3 -4", "column 2: negative"},
                                          {"1e300", "row 1, column 1: more than 1 PiB"}};
    struct bb_alltoallv_counts a = {0};
    struct capture said;

    (void)state;
    for (size_t i = 0; i < ROWS(rows); i++) {
        capture_begin(&said);
        assert_int_equal(bb_alltoallv_counts_parse(&a, rows[i][0], "made up", 1), -BB_EUSAGE);
        assert_non_null(strstr(capture_end(&said), rows[i][1]));
    }
}

/* 4 ranks, 6 * 1024 bytes each: by distance 0, 1/6, 2/6 and 3/6 of them. */
static void generated_amounts_grow_with_the_distance(void **state)
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

static void programs_are_known_by_name(void **state)
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
        cmocka_unit_test(split_rules_give_groups),
        cmocka_unit_test(matrices_are_rows_of_bytes),
        cmocka_unit_test(mistakes_of_a_matrix_have_a_place),
        cmocka_unit_test(generated_amounts_grow_with_the_distance),
        cmocka_unit_test(programs_are_known_by_name),
        cmocka_unit_test(random_sizes),
        cmocka_unit_test(random_splits),
        cmocka_unit_test(random_matrices),
        cmocka_unit_test(random_delays),
        cmocka_unit_test(random_lists),
        cmocka_unit_test(random_command_lines),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
