/* test_hangs.c - what a job does when a rank or an operation does not come to its end. Each waits for its deadline. */
#include "tests/bootstrap/job.h"

static void test_rank_stalls(void **state)
{
    struct job job;

    (void)state;
    start(&job, "stall", 2, 2);
    expect_text(&job, "timeout in probe all_reduce 4 MiB: the second barrier did not end within 2 s; 1 of 4 ranks did "
                      "not arrive: rank 2 (");
    expect_text(&job, "), last seen: probe all_reduce 4 MiB");
    assert_int_equal(times_said(&job, "timeout in"), 1);
    expect_status(&job, 4, -1);
    expect_results(&job, "timeout");
    clear(&job);
}

static void test_first_rank_stalls(void **state)
{
    struct job job;

    (void)state;
    start(&job, "stall", 0, 2);
    expect_text(&job, "1 of 4 ranks did not arrive: rank 0 (");
    expect_status(&job, 4, -1);
    clear(&job);
}

static void test_rank_stopped(void **state)
{
    struct job job;

    (void)state;
    start_as(&job, "", "stop", 2, 2); /* an mpirun that kills what is left */
    expect_text(&job, "the second barrier did not end within 2 s; 1 of 4 ranks did not arrive: rank 2 (");
    expect_text(&job, "), last seen: probe all_reduce 4 MiB, does not answer");
    clear(&job);
}

/* Even the thread of rank 0 does not answer: each other rank speaks for itself. */
static void test_first_rank_stopped(void **state)
{
    struct job job;

    (void)state;
    start_as(&job, "", "stop", 0, 2);
    expect_text(&job, "timeout in probe all_reduce 4 MiB: the second barrier did not end within 2 s; rank 0 (");
    expect_text(&job, "rank 0 (");
    expect_text(&job, ") does not answer");
    clear(&job);
}

static void test_guarded_call_hangs(void **state)
{
    struct job job;

    (void)state;
    start(&job, "guard", 1, 2);
    expect_text(&job, "all 4 ranks arrived, but these wait for something else: rank 1 (");
    expect_text(&job, "waiting for a call that hangs");
    expect_status(&job, 4, -1);
    clear(&job);
}

/* The fewer are named, whoever was the first to say that it hangs. */
static void test_guarded_calls_hang(void **state)
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

static void test_operation_hangs(void **state)
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
        cmocka_unit_test(test_rank_stalls),        cmocka_unit_test(test_first_rank_stalls),
        cmocka_unit_test(test_rank_stopped),       cmocka_unit_test(test_first_rank_stopped),
        cmocka_unit_test(test_guarded_call_hangs), cmocka_unit_test(test_guarded_calls_hang),
        cmocka_unit_test(test_operation_hangs),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
