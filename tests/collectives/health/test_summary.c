/* test_summary.c - the command that continues after nodes of a Slurm job were lost. */
#include "collectives/health/summary.h"
#include "tests/check.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static const char results[] =
    "{'stage': 'pairs', 'ranks': 8, 'reason': 'rank 2 (b) is lost', 'lost_ranks': [2, 3], 'command': ['health', "
    "'--from', 'gpu', '--only', 'all', '--json=a b.json'],"
    "'options': {'gpus': 1, 'only': 'all'}, 'findings': [], 'checks': [], 'tests': [],"
    "'devices': [{'host': 'a'}, {'host': 'a'}, {'host': 'b'}, {'host': 'b'}],"
    "'verdicts': [{'node': 0, 'host': 'a', 'slurm_node': 'a', 'level': 'ok'}, {'node': 1, 'host': 'b', 'slurm_node': "
    "'b', 'level': 'ok'},"
    "{'node': 2, 'host': 'c', 'slurm_node': 'c', 'level': 'fail'}, {'node': 3, 'host': 'd', 'slurm_node': 'd', "
    "'level': 'warn'}]}";

static json_t *read_results(void)
{
    char json[sizeof results];

    strcpy(json, results);
    for (char *c = json; *c; c++)
        *c = *c == '\'' ? '"' : *c;
    return json_loads(json, 0, NULL);
}

/* Returns the report of a run that has ended early. */
static char *report(json_t *root, const json_t *rows)
{
    static char text[4096];
    FILE *file = tmpfile();
    const int out = dup(STDOUT_FILENO);

    fflush(stdout);
    dup2(fileno(file), STDOUT_FILENO);
    bb_health_end_early(root, rows);
    dup2(out, STDOUT_FILENO);
    close(out);
    rewind(file);
    text[fread(text, 1, sizeof text - 1, file)] = '\0';
    fclose(file);
    return text;
}

/* Pairs are missing because the run ended. */
static void test_run_that_ended_early_needs_no_more_rounds(void **state)
{
    json_t *root = read_results(), *rows = json_pack("[{s:s, s:i, s:i}]", "stage", "pairs", "node", 0, "partner", 3);
    const char *text;

    (void)state;
    json_object_set_new(root, "lost_ranks", json_array());
    json_object_set_new(root, "paths", json_pack("{s:i, s:i}", "tested", 0, "total", 6));
    text = report(root, rows);
    assert_non_null(strstr(text, "; pairs of nodes tested: 1 of 6"));
    assert_null(strstr(text, "--rounds"));
    json_decref(rows);
    json_decref(root);
}

static void test_srun_excludes_failed_nodes(void **state)
{
    json_t *root = read_results();
    const char *text;

    (void)state;
    unsetenv("OMPI_COMM_WORLD_SIZE");
    unsetenv("MPI_LOCALNRANKS");
    setenv("SLURM_PROCID", "0", 1);
    text = report(root, NULL);
    assert_int_equal(strncmp(text, "fail    pairs     b: rank 2 and 1 more were lost in stage pairs\n", 61), 0);
    assert_non_null(strstr(text,
                           "# continue: srun --exclude=b,c -N 2 -n 4 busbar health --only all '--json=a b.2.json' "
                           "--from pairs\n"));
    json_decref(root);
}

/* Returns the report of a run that ended with this line. lost: whether the line is about lost_ranks */
static char *report_of(json_t *root, const char *line, bool lost)
{
    json_object_set_new(root, "reason", json_string(line));
    if (!lost)
        json_object_del(root, "lost_ranks");
    return report(root, NULL);
}

static void test_rank_whose_call_fails_fails_its_node(void **state)
{
    const char line[] =
        "rank 2 (b, GPU 0): ncclAllReduce: unhandled system error (run with NCCL_DEBUG=INFO): x (a.c:1)",
               failed[] = "b: rank 2 failed, GPU 0: ncclAllReduce: unhandled system error\n";
    json_t *root = read_results();
    const char *text = report_of(root, line, false);

    (void)state;
    assert_non_null(strstr(text, failed));
    assert_non_null(strstr(text, "; 4 nodes: 1 ok, 1 warn, 2 fail, 0 unknown"));
    json_decref(root);
}

/* Slurm keeps 255 characters of a reason: the begin of the new one, whole words of CUDA's, and then of what failed
 * before. */
static void test_long_reason_is_cut_at_a_word(void **state)
{
    char line[512] = "rank 2 (b, GPU 0): cudaLaunchKernel:", others[240] = "GPU 1 GEMM";
    json_t *root = read_results(), *verdict = json_array_get(json_object_get(root, "verdicts"), 1);
    const char *reason;

    (void)state;
    while (strlen(line) < 400)
        strcat(line, " the launch timed out and was terminated");
    while (strlen(others) < 200)
        strcat(others, " at 77 %,");
    json_object_set_new(verdict, "reason", json_string(others));
    (void)report_of(root, line, false);
    reason = json_string_value(json_object_get(verdict, "reason"));
    assert_true(strlen(reason) <= 255 && strlen(reason) > 200);
    assert_int_equal(strncmp(reason, "rank 2 failed, GPU 0: cudaLaunchKernel: the launch", 50), 0);
    assert_string_equal(reason + strlen(reason) - 3, " ..");
    assert_non_null(strstr(reason, " and was terminated, GPU 1 GEMM at 77 %"));
    json_decref(root);
}

