/*
 * test_compare.c - reading and comparing result files: files of all three formats written by hand, verdicts on both
 * sides of each limit, and thousands of damaged files, which must be read or rejected without a crash.
 */
#include "collectives/compare/compare.h"
#include "tests/check.h"

#include <math.h>

static const char bench_text[] =
    "{\"schema\": \"busbar.bench/1\", \"busbar\": \"0.1.0\", \"nccl\": {\"header\": \"2.28.9\", \"runtime\": "
    "\"2.28.9\"}, \"ranks\": 4, \"devices\": [{\"name\": \"X\"}, {\"name\": \"X\"}, {\"name\": \"Y\"}, {\"name\": "
    "\"X\"}], \"emulated\": false, \"environment\": {\"NCCL_ALGO\": \"Ring\"}, \"options\": {\"iters\": 20, \"json\": "
    "\"a\", \"agg_iters\": 1}, \"results\": [{\"collective\": \"all_reduce\", \"bytes\": 1024, \"dtype\": \"float\", "
    "\"op\": \"sum\", \"root\": null, \"placement\": \"in_place\", \"mode\": \"stream\", \"wrong\": 0, \"time_us\": "
    "{\"p50\": 10.5, \"ci95\": [10, 11.25]}}, {\"collective\": \"broadcast\", \"bytes\": 8, \"dtype\": \"half\", "
    "\"op\": null, \"root\": 1, \"placement\": \"out_of_place\", \"mode\": \"graph\", \"wrong\": null, \"time_us\": "
    "{\"p50\": 3, \"ci95\": null}}], \"status\": \"ok\"}";

static const char proxy_text[] = "{\"schema\": \"busbar.proxy/1\", \"proxy\": \"gpt2_large\", \"step_us\": {\"p50\": "
                                 "400.5, \"ci95\": [399, 402]}, \"check\": {\"enabled\": true, \"wrong\": 0}}";

static const char foreign_text[] =
    "{\"version\": 3, \"args\": [\"/opt/all_reduce_perf\", \"-I\", \"1\"], \"env\": [\"NCCL_ALGO=Tree\", "
    "\"TOKEN=secret\"], \"nccl_version\": 22809, \"config\": {\"nthreads\": 1, \"ngpus\": 2, \"graph\": 0, "
    "\"blocking_collectives\": \"false\", \"devices\": [{\"rank\": 0, \"device_info\": \"X\"}, {\"rank\": 2, "
    "\"device_info\": \"X\"}]}, \"results\": [{\"size\": 1024, \"count\": 256, \"type\": \"float\", \"redop\": "
    "\"sum\", \"root\": \"    -1\", \"out_of_place\": {\"time\": 12.5, \"alg_bw\": 1, \"bus_bw\": \"nan\", "
    "\"nwrong\": 0}, \"out_of_place_per_iter\": {\"times_us\": [13, 11, 12, 15, 14, 10, 16]}, \"in_place\": "
    "{\"time\": 13.5, \"nwrong\": null}, \"experiment_name\": \"\"}, {\"size\": 2048, \"type\": \"float\", \"redop\": "
    "\"sum\", \"root\": \"-1\", \"out_of_place\": null, \"in_place\": {\"cpu_time\": \"nan\", \"nwrong\": \"nan\"}}]}";

static struct bb_result_file read_text(const char *text)
{
    struct bb_result_file t;
    json_t *root = json_loads(text, 0, NULL);

    assert_non_null(root);
    assert_int_equal(bb_result_file_from_tree(&t, "file", root), 0);
    return t;
}

/* With four p-values at level 0.05: 0.005 <= 0.05/4 and 0.01 <= 0.05/3 pass, 0.03 > 0.05/2 ends the test, so that 0.04, which
 * is below 0.05/1, does not pass either. */
static void holm_stops_at_the_first_large_p_value(void **state)
{
    double p[] = {0.01, 0.04, 0.03, 0.005}, none[] = {0.04, 0.03};

    (void)state;
    assert_true(bb_holm_limit(p, 4, 0.05) == 0.01);
    assert_true(bb_holm_limit(none, 2, 0.05) == -1);
    assert_true(bb_holm_limit(none, 0, 0.05) == -1);
}

