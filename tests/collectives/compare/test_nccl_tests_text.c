/*
 * test_nccl_tests_text.c - converts the text output of nccl-tests to the JSON of its option -J: table layouts of
 * several versions, unrelated lines around and between, and rejected output with the reported line number.
 */
#include "collectives/compare/nccl_tests_text.h"
#include "collectives/compare/result_reader.h"
#include "tests/bootstrap/capture.h"
#include "tests/check.h"

#include <math.h>

#define SETTINGS                                                                                                       \
    "# nThread 1 nGpus 1 minBytes 8 maxBytes 64 step: 2(factor) warmup iters: 5 iters: 30 agg iters: 1 validation: 1 " \
    "graph: 0\n"
#define HEADING                                                                                                        \
    "#                                                              out-of-place                       in-place\n"     \
    "#       size         count      type   redop    root     time   algbw   busbw #wrong     time   algbw   busbw "   \
    "#wrong\n"                                                                                                         \
    "#        (B)    (elements)                               (us)  (GB/s)  (GB/s)            (us)  (GB/s)  (GB/s)\n"
#define RANK(r, host, id) "#  Rank  " r " Group  0 Pid   4711 on   " host " device  0 [" id "] NVIDIA H100 80GB HBM3\n"
#define TWO_RANKS         RANK("0", "left", "0x8d") RANK("1", "left", "0x91")
#define ROW                                                                                                            \
    "     1048576        262144     float     sum      -1    27.76   37.78   37.78      0    27.49   38.15   38.15   " \
    " N/A\n"
#define END      "# Out of bounds values : 0 OK\n# Avg bus bandwidth    : 40\n# Collective test concluded: all_reduce_perf\n"
#define STARTING "# Collective test starting: all_reduce_perf\n"

/* Returns the list of runs; NULL: rejected. */
static json_t *runs_of(const char *text, struct bb_nccl_tests_output p)
{
    json_t *runs;
    int rc;

    p.path = "file";
    p.file = fmemopen((void *)(size_t)text, strlen(text), "r");
    assert_non_null(p.file);
    rc = bb_nccl_tests_text_read(&p, &runs);
    fclose(p.file);
    assert_int_equal(rc, runs ? 0 : -BB_EUSAGE);
    return runs;
}

static int read_text(const char *text, const char *operation, struct bb_result_file *t)
{
    json_t *runs = runs_of(text, (struct bb_nccl_tests_output){.operation = operation});

    *t = (struct bb_result_file){0};
    if (!runs)
        return -BB_EUSAGE;
    assert_int_equal(json_array_size(runs), 1);
    assert_int_equal(bb_result_file_from_tree(t, "file", json_incref(json_array_get(runs, 0))), 0);
    json_decref(runs);
    return 0;
}

static struct bb_result_file rows_of(const char *text, const char *operation)
{
    struct bb_result_file t;

    assert_int_equal(read_text(text, operation, &t), 0);
    return t;
}

/* Layout since 2.16.7, with messages of NCCL and the launcher in between. */
static void reads_current_output(void **state)
{
    struct bb_result_file t =
        rows_of("Warning: known hosts\n"
                "# nccl-tests version 2.18.3 nccl-headers=23003 nccl-library=22907\n" STARTING SETTINGS
                "#\n# Using devices\n" TWO_RANKS "left:4711:4712 [0] NCCL INFO 8 coll channels\n"
                "#\n" HEADING "left:4711:4712 [0] NCCL INFO AllReduce: 8 Bytes\n" ROW
                "     2097152        524288  bfloat16     sum      -1    1e+02   37.78   37.78      7"
                "      nan    0.00    0.00      0\n" END "8 more words\n",
                NULL);

    (void)state;
    assert_int_equal(t.n, 4);
    assert_string_equal(t.rows[0].what, "all_reduce");
    assert_string_equal(t.rows[0].dtype, "float");
    assert_string_equal(t.rows[0].op, "sum");
    assert_string_equal(t.rows[0].mode, "stream");
    assert_string_equal(t.rows[1].placement, "in_place");
    assert_int_equal(t.rows[0].bytes, 1048576);
    assert_true(t.rows[0].time_us == 27.76 && t.rows[1].time_us == 27.49 && t.rows[2].time_us == 100);
    assert_true(t.rows[0].wrong == 0 && t.rows[1].wrong == -1 && t.rows[2].wrong == 7);
    assert_true(isnan(t.rows[3].time_us));
    assert_int_equal(bb_result_file_nccl_tests_ranks(t.root), 2);
    assert_int_equal(json_integer_value(json_object_get(t.root, "nccl_version")), 22907);
    assert_int_equal(json_integer_value(json_object_get(json_object_get(t.root, "config"), "iterations")), 30);
    assert_string_equal(
        json_string_value(json_object_get(json_array_get(bb_result_file_nccl_tests_devices(t.root), 1), "device_info")),
        "NVIDIA H100 80GB HBM3");
    assert_null(json_object_get(t.root, "shared_gpu"));
    assert_null(json_object_get(t.root, "emulated"));
    bb_result_file_release(&t);
}