static void test_no_node_is_ok_if_the_cause_is_unknown(void **state)
{
    static const char *const lines[] = {
        "timeout: x did not end within 1 s; all 8 ranks are in this call", "ended by SIGTERM; last seen: x",
        "rank 2 (b): ncclAllReduce: remote process exited or there was a network error"};
    static const char *const counts[] = {"0 ok, 1 warn, 0 fail, 3 unknown", "3 ok, 1 warn, 0 fail, 0 unknown",
                                         "0 ok, 1 warn, 0 fail, 3 unknown"};

    (void)state;
    for (int i = 0; i < 3; i++) {
        json_t *root = read_results();

        json_object_set_new(json_array_get(json_object_get(root, "verdicts"), 2), "level", json_string("ok"));
        if (i == 1)
            json_object_set_new(root, "ended_by", json_string("SIGTERM"));
        assert_non_null(strstr(report_of(root, lines[i], false), counts[i]));
        json_decref(root);
    }
}

/* A node hangs before the last stage: the others were not tested in it. */
static void test_no_node_is_ok_if_a_test_is_missing(void **state)
{
    json_t *root = read_results();

    (void)state;
    json_array_append_new(json_object_get(root, "tests"), json_pack("{s:s, s:n}", "stage", "pairs", "median"));
    assert_non_null(strstr(report_of(root, "2 ranks are lost: rank 2 (b), last seen: x; rank 3 (b)", true),
                           "; 4 nodes: 0 ok, 1 warn, 2 fail, 1 unknown"));
    json_decref(root);
}

static void test_several_lost_ranks_were_lost(void **state)
{
    json_t *root = read_results();

    (void)state;
    assert_non_null(strstr(report_of(root, "2 ranks are lost: rank 2 (b), last seen: x; rank 3 (b)", true),
                           "b: rank 2 and 1 more were lost in stage pairs\n"));
    json_decref(root);
}

/* The run went on without node b, whose loss is in the findings; then the launcher ended the job because of this
 * loss. */
static void test_loss_in_the_findings_is_named_once(void **state)
{
    static const char line[] = "2 ranks are lost: rank 2 (b), last seen: x; rank 3 (b)";
    json_t *root = read_results();

    (void)state;
    (void)report_of(root, line, true);
    assert_non_null(strstr(report_of(root, line, true), "; 4 nodes: 1 ok, 1 warn, 2 fail, 0 unknown"));
    assert_int_equal(json_array_size(json_object_get(root, "findings")), 1);
    json_decref(root);
}

/* Slurm's database keeps 255 characters of a reason. */
static void test_reason_of_a_drained_node_has_a_limit(void **state)
{
    json_t *root = read_results(), *node = json_array_get(json_object_get(root, "verdicts"), 2);
    char line[1024] = "", many[300];
    FILE *out = fmemopen(line, sizeof line, "w");
    const char *begin = "scontrol update nodename=c state=drain reason=\"";

    (void)state;
    for (size_t i = 0; i < sizeof many - 1; i++)
        many[i] = i % 20 == 19 ? ' ' : 'x';
    many[sizeof many - 1] = '\0';
    json_object_set_new(node, "reason", json_string("GEMM at 70 %"));
    json_object_set_new(root, "restricted_by", json_string(many));
    bb_health_print_drain(root, out);
    fclose(out);
    assert_int_equal(strncmp(line, begin, strlen(begin)), 0);
    assert_non_null(strstr(line, "busbar: GEMM at 70 %; restricted by xxxxx"));
    assert_string_equal(line + strlen(line) - 6, "x ..\"\n");
    assert_in_range(strlen(line + strlen(begin)) - strlen("\"\n"), 200, 255);
    json_decref(root);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_run_that_ended_early_needs_no_more_rounds),
                                       cmocka_unit_test(test_srun_excludes_failed_nodes),
                                       cmocka_unit_test(test_rank_whose_call_fails_fails_its_node),
                                       cmocka_unit_test(test_long_reason_is_cut_at_a_word),
                                       cmocka_unit_test(test_reason_of_a_drained_node_has_a_limit),
                                       cmocka_unit_test(test_no_node_is_ok_if_the_cause_is_unknown),
                                       cmocka_unit_test(test_no_node_is_ok_if_a_test_is_missing),
                                       cmocka_unit_test(test_loss_in_the_findings_is_named_once),
                                       cmocka_unit_test(test_several_lost_ranks_were_lost)};

    return cmocka_run_group_tests(tests, NULL, NULL);
}
