/* test_hangs.c - the report and exit status of a job in which a rank or an operation hangs. Each job waits for its
 * timeout. */
#include "tests/bootstrap/job.h"

static void names_a_stalled_rank(void **state)
{
    struct job job;

    (void)state;
    start(&job, "stall", 2, 2);
    expect_text(&job, "timeout in probe all_reduce 4 MiB after 2 s: rank 2 (");
    expect_text(&job,
                ") did not arrive, last seen: probe all_reduce 4 MiB; 3 of 4 ranks wait for the second barrier\n");
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
    expect_text(&job, "after 2 s: rank 0 (");
    expect_status(&job, 4, -1);
    clear(&job);
}

static void names_a_rank_in_a_hanging_call(void **state)
{
    struct job job;

    (void)state;
    start(&job, "guard", 1, 2);
    expect_text(&job, "after 2 s: rank 1 (");
    expect_text(&job, ") did not return from a call that hangs; 3 of 4 ranks wait for the second barrier\n");
    expect_status(&job, 4, -1);
    clear(&job);
}

/* Both groups are named, whichever rank reports the hang first: a rank in the call, or the other rank, may be the cause. */
static void names_both_groups_if_most_ranks_are_in_a_call(void **state)
{
    struct job job;

    (void)state;
    start(&job, "guards", 0, 2);
    expect_text(&job, "after 2 s: 3 of 4 ranks did not return from a call that hangs; rank 0 (");
    expect_text(&job, ") waits for the second barrier\n");
    expect_status(&job, 4, -1);
    clear(&job);
}

static void reports_an_operation_that_hangs_on_all_ranks(void **state)
{
    struct job job;

    (void)state;
    start(&job, "operation", -1, 2);
    expect_text(&job, "timeout in probe all_reduce 4 MiB: an operation without end did not end within 2 s; all 4 ranks "
                      "wait for it\n");
    expect_status(&job, 4, -1);
    clear(&job);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(names_a_stalled_rank),
        cmocka_unit_test(names_a_stalled_rank_0),
        cmocka_unit_test(names_both_groups_if_most_ranks_are_in_a_call),
        cmocka_unit_test(names_a_rank_in_a_hanging_call),
        cmocka_unit_test(reports_an_operation_that_hangs_on_all_ranks),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