static void reads_bench_rows(void **state)
{
    struct bb_result_file t = read_text(bench_text);

    (void)state;
    assert_int_equal(t.n, 2);
    assert_string_equal(t.rows[0].what, "all_reduce");
    assert_string_equal(t.rows[0].placement, "in_place");
    assert_int_equal(t.rows[0].bytes, 1024);
    assert_int_equal(t.rows[0].root, -1);
    assert_true(t.rows[0].time_us == 10.5 && t.rows[0].low_us == 10 && t.rows[0].high_us == 11.25);
    assert_int_equal(t.rows[1].root, 1);
    assert_null(t.rows[1].op);
    assert_int_equal(t.rows[1].wrong, -1);
    assert_true(isnan(t.rows[1].low_us));
    bb_result_file_release(&t);
}

static void names_rows_of_other_benchmarks(void **state)
{
    static const char text[] =
        "{\"schema\": \"busbar.bench/1\", \"results\": [{\"metric\": \"latency\", \"direction\": \"one\", \"bytes\": "
        "8, "
        "\"from\": 0, \"to\": 11, \"time_us\": {\"p50\": 4, \"ci95\": [4, 5]}}, {\"step\": \"split\", \"ranks\": 4, "
        "\"parts\": 2, \"time_us\": null}, {\"collective\": \"all_reduce\", \"bytes\": 64, \"max_ctas\": 8, "
        "\"both_us\": {\"p50\": 9, \"ci95\": null}}, {\"collective\": \"all_reduce\", \"bytes\": 64, \"gemms\": 2, "
        "\"collectives\": 10, \"max_ctas\": null, \"both_us\": null}]}";
    struct bb_result_file t = read_text(text);

    (void)state;
    assert_int_equal(t.n, 4);
    assert_string_equal(t.rows[0].what, "latency 0>11 one");
    assert_true(t.rows[0].time_us == 4 && t.rows[0].high_us == 5);
    assert_string_equal(t.rows[1].what, "split, 4 ranks, 2 parts");
    assert_true(isnan(t.rows[1].time_us) && isnan(t.rows[1].low_us));
    assert_string_equal(t.rows[2].what, "all_reduce+gemm 8");
    assert_string_equal(t.rows[3].what, "10 all_reduce+2 gemm default");
    assert_true(t.rows[2].time_us == 9);
    bb_result_file_release(&t);
}

static void reads_a_proxy_as_one_row(void **state)
{
    struct bb_result_file t = read_text(proxy_text);

    (void)state;
    assert_int_equal(t.n, 1);
    assert_string_equal(t.rows[0].what, "gpt2_large");
    assert_string_equal(t.rows[0].mode, "step");
    assert_true(t.rows[0].time_us == 400.5 && t.rows[0].high_us == 402);
    assert_int_equal(t.rows[0].wrong, 0);
    bb_result_file_release(&t);
}

/* With 7 samples the median's confidence interval is the whole range: P(X < 1) = 1/128 <= 0.025 < P(X < 2). */
static void reads_nccl_tests_json(void **state)
{
    struct bb_result_file t = read_text(foreign_text);

    (void)state;
    assert_int_equal(t.n, 3);
    assert_string_equal(t.rows[0].what, "all_reduce");
    assert_string_equal(t.rows[0].placement, "out_of_place");
    assert_string_equal(t.rows[0].mode, "stream");
    assert_int_equal(t.rows[0].root, -1);
    assert_true(t.rows[0].time_us == 13 && t.rows[0].low_us == 10 && t.rows[0].high_us == 16);
    assert_int_equal(t.rows[0].wrong, 0);
    assert_true(t.rows[1].time_us == 13.5 && isnan(t.rows[1].low_us));
    assert_int_equal(t.rows[1].wrong, -1);
    assert_true(isnan(t.rows[2].time_us));
    assert_int_equal(t.rows[2].bytes, 2048);
    bb_result_file_release(&t);
}

