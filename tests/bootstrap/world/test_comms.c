/* test_comms.c - communicators on emulated GPUs: groups, splits, refusals, and ranks that do not come. */
#include "tests/bootstrap/job.h"

static void test_all(void **state)
{
    struct job job;

    (void)state;
    start(&job, "all", -1, 30);
    assert_int_equal(times_said(&job, "busbar:"), 0);
    expect_status(&job, 0, -1);
    clear(&job);
}

static void test_mismatch(void **state)
{
    struct job job;

    (void)state;
    start(&job, "mismatch", -1, 30);
    expect_text(&job, "communicator odd: ranks disagree: rank 1 has 3 members from rank 0 on, rank 0 has 4 members");
    expect_text(&job, "communicator odd: ranks disagree: rank 0 has 4 members from rank 0 on, rank 1 has 3 members");
    expect_status(&job, 0, -1);
    clear(&job);
}

static void test_shared_gpu(void **state)
{
    struct job job;

    (void)state;
    start(&job, "share", -1, 30);
    assert_int_equal(times_said(&job, "busbar:"), 0);
    expect_status(&job, 0, -1);
    clear(&job);
}

/* A planted fault in one rank's NCCL call, and what the job makes of it. */
static void with_fault(struct job *job, const char *fault, const char *mode, double timeout_s)
{
    setenv("EMU_FAULT", fault, 1);
    start(job, mode, -1, timeout_s);
    unsetenv("EMU_FAULT");
}

static void test_init_stalls(void **state)
{
    struct job job;

    (void)state;
    with_fault(&job, "stall:rank=1,call=1,name=ncclCommInitRankConfig", "init", 3);
    expect_text(
        &job,
        "timeout in creating communicator everyone: init (communicator everyone, 4 ranks) did not end within 3 s");
    expect_text(&job, "1 of 4 ranks did not arrive: rank 1 (");
    expect_text(&job, "last seen: creating communicator everyone");
    expect_status(&job, 4, -1);
    clear(&job);
}

/* The others sit in a blocking call: the watchdog's thread ends them. */
static void test_blocking_init_stalls(void **state)
{
    struct job job;

    (void)state;
    with_fault(&job, "stall:rank=1,call=1,name=ncclCommInitRankConfig", "blocking", 3);
    expect_text(&job, "timeout in creating communicator everyone: init of a communicator did not end within 3 s");
    expect_status(&job, 4, -1);
    clear(&job);
}

static void test_rank_dies_in_init(void **state)
{
    struct job job;

    (void)state;
    with_fault(&job, "die:rank=2,call=1,name=ncclCommInitRankConfig", "init", 30);
    expect_text(&job, "rank 2 (");
    expect_text(&job, "is lost; last seen: ");
    expect_status(&job, 4, 2);
    clear(&job);
}

static void test_init_fails(void **state)
{
    struct job job;

    (void)state;
    with_fault(&job, "fail:rank=2,call=1,name=ncclCommInitRankConfig", "init", 30);
    expect_text(&job, "ncclCommInitRankConfig(");
    expect_text(&job, "rank 2 (");
    expect_status(&job, 1, -1);
    clear(&job);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_all),
        cmocka_unit_test(test_mismatch),
        cmocka_unit_test(test_shared_gpu),
        cmocka_unit_test(test_init_stalls),
        cmocka_unit_test(test_blocking_init_stalls),
        cmocka_unit_test(test_rank_dies_in_init),
        cmocka_unit_test(test_init_fails),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
