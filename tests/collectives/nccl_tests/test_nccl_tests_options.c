/* test_nccl_tests_options.c - the defaults under a program name of nccl-tests. */
#include "collectives/nccl_tests/nccl_tests_options.h"
#include "tests/check.h"

#include <stdint.h>
#include <string.h>

static void parse(struct bb_nccl_tests_options *o, int argc, const char *const *argv)
{
    *o = (struct bb_nccl_tests_options){0};
    assert_int_equal(bb_nccl_tests_parse(o, argc, (char **)(uintptr_t)argv), 0);
}

/* As in common.cu and sendrecv.cu of nccl-tests: nvlinkCentricSched for all, maxP2pPeers only for sendrecv. */
static void communicator_options_match_nccl_tests(void **state)
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

static void clock_buffers_and_timeout_match_nccl_tests(void **state)
{
    struct bb_nccl_tests_options o;

    (void)state;
    parse(&o, 1, (const char *const[]){"all_reduce_perf"});
    assert_string_equal(o.bench.sampling.clock, "host");
    assert_string_equal(o.bench.common.buffers, "nccl");
    assert_int_equal(o.bench.sampling.start_barrier, 0);
    assert_true(o.bench.common.timeout_s > 1e8);
    parse(&o, 3, (const char *const[]){"all_reduce_perf", "-T", "7"});
    assert_true(o.bench.common.timeout_s == 7);
}

/* Long options as in getopt_long: the full name or a unique prefix; an ambiguous prefix is rejected. */
static void accepts_unique_prefixes_of_long_options(void **state)
{
    static const struct {
        const char *word;
        int rc;
    } rows[] = {{"--stepfactor=2", 0}, {"--stepf=2", 0}, {"--step=2", -BB_EUSAGE},
                {"--minbytes=8", 0},   {"--mi=8", 0},    {"--m=8", -BB_EUSAGE}};
    struct bb_nccl_tests_options o;

    (void)state;
    bb_err_mute(1);
    for (size_t i = 0; i < ROWS(rows); i++) {
        const char *const argv[] = {"all_reduce_perf", rows[i].word};

        print_message("  %s\n", rows[i].word);
        o = (struct bb_nccl_tests_options){0};
        assert_int_equal(bb_nccl_tests_parse(&o, 2, (char **)(uintptr_t)argv), rows[i].rc);
    }
    bb_err_mute(0);
}

/* The user's arguments and the arguments that represent nccl-tests' defaults have a common limit of 256. */
static void rejects_too_many_arguments(void **state)
{
    enum { MAX_ARGS = 300 };
    const char *argv[MAX_ARGS] = {"all_reduce_perf"};
    struct bb_nccl_tests_options o = {0};
    int argc = 1;

    (void)state;
    for (int i = 1; i < MAX_ARGS; i++)
        argv[i] = "-c0";
    bb_err_mute(1);
    while (argc < MAX_ARGS && bb_nccl_tests_parse(&o, argc, (char **)(uintptr_t)argv) == 0) {
        o = (struct bb_nccl_tests_options){0};
        argc++;
    }
    bb_err_mute(0);
    assert_true(argc > 200 && argc < 256); /* the defaults take some of the 256 */
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(communicator_options_match_nccl_tests),
        cmocka_unit_test(clock_buffers_and_timeout_match_nccl_tests),
        cmocka_unit_test(accepts_unique_prefixes_of_long_options),
        cmocka_unit_test(rejects_too_many_arguments),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