static const char *difference(json_t *list, const char *what, const char *side)
{
    json_t *d;
    size_t i;

    json_array_foreach(list, i, d) if (strcmp(json_string_value(json_object_get(d, "what")), what) ==
                                       0) return json_is_null(json_object_get(d, side))
        ? "null"
        : json_string_value(json_object_get(d, side));
    return "same";
}

static void lists_differences_of_provenance(void **state)
{
    struct bb_result_file a = read_text(bench_text), b = read_text(foreign_text), c = read_text(bench_text);
    json_t *pa, *pb, *pc, *d;
    char *text;

    (void)state;
    json_object_del(json_object_get(c.root, "environment"), "NCCL_ALGO");
    json_object_set_new(json_object_get(c.root, "environment"), "OMPI_COMM_WORLD_LOCAL_SIZE", json_string("2"));
    json_object_set_new(json_object_get(c.root, "environment"), "EMU_TWINS", json_string("/x.so"));
    json_object_set_new(json_object_get(c.root, "environment"), "EMU_CLUSTER", json_string("c.json"));
    json_object_set_new(json_object_get(c.root, "options"), "agg_iters", json_integer(4));
    json_object_set_new(json_object_get(c.root, "options"), "json", json_string("other"));
    pa = bb_provenance_of(&a), pb = bb_provenance_of(&b), pc = bb_provenance_of(&c);
    assert_string_equal(json_string_value(json_object_get(pa, "devices")), "3 x X, 1 x Y");
    assert_string_equal(json_string_value(json_object_get(pb, "ranks")), "4");
    d = bb_provenance_differences(pa, pb);
    assert_string_equal(difference(d, "$NCCL_ALGO", "b"), "Tree");
    assert_string_equal(difference(d, "NCCL library", "a"), "same");
    assert_string_equal(difference(d, "ranks", "a"), "same");
    assert_string_equal(difference(d, "devices", "b"), "2 x X");
    assert_string_equal(difference(d, "--iters", "b"), "same"); /* nccl-tests output does not contain these options */
    text = json_dumps(pb, 0);
    assert_null(strstr(text, "secret"));
    free(text);
    json_decref(d);
    d = bb_provenance_differences(pa, pc);
    assert_string_equal(difference(d, "$NCCL_ALGO", "b"), "null");
    assert_string_equal(difference(d, "--agg-iters", "b"), "4");
    assert_string_equal(difference(d, "$EMU_CLUSTER", "b"), "c.json");
    assert_int_equal(json_array_size(d), 3); /* no other difference: launcher variables, EMU_TWINS and output files
                                                are ignored */
    json_decref(d), json_decref(pa), json_decref(pb), json_decref(pc);
    bb_result_file_release(&a), bb_result_file_release(&b), bb_result_file_release(&c);
}

static struct bb_timing timed(double low, double median, double high)
{
    return (struct bb_timing){.what = "x", .time_us = median, .low_us = low, .high_us = high};
}

static void verdicts_change_at_their_limits(void **state)
{
    struct bb_timing a = timed(10, 11, 12), b = timed(12, 13, 14), none = timed(NAN, 11, NAN), wrong = a;

    (void)state;
    wrong.wrong = 1;
    assert_int_equal(bb_verdict_of(&a, &b, NAN), BB_SAME); /* the intervals touch */
    b.low_us = 12.0001;
    assert_int_equal(bb_verdict_of(&a, &b, NAN), BB_SLOWER);
    assert_int_equal(bb_verdict_of(&b, &a, NAN), BB_FASTER);
    assert_int_equal(bb_verdict_of(&a, &a, NAN), BB_SAME);
    assert_int_equal(bb_verdict_of(&a, &none, NAN), BB_INCONCLUSIVE);
    assert_int_equal(bb_verdict_of(&none, &a, NAN), BB_INCONCLUSIVE);
    assert_int_equal(bb_verdict_of(&a, &wrong, NAN), BB_WRONG_DATA);
    /* if an interval is missing, the ratio of medians decides: 11/10, with limits at +10 % and at 1 / 1.1 */
    a = timed(NAN, 10, NAN), b = timed(10.9, 10.9, 10.9);
    assert_int_equal(bb_verdict_of(&a, &b, 10), BB_SAME);
    b.time_us = 11.1;
    assert_int_equal(bb_verdict_of(&a, &b, 10), BB_SLOWER);
    assert_int_equal(bb_verdict_of(&b, &a, 10), BB_FASTER);
    b.time_us = 9.2;
    assert_int_equal(bb_verdict_of(&a, &b, 10), BB_SAME);
    b.time_us = 0;
    assert_int_equal(bb_verdict_of(&a, &b, 10), BB_INCONCLUSIVE);
    a = b = timed(NAN, 0, NAN); /* predictions of 0 bytes */
    assert_int_equal(bb_verdict_of(&a, &b, 10), BB_SAME);
    /* exact times, as measured on emulated GPUs */
    a = timed(5, 5, 5), b = timed(5.001, 5.001, 5.001);
    assert_int_equal(bb_verdict_of(&a, &b, NAN), BB_SLOWER);
}