/* Before 2.13 the table had no root and no group, all_gather had no redop, and the error column was a difference. */
static void reads_output_before_2_13(void **state)
{
    struct bb_result_file t = rows_of(
        "# nThread 1 nGpus 1 minBytes 8 maxBytes 8 step: 2(factor) warmup iters: 5 iters: 100 validation: 1 \n#\n"
        "#   Rank  0 Pid   1320 on       left device  0 [0x00] Tesla V100-SXM2-16GB\n"
        "#   Rank  1 Pid   1321 on      right device  0 [0x00] Tesla V100-SXM2-16GB\n"
        "NCCL version 2.10.3+cuda11.4\n"
        "#       size         count    type     time   algbw   busbw  error     time   algbw   busbw  error\n"
        "#        (B)    (elements)             (us)  (GB/s)  (GB/s)            (us)  (GB/s)  (GB/s)\n"
        "    33554432       4194304   float   1002.1   33.48   16.74  0e+00   1001.9   33.49   16.74  1e-07\r\n" END,
        "all_gather");

    (void)state;
    assert_int_equal(t.n, 2);
    assert_string_equal(t.rows[0].what, "all_gather");
    assert_null(t.rows[0].op);
    assert_string_equal(
        json_string_value(json_object_get(json_array_get(json_object_get(t.root, "results"), 0), "root")), "-1");
    assert_true(t.rows[0].time_us == 1002.1 && t.rows[1].time_us == 1001.9);
    assert_int_equal(json_integer_value(json_object_get(t.root, "nccl_version")), 21003);
    bb_result_file_release(&t);
}

/* Version 2.10, one process: alltoall has no reduction, and the GPUs differ in the device number only. */
static void reads_a_blank_redop_and_gpus_of_one_bus(void **state)
{
    struct bb_result_file t = rows_of(
        "# nThread 1 nGpus 2 minBytes 8 maxBytes 8 step: 2(factor) warmup iters: 5 iters: 20 validation: 1 \n#\n"
        "#   Rank  0 Pid  30127 on compute000004 device  0 [0x01] Tesla V100-SXM2-16GB\n"
        "#   Rank  1 Pid  30127 on compute000004 device  1 [0x01] Tesla V100-SXM2-16GB\n"
        "#       size         count      type   redop     time   algbw   busbw  error     time   algbw   busbw  error\n"
        "    33554432       4194304     float           1002.1   33.48   16.74  0e+00   1001.9   33.49   16.74    N/A\n"
        "    67108864       8388608     float     sum   2002.1   33.52   16.76  0e+00   2001.9   33.52   16.76    "
        "N/A\n",
        "alltoall");

    (void)state;
    assert_int_equal(t.n, 4);
    assert_true(t.rows[0].time_us == 1002.1 && t.rows[1].time_us == 1001.9 && t.rows[3].time_us == 2001.9);
    assert_null(json_object_get(t.root, "shared_gpu"));
    bb_result_file_release(&t);
}

/* A script prints one run after the other. */
static void reads_several_runs(void **state)
{
    static const char text[] =
        "# nccl-tests version 2.18.3 nccl-library=22907\n" STARTING SETTINGS TWO_RANKS HEADING ROW END
        "+ mpirun -n 3 all_gather_perf\n# nccl-tests version 2.18.3 nccl-library=22908\n"
        "# Collective test starting: all_gather_perf\n" SETTINGS TWO_RANKS RANK("2", "left", "0x95") HEADING ROW ROW;
    json_t *runs = runs_of(text, (struct bb_nccl_tests_output){.several = true});
    const struct {
        const char *program;
        int ranks, rows, nccl;
    } expected[] = {{"all_reduce_perf", 2, 1, 22907}, {"all_gather_perf", 3, 2, 22908}};

    (void)state;
    assert_int_equal(json_array_size(runs), ROWS(expected));
    for (size_t i = 0; i < ROWS(expected); i++) {
        const json_t *run = json_array_get(runs, i);

        assert_string_equal(json_string_value(json_array_get(json_object_get(run, "args"), 0)), expected[i].program);
        assert_int_equal(bb_result_file_nccl_tests_ranks(run), expected[i].ranks);
        assert_int_equal(json_array_size(json_object_get(run, "results")), expected[i].rows);
        assert_int_equal(json_integer_value(json_object_get(run, "nccl_version")), expected[i].nccl);
        assert_null(json_object_get(run, "shared_gpu"));
    }
    json_decref(runs);
}

