/* test_busbw_thresholds.c - parsing of --min-busbw, and the bus bandwidth that each threshold is compared with. */
#include "collectives/ops/coll.h"
#include "collectives/sweep/busbw_thresholds.h"
#include "tests/check.h"

#include <math.h>

static void parses_thresholds(void **state)
{
    struct bb_busbw_thresholds f;
    char text[BB_BYTES_TEXT];

    (void)state;
    assert_int_equal(bb_busbw_thresholds_parse(&f, "300,1G:250.5,peak:320,mean:7,0,all_reduce:8:3,alltoall:2"), 0);
    assert_int_equal(f.n, 6); /* a threshold of 0 is ignored */
    assert_true(f.item[0].scope == BB_BUSBW_MEAN && f.item[0].gbps == 300);
    assert_true(f.item[1].scope == BB_BUSBW_SIZE && f.item[1].bytes == 1UL << 30 && f.item[1].gbps == 250.5);
    assert_true(f.item[2].scope == BB_BUSBW_PEAK && f.item[2].gbps == 320);
    assert_true(f.item[3].scope == BB_BUSBW_MEAN && f.item[3].gbps == 7 && !f.item[3].coll);
    assert_true(f.item[4].scope == BB_BUSBW_SIZE && f.item[4].bytes == 8 && f.item[4].gbps == 3);
    assert_string_equal(f.item[4].coll->name, "all_reduce");
    assert_true(f.item[5].scope == BB_BUSBW_MEAN && f.item[5].gbps == 2);
    assert_string_equal(f.item[5].coll->name, "alltoall");
    assert_string_equal(bb_busbw_threshold_text(&f.item[1], text), "1 GiB");
    assert_string_equal(bb_busbw_threshold_text(&f.item[2], text), "peak");
    assert_int_equal(bb_busbw_thresholds_parse(&f, "a:b,c.json:92.5%"), 0);
    assert_true(f.n == 0 && f.path_length == 10 && f.fraction == 0.925);
    assert_int_equal(bb_busbw_thresholds_parse(&f, NULL), 0);
    assert_int_equal(f.n, 0);
}

static void rejects_invalid_thresholds(void **state)
{
    static const char *const bad[] = {
        "",       "x",   "-1",  "300,",  "1G:", "1G:x", ":300",        "1X:300",         "2e9",          "pek:300",
        "1G:1:2", "nan", "inf", "1G:-2", "90%", ":90%", "all_reduce:", "all_reduce:1G:", "reduce_all:3", "f:0%",
        "f:x%",   "f:%"};
    struct bb_busbw_thresholds f;
    char many[256] = "";

    (void)state;
    bb_err_mute(1);
    for (size_t i = 0; i < ROWS(bad); i++)
        assert_int_equal(bb_busbw_thresholds_parse(&f, bad[i]), -BB_EUSAGE);
    for (int i = 0; i < BB_BUSBW_THRESHOLDS_MAX + 1; i++)
        strcat(many, i ? ",1" : "1");
    assert_int_equal(bb_busbw_thresholds_parse(&f, many), -BB_EUSAGE);
    assert_int_equal(bb_busbw_thresholds_parse(&f, many + 2), 0);
    bb_err_mute(0);
    assert_int_equal(f.n, BB_BUSBW_THRESHOLDS_MAX);
}

static void slowest_case_of_a_size_counts(void **state)
{
    const struct bb_busbw_threshold mean = {.scope = BB_BUSBW_MEAN, .gbps = 1},
                                    peak = {.scope = BB_BUSBW_PEAK, .gbps = 1},
                                    size = {.scope = BB_BUSBW_SIZE, .bytes = 8, .gbps = 1};
    struct bb_busbw_tally t = {0};

    (void)state;
    assert_true(isnan(bb_busbw_threshold_measured(&mean, &t)) && isnan(bb_busbw_threshold_measured(&peak, &t)) &&
                isnan(bb_busbw_threshold_measured(&size, &t)));
    bb_busbw_tally_add(&t, NAN);
    assert_true(isnan(bb_busbw_threshold_measured(&size, &t)));
    bb_busbw_tally_add(&t, 4);
    bb_busbw_tally_add(&t, 1);
    bb_busbw_tally_add(&t, 10);
    assert_true(bb_busbw_threshold_measured(&mean, &t) == 5 && bb_busbw_threshold_measured(&peak, &t) == 10 &&
                bb_busbw_threshold_measured(&size, &t) == 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(parses_thresholds),
        cmocka_unit_test(rejects_invalid_thresholds),
        cmocka_unit_test(slowest_case_of_a_size_counts),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
