/* test_hangs.c - the report and exit status of a job in which a rank or an operation hangs. Each job waits for its
 * timeout. */
#include "tests/bootstrap/job.h"

static void names_a_stalled_rank(void **state)
{
    struct job job;

    (void)state;
    start(&job, "stall", 2, 2);
    expect_text(&job, "timeout in probe all_reduce 4 MiB: the second barrier did not end within 2 s; 1 of 4 ranks did "
                      "not arrive: rank 2 (");
    expect_text(&job, "), last seen: probe all_reduce 4 MiB");
    expect_one_line(&job);
    expect_status(&job, 4, -1);
    expect_results(&job, "timeout");
    clear(&job);
}

static void names_a_stalled_rank_0(void **state)
{
    struct job job;

    (void)state;
    start(&job, "stall", 0, 2);
    expect_text(&job, "1 of 4 ranks did not arrive: rank 0 (");
    expect_status(&job, 4, -1);
    clear(&job);
}

/* Rank and supervisor are stopped, with an mpirun that kills the remaining processes. */
static void names_a_stopped_supervisor(void **state)
{
    struct job job;

    (void)state;
    start_as(&job, "", "stop", 2, 2);
    expect_text(&job, "the second barrier did not end within 2 s; 1 of 4 ranks did not arrive: rank 2 (");
    expect_text(&job, "), last seen: probe all_reduce 4 MiB, does not answer");
    expect_one_line(&job);
    clear(&job);
}

/* The supervisor of rank 0 does not answer, so the backup server prints the line. */
static void another_supervisor_reports_a_stopped_server(void **state)
{
    struct job job;

    (void)state;
    start_as(&job, "", "stop", 0, 2);
    expect_text(&job, "timeout in probe all_reduce 4 MiB: the second barrier did not end within 2 s; 1 of 4 ranks did "
                      "not arrive: rank 0 (");
    expect_text(&job, ", does not answer");
    expect_one_line(&job);
    clear(&job);
}

/* Only the rank is stopped: its supervisor ends the rank, too. */
static void names_a_stopped_rank(void **state)
{
    static const char *const names[] = {
        [0] = "; 1 of 4 ranks did not arrive: rank 0 (", [2] = "; 1 of 4 ranks did not arrive: rank 2 ("};
    struct job job;

    (void)state;
    for (int rank = 0; rank <= 2; rank += 2) {
        start(&job, "stoprank", rank, 2);
        expect_text(&job, names[rank]);
        expect_text(&job, "), last seen: probe all_reduce 4 MiB");
        assert_null(strstr(job.err, "does not answer"));
        expect_one_line(&job);
        expect_status(&job, 4, -1);
        expect_results(&job, "timeout");
        clear(&job);
    }
}

static void names_a_rank_in_a_hanging_call(void **state)
{
    struct job job;

    (void)state;
    start(&job, "guard", 1, 2);
    expect_text(&job, "all 4 ranks arrived, but these wait for something else: rank 1 (");
    expect_text(&job, "waiting for a call that hangs");
    expect_status(&job, 4, -1);
    clear(&job);
}

/* The message names the smaller group of ranks, whichever rank reports the hang first. */
static void names_the_smaller_group(void **state)
{
    struct job job;

    (void)state;
    start(&job, "guards", 0, 2);
    if (!strstr(job.err, "all 4 ranks arrived, but these wait for something else: rank 0 (") &&
        !strstr(job.err, "all 4 ranks arrived, but only these wait for it: rank 0 ("))
        fail_msg("rank 0 is not named:\n%s", job.err);
    assert_null(strstr(job.err, "; rank 1 ("));
    expect_status(&job, 4, -1);
    clear(&job);
}

static void reports_an_operation_that_hangs_on_all_ranks(void **state)
{
    struct job job;

    (void)state;
    start(&job, "operation", -1, 2);
    expect_text(
        &job,
        "timeout in probe all_reduce 4 MiB: an operation without end did not end within 2 s; all 4 ranks arrived\n");
    expect_status(&job, 4, -1);
    clear(&job);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(names_a_stalled_rank),       cmocka_unit_test(names_a_stalled_rank_0),
        cmocka_unit_test(names_a_stopped_supervisor), cmocka_unit_test(another_supervisor_reports_a_stopped_server),
        cmocka_unit_test(names_a_stopped_rank),       cmocka_unit_test(names_a_rank_in_a_hanging_call),
        cmocka_unit_test(names_the_smaller_group),    cmocka_unit_test(reports_an_operation_that_hangs_on_all_ranks),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