/* Published logs shorten or leave out the list of devices; the user states the ranks. */
static void reads_stated_ranks_and_nodes(void **state)
{
    static const char *const lists[] = {"", "#  Rank  0 Group  0 Pid 9 on xxxx device  0 [0x01] NVIDIA GB200\n# ...\n"
                                            "#  Rank 71 Group  0 Pid 9 on xxxx device  3 [0x01] NVIDIA GB200\n"};

    (void)state;
    for (size_t i = 0; i < ROWS(lists); i++) {
        char text[2048];
        const json_t *devices;
        json_t *runs;

        snprintf(text, sizeof(text), "%s%s%s", SETTINGS, lists[i],
                 HEADING "1048576 262144 float sum -1 27.76 37.77 74.5 0 27.49 38.15 75.2 0\n");
        runs = runs_of(text, (struct bb_nccl_tests_output){.operation = "all_reduce", .ranks = 72, .nodes = 18});
        devices = bb_result_file_nccl_tests_devices(json_array_get(runs, 0));
        assert_int_equal(bb_result_file_nccl_tests_ranks(json_array_get(runs, 0)), 72);
        for (size_t rank = 0; rank < 72; rank += 71) {
            const json_t *device = json_array_get(devices, rank);

            assert_string_equal(json_string_value(json_object_get(device, "hostname")), rank ? "node 17" : "node 0");
            assert_string_equal(json_string_value(json_object_get(device, "device_info")),
                                i ? "NVIDIA GB200" : "unknown");
        }
        json_decref(runs);
    }
}

/* -I 1 and -S 1 add columns. */
static void ignores_additional_columns(void **state)
{
    struct bb_result_file t = rows_of(
        STARTING SETTINGS TWO_RANKS
        "#       size         count      type   redop    root     time   algbw   busbw  #wrong    i_min    i_max    "
        "i_p99 "
        "   i_cv%     time   algbw   busbw  #wrong    i_min    i_max    i_p99    i_cv%           timestamp\n"
        "        1024           256     float     sum      -1    10.00    0.10    0.10       0     9.00    11.00    "
        "11.00 "
        "   1.00    12.00    0.09    0.09       3    11.00    13.00    13.00    1.00  2026-11-22 18:00:00\n" END,
        "all_reduce");

    (void)state;
    assert_int_equal(t.n, 2);
    assert_true(t.rows[0].time_us == 10 && t.rows[1].time_us == 12);
    assert_true(t.rows[0].wrong == 0 && t.rows[1].wrong == 3);
    bb_result_file_release(&t);
}

static void ignores_line_prefixes_of_launchers(void **state)
{
    static const char *const texts[] = {
        "[1,0]<stdout>:" STARTING "[1,0]<stdout>:" SETTINGS
        "[1,0]<stdout>:" RANK("0", "a", "0x1") "[1,0]<stdout>:" RANK(
            "1", "b", "0x1") "[1,0]<stdout>:#  size count type redop root time algbw busbw #wrong\n[1,0]<stdout>:" ROW,
        "0: " STARTING "0: " SETTINGS " 0: " RANK("0", "a", "0x1") "0: " RANK(
            "1", "b", "0x1") "0: #  size count type redop root time algbw busbw #wrong\n0: " ROW};

    (void)state;
    for (size_t i = 0; i < ROWS(texts); i++) {
        struct bb_result_file t = rows_of(texts[i], NULL);

        assert_int_equal(t.n, 1);
        assert_true(t.rows[0].time_us == 27.76);
        bb_result_file_release(&t);
    }
}

static void keeps_the_settings_of_the_run(void **state)
{
    struct bb_result_file t =
        rows_of(STARTING "# nThread 1 nGpus 1 warmup iters: 1 iters: 20 agg iters: 4 validation: 1 graph: 3\n"
                         "# Blocking Enabled: wait and barrier after each inner iteration (-m) \n"
                         "# emulated GPUs: all times come from a model\n" RANK("0", "left", "0x8d")
                             RANK("1", "left", "0x8d") HEADING ROW,
                NULL);
    const json_t *config = json_object_get(t.root, "config");

    (void)state;
    assert_int_equal(json_integer_value(json_object_get(config, "aggregated_iterations")), 4);
    assert_int_equal(json_integer_value(json_object_get(config, "graph")), 3);
    assert_true(json_is_true(json_object_get(config, "blocking_collectives")));
    assert_true(json_is_true(json_object_get(t.root, "shared_gpu")));
    assert_true(json_is_true(json_object_get(t.root, "emulated")));
    bb_result_file_release(&t);
}