/* Sizes 1 2 2 3 against 3 2 4 2 2: another order, a repeated key, and one row or more without a match on each side. */
static void matches_rows_by_key(void **state)
{
    static const int sizes_a[] = {1, 2, 2, 3}, sizes_b[] = {3, 2, 4, 2, 2};
    struct bb_timing a[4], b[5];
    struct bb_result_file left = {.rows = a, .n = 4}, right = {.rows = b, .n = 5};
    long pair[4], pair_b[5];

    (void)state;
    for (int i = 0; i < 4; i++)
        a[i] = (struct bb_timing){.what = "x", .bytes = sizes_a[i]};
    for (int j = 0; j < 5; j++)
        b[j] = (struct bb_timing){.what = "x", .bytes = sizes_b[j]};
    json_decref(bb_match_rows(&left, &right, pair, pair_b));
    assert_int_equal(pair[0], -1);
    assert_int_equal(pair[1], 1);
    assert_int_equal(pair[2], 3);
    assert_int_equal(pair[3], 0);
    assert_memory_equal(pair_b, ((long[]){3, 1, -1, 2, -1}), sizeof pair_b);
    b[0].dtype = "half"; /* all fields of the key are compared */
    json_decref(bb_match_rows(&left, &right, pair, pair_b));
    assert_int_equal(pair[3], -1);
}

static int compare_with(double median_b, double threshold)
{
    struct bb_timing a = timed(9.9, 10, 10.1), b = timed(median_b - 0.1, median_b, median_b + 0.1);
    struct bb_result_file left = {.path = "a", .rows = &a, .n = 1}, right = {.path = "b", .rows = &b, .n = 1};

    return bb_compare(&left, &right, &(struct bb_regression_threshold){threshold, false}, false, NULL, NULL);
}

static void slowdown_beyond_the_threshold_fails(void **state)
{
    (void)state;
    assert_int_equal(compare_with(11, NAN), 0);
    assert_int_equal(compare_with(11, 11), 0);
    assert_int_equal(compare_with(11, 9), -BB_EBELOW);
    assert_int_equal(compare_with(9, 0), 0);
    assert_int_equal(compare_with(10.15, 0), 0); /* slower, but the intervals touch */
}

/* ---- damaged files ---- */

static unsigned long long next_random(unsigned long long *seed)
{
    *seed = *seed * 6364136223846793005ULL + 1442695040888963407ULL;
    return *seed >> 33;
}

/* Well-formed tokens in wrong places reach deeper code than broken bytes. */
static const char *const tokens[] = {"null",
                                     "true",
                                     "[]",
                                     "{}",
                                     "-1",
                                     "1e308",
                                     "\"nan\"",
                                     "\"\"",
                                     "[1]",
                                     "0.5",
                                     "\"9e9\"",
                                     "[[],[]]",
                                     "9223372036854775807"};

