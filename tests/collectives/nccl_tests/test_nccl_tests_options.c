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
    assert_string_equal(o.bench.sampling.clock, "host");
    assert_string_equal(o.bench.common.buffers, "nccl");
    assert_int_equal(o.bench.sampling.start_barrier, 0);
    assert_true(o.bench.common.timeout_s > 1e8);
    parse(&o, 3, (const char *const[]){"all_reduce_perf", "-T", "7"});
    assert_true(o.bench.common.timeout_s == 7);
}

/* The long names of getopt_long: whole, or the beginning of one alone; of several, none. */
static void names_may_be_cut(void **state)
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

/* The words of the user and those that stand for nccl-tests' defaults have a common limit. */
static void so_many_words(void **state)
{
    enum { MOST = 300 };
    const char *argv[MOST] = {"all_reduce_perf"};
    struct bb_nccl_tests_options o = {0};
    int most = 1;

    (void)state;
    for (int i = 1; i < MOST; i++)
        argv[i] = "-c0";
    bb_err_mute(1);
    while (most < MOST && bb_nccl_tests_parse(&o, most, (char **)(uintptr_t)argv) == 0) {
        o = (struct bb_nccl_tests_options){0};
        most++;
    }
    bb_err_mute(0);
    assert_true(most > 200 && most < 256); /* of 256 some are taken */
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(communicators_are_theirs),
        cmocka_unit_test(clock_buffers_and_patience_are_theirs),
        cmocka_unit_test(names_may_be_cut),
        cmocka_unit_test(so_many_words),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
