/* test_stopped.c - the report and exit status of a job in which a rank or its supervisor is stopped (SIGSTOP). Each job
 * waits for its timeout. A program of its own, so that ctest runs it at the same time as test_hangs.c. */
#include "tests/bootstrap/job.h"

/* Rank and supervisor are stopped, with an mpirun that kills the remaining processes. */
static void names_a_stopped_supervisor(void **state)
{
    struct job job;

    (void)state;
    start_as(&job, "", "stop", 2, 2);
    expect_text(&job, "timeout in probe all_reduce 4 MiB after 2 s: rank 2 (");
    expect_text(&job, ") did not arrive, last seen: probe all_reduce 4 MiB, does not answer; 3 of 4 ranks wait for the "
                      "second barrier\n");
    expect_one_line(&job);
    clear(&job);
}

/* The supervisor of rank 0 does not answer, so the backup server prints the line. */
static void another_supervisor_reports_a_stopped_server(void **state)
{
    struct job job;

    (void)state;
    start_as(&job, "", "stop", 0, 2);
    expect_text(&job, "timeout in probe all_reduce 4 MiB after 2 s: rank 0 (");
    expect_text(&job, ", does not answer");
    expect_one_line(&job);
    clear(&job);
}

/* Only the rank is stopped: its supervisor ends the rank, too. */
static void names_a_stopped_rank(void **state)
{
    static const char *const names[] = {[0] = " after 2 s: rank 0 (", [2] = " after 2 s: rank 2 ("};
    struct job job;

    (void)state;
    for (int rank = 0; rank <= 2; rank += 2) {
        start(&job, "stoprank", rank, 2);
        expect_text(&job, names[rank]);
        expect_text(&job, ") did not arrive, last seen: probe all_reduce 4 MiB, suspended; 3 of 4 ranks wait");
        assert_null(strstr(job.err, "does not answer"));
        expect_one_line(&job);
        expect_status(&job, 4, -1);
        expect_results(&job, "timeout");
        clear(&job);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(names_a_stopped_supervisor),
        cmocka_unit_test(another_supervisor_reports_a_stopped_server),
        cmocka_unit_test(names_a_stopped_rank),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