static size_t mutate(char *to, const char *from, size_t n, unsigned long long *seed)
{
    size_t at = next_random(seed) % n, end = at;
    const char *token = tokens[next_random(seed) % ROWS(tokens)];

    if (next_random(seed) % 4 == 0) { /* replace one byte */
        memcpy(to, from, n);
        to[at] = (char)next_random(seed);
        return n;
    }
    while (at < n && from[at] != ':')
        at++;
    for (end = at; end < n && from[end] != ',' && from[end] != '}'; end++)
        ;
    if (at == n) { /* no value to replace: truncate the file */
        memcpy(to, from, end = next_random(seed) % n);
        return end;
    }
    memcpy(to, from, at + 1);
    memcpy(to + at + 1, token, strlen(token));
    memcpy(to + at + 1 + strlen(token), from + end, n - end);
    return at + 1 + strlen(token) + n - end;
}

/* Returns 1 if the file was read, 0 if it was rejected. */
static int survives(const char *text, size_t n, FILE *sink)
{
    json_t *root = json_loadb(text, n, 0, NULL);
    struct bb_result_file t, good = read_text(bench_text);
    const struct bb_regression_threshold threshold = {0, n % 2};
    int rc;

    if (root) {
        rc = bb_result_file_from_tree(&t, "damaged", root);
        assert_true(rc == 0 || rc == -BB_EUSAGE);
        if (rc == 0) {
            rc = bb_compare(&good, &t, &threshold, true, sink, NULL);
            assert_true(rc == 0 || rc == -BB_EBELOW || rc == -BB_EUSAGE); /* BB_EUSAGE: other kinds of results */
            rc = bb_compare(&t, &good, &threshold, true, sink, NULL);
            assert_true(rc == 0 || rc == -BB_EBELOW || rc == -BB_EUSAGE);
            rc = bb_compare(&t, &t, &threshold, true, sink, NULL);
            assert_true(rc == 0 || rc == -BB_EBELOW);
            bb_result_file_release(&good);
            bb_result_file_release(&t);
            return 1;
        }
        bb_result_file_release(&t);
    }
    bb_result_file_release(&good);
    return 0;
}

static void damaged_files_do_not_crash(void **state)
{
    const char *const texts[] = {bench_text, proxy_text, foreign_text};
    static char one[8192], two[8192];
    unsigned long long seed = 20261120;
    FILE *sink = fopen("/dev/null", "w");
    int read = 0, rejected = 0;

    (void)state;
    assert_non_null(sink);
    bb_err_mute(1);
    for (int i = 0; i < 6000; i++) {
        const char *text = texts[i % 3];
        size_t n = mutate(one, text, strlen(text), &seed);

        if (i % 2 && n > 0) { /* mutate twice: a file can be wrong in two places */
            n = mutate(two, one, n, &seed);
            memcpy(one, two, n);
        }
        if (survives(one, n, sink))
            read++;
        else
            rejected++;
    }
    bb_err_mute(0);
    fclose(sink);
    assert_true(read > 500 && rejected > 500); /* both outcomes were tested */
}

static void rejects_other_json(void **state)
{
    static const char *const texts[] = {"[]",
                                        "{}",
                                        "{\"schema\": 3}",
                                        "{\"schema\": \"busbar.plan/1\"}",
                                        "{\"schema\": \"busbar.bench/1\"}",
                                        "{\"schema\": \"busbar.bench/1\", \"results\": [1]}",
                                        "{\"version\": 3}"};
    struct bb_result_file t;

    (void)state;
    bb_err_mute(1);
    for (size_t i = 0; i < ROWS(texts); i++) {
        assert_int_equal(bb_result_file_from_tree(&t, "x", json_loads(texts[i], 0, NULL)), -BB_EUSAGE);
        bb_result_file_release(&t);
    }
    assert_int_equal(bb_result_file_load(&t, "/nowhere/x.json"), -BB_EUSAGE);
    bb_result_file_release(&t);
    bb_err_mute(0);
}

