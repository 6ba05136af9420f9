/* test_world.c - the output and exit status of a job in which a rank fails. Hanging ranks: test_hangs.c. */
#include "tests/bootstrap/job.h"

static void succeeds(void **state)
{
    struct job job;

    (void)state;
    start(&job, "ok", -1, 30);
    expect_status(&job, 0, -1);
    assert_string_equal(job.err, "");
    assert_int_equal(job.mpirun, 0);
    expect_results(&job, "ok");
    clear(&job);
}

/* A job in which rank `rank` fails as `mode` describes: parts of the error line, exit status, status of the results. */
struct failure {
    const char *mode;
    int rank;
    const char *text[3];
    int status;
    const char *results;
};

static void expect_failure(const struct failure *f)
{
    struct job job;

    print_message("  %s %d\n", f->mode, f->rank);
    start(&job, f->mode, f->rank, 30);
    for (size_t i = 0; i < ROWS(f->text) && f->text[i]; i++)
        expect_text(&job, f->text[i]);
    expect_one_line(&job);
    expect_status(&job, f->status, strcmp(f->mode, "killparent") == 0 ? f->rank : -1);
    expect_results(&job, f->results);
    clear(&job);
}

static void names_a_lost_rank(void **state)
{
    static const struct failure rows[] = {
        {"kill",
         2,
         {"rank 2 (", ") is lost; last seen: probe all_reduce 4 MiB", "; killed by SIGKILL\n"},
         4,
         "timeout"},
        {"kill",
         0,
         {"rank 0 (", ") is lost; last seen: probe all_reduce 4 MiB", "; killed by SIGKILL\n"},
         4,
         "timeout"},
        {"crash",
         1,
         {"rank 1 (", ") is lost; last seen: probe all_reduce 4 MiB", "; killed by SIGSEGV\n"},
         4,
         "timeout"},
    };

    (void)state;
    for (size_t i = 0; i < ROWS(rows); i++)
        expect_failure(&rows[i]);
}

/* A rank whose supervisor was killed is lost too. If it is rank 0, another supervisor prints the line, and the writer
 * of the results outlives the supervisor. */
static void names_a_rank_without_supervisor(void **state)
{
    static const struct failure rows[] = {
        {"killparent", 2, {"rank 2 (", ") is lost; last seen: probe all_reduce 4 MiB"}, 4, "timeout"},
        {"killparent", 0, {"rank 0 (", ") is lost; last seen: "}, 4, "interrupted"},
    };

    (void)state;
    for (size_t i = 0; i < ROWS(rows); i++)
        expect_failure(&rows[i]);
}

/* exit() called by a library, whatever its argument, ends the job with status 1. */
static void names_a_rank_that_exits(void **state)
{
    static const struct failure row = {
        "exit",
        3,
        {"rank 3 (", ") was ended by a library that called exit(); last seen: probe all_reduce 4 MiB"},
        1,
        "interrupted"};

    (void)state;
    expect_failure(&row);
}

static void ends_with_the_status_of_the_failed_rank(void **state)
{
    static const struct failure row = {"fail", 1, {"rank 1 (", "): injected failure"}, 3, "wrong data"};

    (void)state;
    expect_failure(&row);
}

/* SIGTERM (Slurm at the time limit, or a user's kill): the results so far are saved. */
static void saves_results_after_sigterm(void **state)
{
    struct job job;

    (void)state;
    start(&job, "term", 0, 30);
    expect_text(&job, "rank 0 (");
    expect_text(&job, ") was ended by SIGTERM; last seen: probe all_reduce 4 MiB, waiting for a signal");
    expect_one_line(&job);
    expect_status(&job, 1, -1);
    expect_results(&job, "interrupted");
    assert_string_equal(json_string_value(json_object_get(job.results, "ended_by")), "SIGTERM");
    assert_string_equal(json_string_value(json_object_get(job.results, "phase")),
                        "probe all_reduce 4 MiB, waiting for a signal");
    clear(&job);
}

/* One process that the launcher of another MPI started as one of several ranks. */
static void rejects_the_launcher_of_another_mpi(void **state)
{
    static const char *const variables[] = {"PMI_SIZE", "SLURM_STEP_NUM_TASKS", "MPI_LOCALNRANKS", "FLUX_JOB_SIZE"};

    (void)state;
    for (size_t i = 0; i < ROWS(variables); i++) {
        char command[512], text[1024];
        FILE *pipe;
        size_t used;

        snprintf(command, sizeof(command), "%s=4 timeout -k 5 40 %s ok 2>&1", variables[i], PROBE);
        pipe = popen(command, "r");
        assert_non_null(pipe);
        used = fread(text, 1, sizeof(text) - 1, pipe);
        text[used] = '\0';
        assert_int_equal(WEXITSTATUS(pclose(pipe)), 2);
        assert_non_null(strstr(text, "=4, but MPI has 1 process"));
    }
    assert_int_equal(WEXITSTATUS(system("PMI_SIZE=1 timeout -k 5 40 " PROBE " ok")), 0);
}

/* A default mpirun, which kills all ranks when the first one exits, loses no message either. */
static void default_mpirun_loses_no_message(void **state)
{
    static const struct {
        const char *mode, *expected, *status;
        int exit;
        double timeout_s; /* includes the start of MPI, which may take seconds */
    } cases[] = {
        {"fail", "injected failure", "wrong data", 3, 30},
        {"stall", ") did not arrive, last seen: ", "timeout", 4, 4},
        {"kill", "is lost; last seen: probe all_reduce 4 MiB", "timeout", 4, 30},
    };
    struct job job;

    (void)state;
    for (size_t i = 0; i < ROWS(cases); i++) {
        start_as(&job, "", cases[i].mode, 1, cases[i].timeout_s);
        expect_text(&job, cases[i].expected);
        expect_one_line(&job);
        expect_results(&job, cases[i].status);
        assert_int_equal(job.mpirun, cases[i].exit);
        clear(&job);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(succeeds),
        cmocka_unit_test(names_a_lost_rank),
        cmocka_unit_test(names_a_rank_without_supervisor),
        cmocka_unit_test(names_a_rank_that_exits),
        cmocka_unit_test(ends_with_the_status_of_the_failed_rank),
        cmocka_unit_test(default_mpirun_loses_no_message),
        cmocka_unit_test(saves_results_after_sigterm),
        cmocka_unit_test(rejects_the_launcher_of_another_mpi),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