static const struct {
    const char *text, *operation, *expected;
} rejected[] = {
    {"hello\n", NULL, "neither a JSON object nor nccl-tests output"},
    {STARTING SETTINGS TWO_RANKS, NULL, "nccl-tests output with a table"},
    {STARTING SETTINGS TWO_RANKS HEADING END, NULL, "no rows"},
    {STARTING SETTINGS HEADING ROW, NULL, "no devices"},
    {SETTINGS TWO_RANKS HEADING ROW, NULL, "try: all_reduce=file"},
    {STARTING SETTINGS TWO_RANKS HEADING ROW, "all_gather", "all_reduce_perf, not of all_gather"},
    {SETTINGS TWO_RANKS HEADING ROW, "all_gather", "busbw / algbw is 1, but all_gather on 2 ranks has 0.5"},
    {STARTING SETTINGS TWO_RANKS HEADING ROW SETTINGS, NULL, "line 9: a second run"},
    {STARTING SETTINGS SETTINGS TWO_RANKS HEADING ROW, NULL, "line 3: a second run of nccl-tests begins before"},
    {STARTING SETTINGS TWO_RANKS HEADING "8 2 float sum -1 3.0 1 1 0 3 1 1\n", NULL, "line 8: the row has 12 words"},
    {STARTING SETTINGS TWO_RANKS HEADING ROW HEADING, NULL, "line 10: a second table"},
    {STARTING SETTINGS RANK("0", "a", "0x1") RANK("0", "b", "0x1") HEADING ROW, NULL, "line 4: rank 0 instead of 1"},
    {STARTING SETTINGS RANK("0", "a", "0x1") RANK("2", "b", "0x1") HEADING ROW, NULL, "line 4: rank 2 instead of 1"},
    {STARTING SETTINGS "#  Rank  0 Group  0 Pid 1 on hos...\n" HEADING ROW, NULL, "line 3: incomplete device line"},
    {STARTING SETTINGS "#  Rank  0 Pid 1 on \xff device 0 [0x1] X\n" HEADING ROW, NULL, "line 3: the device name"},
    {STARTING SETTINGS TWO_RANKS "#  size  latency\n", NULL, "line 5: not a table heading"},
    {STARTING SETTINGS TWO_RANKS HEADING "8 2 float sum -1 3.0\n", NULL,
     "line 8: the row has 6 words, expected 13 columns with an integer size"},
    {STARTING SETTINGS TWO_RANKS HEADING "8 2 float sum -1 3.0left: 1 1 0 3 1 1 0\n", NULL,
     "line 8: '3.0left:' in column 6"},
    {STARTING SETTINGS TWO_RANKS HEADING "8 2 float sum -1 -3 1 1 0 3 1 1 0\n", NULL, "line 8: '-3' in column 6"},
    {STARTING SETTINGS TWO_RANKS HEADING "99999999999999999999 2 float sum -1 3 1 1 0 3 1 1 0\n", NULL,
     "line 8: the row has 13 words, expected 13 columns with an integer size"},
    {STARTING SETTINGS TWO_RANKS HEADING "8 2 \xff sum -1 3 1 1 0 3 1 1 0\n", NULL,
     "line 8: the row is not valid UTF-8"},
};

static void rejects_invalid_output_with_line_number(void **state)
{
    struct bb_result_file t;

    (void)state;
    for (size_t i = 0; i < ROWS(rejected); i++) {
        struct capture captured;
        int rc;

        capture_begin(&captured);
        rc = read_text(rejected[i].text, rejected[i].operation, &t);
        capture_end(&captured);
        assert_int_equal(rc, -BB_EUSAGE);
        if (!strstr(captured.text, rejected[i].expected) ||
            strchr(captured.text, '\n') != captured.text + strlen(captured.text) - 1)
            fail_msg("%zu: '%s', expected '%s'", i, captured.text, rejected[i].expected);
        bb_result_file_release(&t);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(reads_current_output),
        cmocka_unit_test(reads_output_before_2_13),
        cmocka_unit_test(reads_a_blank_redop_and_gpus_of_one_bus),
        cmocka_unit_test(reads_several_runs),
        cmocka_unit_test(reads_stated_ranks_and_nodes),
        cmocka_unit_test(ignores_additional_columns),
        cmocka_unit_test(ignores_line_prefixes_of_launchers),
        cmocka_unit_test(keeps_the_settings_of_the_run),
        cmocka_unit_test(rejects_invalid_output_with_line_number),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