/* Required and optional fields of a row; a field of the wrong type is rejected in both cases. */
static void checks_required_and_optional_fields(void **state)
{
#define PROXY(fields) "{\"schema\": \"busbar.proxy/1\", " fields "}"
#define PLAN(fields)  "{\"schema\": \"busbar.plan/1\", " fields "}"
#define BENCH(fields) "{\"schema\": \"busbar.bench/1\", \"results\": [{" fields "}]}"
    static const struct {
        const char *text;
        int rc;
    } rows[] = {
        {PROXY("\"proxy\": \"x\", \"step_us\": {\"p50\": 1}"), 0},
        {PROXY("\"step_us\": {\"p50\": 1}"), -BB_EUSAGE},
        {PROXY("\"proxy\": null, \"step_us\": {\"p50\": 1}"), -BB_EUSAGE},
        {PROXY("\"proxy\": \"x\""), -BB_EUSAGE},
        {PROXY("\"proxy\": \"x\", \"step_us\": {\"p50\": -1}"), -BB_EUSAGE},
        {PROXY("\"proxy\": \"x\", \"step_us\": {\"p50\": 0}"), 0},
        {PROXY("\"proxy\": \"x\", \"step_us\": {\"p50\": 1, \"ci95\": [1]}"), -BB_EUSAGE},
        {PROXY("\"proxy\": \"x\", \"step_us\": {\"p50\": 1, \"ci95\": [1, 1]}"), 0},
        {PROXY("\"proxy\": \"x\", \"step_us\": {\"p50\": 1, \"ci95\": [2, 1]}"), -BB_EUSAGE},
        {PROXY("\"proxy\": \"x\", \"step_us\": {\"p50\": 1, \"ci95\": [1, null]}"), -BB_EUSAGE},
        {PLAN("\"proxy\": \"x\", \"predicted\": {\"cluster\": \"c\", \"step_us\": 2.5}"), 0},
        {PLAN("\"predicted\": {\"cluster\": \"c\", \"step_us\": 2.5}"), -BB_EUSAGE},
        {PLAN("\"proxy\": \"x\""), -BB_EUSAGE},
        {PLAN("\"proxy\": \"x\", \"predicted\": {\"cluster\": \"c\", \"step_us\": -1}"), -BB_EUSAGE},
        {BENCH("\"collective\": \"x\", \"time_us\": {\"p50\": 1}"), 0},
        {BENCH("\"time_us\": {\"p50\": 1}"), -BB_EUSAGE},
        {BENCH("\"collective\": \"x\", \"dtype\": 3, \"time_us\": {\"p50\": 1}"), -BB_EUSAGE},
        {BENCH("\"collective\": \"x\", \"placement\": [], \"time_us\": {\"p50\": 1}"), -BB_EUSAGE},
        {BENCH("\"collective\": \"x\", \"bytes\": \"many\", \"time_us\": {\"p50\": 1}"), -BB_EUSAGE},
        {BENCH("\"collective\": \"x\", \"bytes\": \"1024\", \"time_us\": {\"p50\": 1}"), -BB_EUSAGE},
        {BENCH("\"collective\": \"x\", \"bytes\": -8, \"time_us\": {\"p50\": 1}"), -BB_EUSAGE},
        {BENCH("\"collective\": \"x\", \"wrong\": -1, \"time_us\": {\"p50\": 1}"), -BB_EUSAGE},
        {BENCH("\"collective\": \"x\", \"bytes\": 8, \"time_us\": {\"p50\": \"1.0\"}"), -BB_EUSAGE},
    };
    struct bb_result_file t;

    (void)state;
    bb_err_mute(1);
    for (size_t i = 0; i < ROWS(rows); i++) {
        print_message("  %s\n", rows[i].text);
        assert_int_equal(bb_result_file_from_tree(&t, "x", json_loads(rows[i].text, 0, NULL)), rows[i].rc);
        bb_result_file_release(&t);
    }
    bb_err_mute(0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(holm_stops_at_the_first_large_p_value),
        cmocka_unit_test(reads_bench_rows),
        cmocka_unit_test(reads_a_proxy_as_one_row),
        cmocka_unit_test(names_rows_of_other_benchmarks),
        cmocka_unit_test(reads_nccl_tests_json),
        cmocka_unit_test(lists_differences_of_provenance),
        cmocka_unit_test(verdicts_change_at_their_limits),
        cmocka_unit_test(matches_rows_by_key),
        cmocka_unit_test(slowdown_beyond_the_threshold_fails),
        cmocka_unit_test(damaged_files_do_not_crash),
        cmocka_unit_test(rejects_other_json),
        cmocka_unit_test(checks_required_and_optional_fields),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
