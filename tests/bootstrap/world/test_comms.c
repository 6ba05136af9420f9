/* test_comms.c - communicators on emulated GPUs: groups, splits, rejected members, and ranks that fail to join. */
#include "tests/bootstrap/job.h"

static void creates_and_splits_communicators(void **state)
{
    struct job job;

    (void)state;
    start(&job, "all", -1, 30);
    assert_int_equal(count_text(&job, "busbar:"), 0);
    expect_status(&job, 0, -1);
    clear(&job);
}

static void rejects_different_members(void **state)
{
    struct job job;

    (void)state;
    start(&job, "mismatch", -1, 30);
    expect_text(&job, "communicator odd: ranks disagree about the group: on rank 1 it has 3 members and begins with "
                      "rank 0, on rank 0 it has 4 members");
    expect_text(&job, "communicator odd: ranks disagree about the group: on rank 0 it has 4 members and begins with "
                      "rank 0, on rank 1 it has 3 members");
    expect_status(&job, 0, -1);
    clear(&job);
}

static void works_with_a_shared_gpu(void **state)
{
    struct job job;

    (void)state;
    start(&job, "share", -1, 30);
    assert_int_equal(count_text(&job, "busbar:"), 0);
    expect_status(&job, 0, -1);
    clear(&job);
}

/* Starts a job in which a fault is injected into one rank's NCCL call. */
static void start_with_fault(struct job *job, const char *fault, const char *mode, double timeout_s)
{
    setenv("EMU_FAULT", fault, 1);
    start(job, mode, -1, timeout_s);
    unsetenv("EMU_FAULT");
}

static void reports_a_rank_that_stalls_in_init(void **state)
{
    struct job job;

    (void)state;
    start_with_fault(&job, "stall:rank=1,call=1,name=ncclCommInitRankConfig", "init", 3);
    expect_text(&job, "timeout in creating communicator everyone after 3 s: rank 1 (");
    expect_text(&job,
                "did not arrive, last seen: creating communicator everyone; 3 of 4 ranks wait for init (communicator "
                "everyone, 4 ranks)\n");
    expect_status(&job, 4, -1);
    clear(&job);
}

/* The other ranks are in a blocking call, so their supervisors kill them. */
static void reports_a_stall_in_blocking_init(void **state)
{
    struct job job;

    (void)state;
    start_with_fault(&job, "stall:rank=1,call=1,name=ncclCommInitRankConfig", "blocking", 3);
    expect_text(&job, "timeout in creating communicator everyone: init of a communicator did not end within 3 s");
    expect_status(&job, 4, -1);
    clear(&job);
}

static void reports_a_rank_that_dies_in_init(void **state)
{
    struct job job;

    (void)state;
    start_with_fault(&job, "die:rank=2,call=1,name=ncclCommInitRankConfig", "init", 30);
    expect_text(&job, "rank 2 (");
    expect_text(&job, ") is lost; last seen: ");
    expect_text(&job, "; killed by SIG");
    expect_one_line(&job);
    expect_status(&job, 4, -1);
    clear(&job);
}

static void reports_a_failed_init(void **state)
{
    struct job job;

    (void)state;
    start_with_fault(&job, "fail:rank=2,call=1,name=ncclCommInitRankConfig", "init", 30);
    expect_text(&job, "ncclCommInitRankConfig: ");
    expect_text(&job, "rank 2 (");
    expect_status(&job, 1, -1);
    clear(&job);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(creates_and_splits_communicators),
        cmocka_unit_test(rejects_different_members),
        cmocka_unit_test(works_with_a_shared_gpu),
        cmocka_unit_test(reports_a_rank_that_stalls_in_init),
        cmocka_unit_test(reports_a_stall_in_blocking_init),
        cmocka_unit_test(reports_a_rank_that_dies_in_init),
        cmocka_unit_test(reports_a_failed_init),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
