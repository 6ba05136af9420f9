/* test_nccl_tests_options.c - what is measured under a name of nccl-tests without a word of the user. */
#include "collectives/nccl_tests/nccl_tests_options.h"
#include "tests/check.h"

#include <stdint.h>
#include <string.h>

static void parse(struct bb_nccl_tests_options *o, int argc, const char *const *argv)
{
    *o = (struct bb_nccl_tests_options){0};
    assert_int_equal(bb_nccl_tests_parse(o, argc, (char **)(uintptr_t)argv), 0);
}

/* common.cu and sendrecv.cu: nvlinkCentricSched everywhere, maxP2pPeers for sendrecv alone. */
static void communicators_are_theirs(void **state)
{
    struct bb_nccl_tests_options o;

    (void)state;
    parse(&o, 1, (const char *const[]){"/opt/bin/sendrecv_perf"});
    assert_int_equal(o.bench.nvlink_centric_sched, 1);
    assert_int_equal(o.bench.max_p2p_peers, 2);
    parse(&o, 1, (const char *const[]){"all_reduce_perf"});
    assert_int_equal(o.bench.nvlink_centric_sched, 1);
    assert_int_equal(o.bench.max_p2p_peers, 0);
}

static void clock_buffers_and_patience_are_theirs(void **state)
{
    struct bb_nccl_tests_options o;

    (void)state;
    parse(&o, 1, (const char *const[]){"all_reduce_perf"});
    assert_string_equal(o.bench.figures.clock, "host");
    assert_string_equal(o.bench.common.buffers, "nccl");
    assert_int_equal(o.bench.figures.gate, 0);
    assert_true(o.bench.common.timeout_s > 1e8);
    parse(&o, 3, (const char *const[]){"all_reduce_perf", "-T", "7"});
    assert_true(o.bench.common.timeout_s == 7);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(communicators_are_theirs),
        cmocka_unit_test(clock_buffers_and_patience_are_theirs),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
