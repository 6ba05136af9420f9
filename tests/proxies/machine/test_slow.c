/* test_slow.c - the words of slower ranks and links, and what they do to a machine. */
#include "tests/check.h"

#include "proxies/machine/slow.h"

static void words_are_factors(void **state)
{
    const struct bb_cluster c = {.gpus_per_node = 4, .nics_per_node = 4, .n_ways = 1};
    struct bb_slow slow = {0};

    (void)state;
    assert_int_equal(bb_slow_read(&slow, "--slow", "rank=5:1.1,link=node3-nic2:0.5"), 0);
    assert_int_equal(bb_slow_read(&slow, "--slow", "rank=0:2"), 0);
    assert_int_equal(slow.n, 3);
    assert_true(bb_slow_times(&slow, 5) == 1.1 && bb_slow_times(&slow, 0) == 2 && bb_slow_times(&slow, 3) == 1);
    assert_true(bb_slow_nic_part(&slow, &c, 3, 2) == 0.5 && bb_slow_nic_part(&slow, &c, 3, 1) == 1);
    assert_true(bb_slow_nic_part(&slow, &c, 2, 2) == 1);
    assert_int_equal(bb_slow_check(&slow, "--slow", &c, 16, 4), 0);
}

/* NIC 1 of node 0 has half of its rate. Eight GPUs: of two NICs it is that of the last four, of sixteen one of GPU 0's
 * two, of eight that of GPU 1, and so it is where a profile does not say. */
static void gpus_use_nics_in_order(void **state)
{
    static const struct {
        int nics, ways;
        double parts[8];
    } rows[] = {{2, 1, {1, 1, 1, 1, 0.5, 0.5, 0.5, 0.5}},
                {16, 1, {0.75, 1, 1, 1, 1, 1, 1, 1}},
                {8, 1, {1, 0.5, 1, 1, 1, 1, 1, 1}},
                {0, 0, {1, 0.5, 1, 1, 1, 1, 1, 1}}};
    struct bb_slow slow = {0};

    (void)state;
    assert_int_equal(bb_slow_read(&slow, "--slow", "link=node0-nic1:0.5"), 0);
    for (size_t i = 0; i < ROWS(rows); i++) {
        const struct bb_cluster c = {.gpus_per_node = 8, .nics_per_node = rows[i].nics, .n_ways = rows[i].ways};

        for (int gpu = 0; gpu < 8; gpu++)
            assert_true(bb_slow_nic_part(&slow, &c, 0, gpu) == rows[i].parts[gpu]);
        assert_true(bb_slow_nic_part(&slow, &c, 0, 8) == rows[i].parts[0]); /* more ranks than GPUs: they start again */
    }
}

static void a_job_has_the_nics_of_its_gpus(void **state)
{
    static const struct {
        int gpus_per_node, nics_per_node, gpus, nics;
    } rows[] = {{8, 8, 2, 2}, {8, 4, 4, 2}, {8, 4, 3, 2}, {8, 4, 5, 3}, {4, 8, 2, 4}, {8, 4, 16, 8}};

    (void)state;
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        struct bb_cluster c = {
            .n_ways = 1, .gpus_per_node = rows[i].gpus_per_node, .nics_per_node = rows[i].nics_per_node};

        bb_cluster_take_gpus(&c, rows[i].gpus);
        assert_int_equal(c.gpus_per_node, rows[i].gpus);
        assert_int_equal(c.nics_per_node, rows[i].nics);
    }
}

static void what_is_no_word_is_refused(void **state)
{
    static const char *const wrong[] = {"",
                                        "rank",
                                        "rank=5",
                                        "rank=:2",
                                        "rank=x:1.1",
                                        "rank=5:0",
                                        "rank=5:1e9",
                                        "rank=5:-1",
                                        "rank=5:nan",
                                        "rank=5:1.1,",
                                        "rank=5:1.1x",
                                        "rank=5:1;rank=6:1",
                                        "rank=-1:2",
                                        "link=node3:1",
                                        "link=nic2:0.5",
                                        "link=node3-nic:0.5",
                                        "link=node3-nic2:1.01",
                                        "node=3:2",
                                        "rank=1:2,rank=1:3"};
    const struct bb_cluster c = {.gpus_per_node = 8, .nics_per_node = 4, .n_ways = 1};
    static const char *const absent[] = {"rank=16:2", "link=node2-nic0:0.5", "link=node1-nic4:0.5"};

    (void)state;
    bb_err_mute(1);
    for (size_t i = 0; i < ROWS(wrong); i++) {
        struct bb_slow slow = {0};
        if (bb_slow_read(&slow, "--slow", wrong[i]) != -BB_EUSAGE)
            fail_msg("'%s' is taken", wrong[i]);
    }
    for (size_t i = 0; i < ROWS(absent); i++) {
        struct bb_slow slow = {0};
        assert_int_equal(bb_slow_read(&slow, "--slow", absent[i]), 0);
        assert_int_equal(bb_slow_check(&slow, "--slow", &c, 16, 2), -BB_EUSAGE);
    }
    bb_err_mute(0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(words_are_factors),
        cmocka_unit_test(gpus_use_nics_in_order),
        cmocka_unit_test(a_job_has_the_nics_of_its_gpus),
        cmocka_unit_test(what_is_no_word_is_refused),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
