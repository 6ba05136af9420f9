/* test_world.c - what a job does when a rank misbehaves; when one hangs: test_hangs.c. */
#include "tests/bootstrap/job.h"

static void test_orderly(void **state)
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

static void test_rank_killed(void **state)
{
    struct job job;

    (void)state;
    start(&job, "kill", 2, 30);
    expect_text(&job, "rank 2 (");
    expect_text(&job, ") is lost; last seen: probe all_reduce 4 MiB");
    assert_int_equal(times_said(&job, "is lost"), 1);
    expect_status(&job, 4, 2);
    expect_results(&job, "timeout");
    clear(&job);
}

static void test_first_rank_killed(void **state)
{
    struct job job;

    (void)state;
    start(&job, "kill", 0, 30);
    expect_text(&job, "rank 0 (");
    expect_text(&job, ") is lost; last seen: ");
    assert_int_equal(times_said(&job, "is lost"), 1);
    expect_status(&job, 4, 0);
    expect_results(&job, "running");
    clear(&job);
}

/* An exit without a goodbye is a loss, whatever its status. */
static void test_rank_exits(void **state)
{
    struct job job;

    (void)state;
    start(&job, "exit", 3, 30);
    expect_text(&job, "rank 3 (");
    expect_text(&job, ") is lost; last seen: probe all_reduce 4 MiB");
    expect_status(&job, 4, 3);
    clear(&job);
}

static void test_rank_fails(void **state)
{
    struct job job;

    (void)state;
    start(&job, "fail", 1, 30);
    expect_text(&job, "): planted failure");
    assert_int_equal(times_said(&job, "planted failure"), 1);
    assert_int_equal(times_said(&job, "is lost"), 0);
    expect_status(&job, 3, -1);
    expect_results(&job, "wrong data");
    clear(&job);
}

/* Slurm at the time limit, a user's kill: what there is, is saved. */
static void test_terminated(void **state)
{
    struct job job;

    (void)state;
    start(&job, "term", 0, 30);
    expect_text(&job, "ended by SIGTERM; last seen: probe all_reduce 4 MiB, waiting for a signal");
    expect_status(&job, 1, -1);
    expect_results(&job, "interrupted");
    assert_string_equal(json_string_value(json_object_get(job.results, "ended_by")), "SIGTERM");
    assert_string_equal(json_string_value(json_object_get(job.results, "phase")),
                        "probe all_reduce 4 MiB, waiting for a signal");
    clear(&job);
}

/* One process that a launcher of another MPI started as one of many. */
static void test_foreign_launcher(void **state)
{
    static const char *const variables[] = {"PMI_SIZE", "SLURM_STEP_NUM_TASKS", "MPI_LOCALNRANKS"};

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

/* With an ordinary mpirun, which kills all when the first one is gone, nothing is lost either. Hydra takes our code. */
static void test_mpirun_reports(void **state)
{
    static const struct {
        const char *mode, *said, *status;
        int exit;
        double timeout_s; /* MPI's own start counts, which may take seconds */
    } cases[] = {
        {"fail", "planted failure", "wrong data", 3, 30},
        {"stall", "did not arrive: rank 1 (", "timeout", 4, 4},
        {"kill", "is lost; last seen: probe all_reduce 4 MiB", "timeout", HYDRA ? 4 : 137, 30},
    };
    struct job job;

    (void)state;
    for (size_t i = 0; i < ROWS(cases); i++) {
        start_as(&job, "", cases[i].mode, 1, cases[i].timeout_s);
        expect_text(&job, cases[i].said);
        expect_results(&job, cases[i].status);
        assert_int_equal(job.mpirun, cases[i].exit);
        clear(&job);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_orderly),           cmocka_unit_test(test_rank_killed),
        cmocka_unit_test(test_first_rank_killed), cmocka_unit_test(test_rank_exits),
        cmocka_unit_test(test_rank_fails),        cmocka_unit_test(test_mpirun_reports),
        cmocka_unit_test(test_terminated),        cmocka_unit_test(test_foreign_launcher),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
