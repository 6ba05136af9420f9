/* test_overlap_metrics.c - overlap metrics of GEMMs and collectives against values computed by hand, and option
 * parsing. */
#include "collectives/overlap/overlap_metrics.h"
#include "tests/check.h"

#include <math.h>

static int near(double a, double b)
{
    return fabs(a - b) < 1e-12 * (1 + fabs(b));
}

/*
 * Times in microseconds: compute alone, communication alone, compute while both run, communication while both run, both
 * together; then the expected slowdowns, overlap efficiency and time lost to communication.
 */
static void metrics_match_manual_results(void **state)
{
    static const struct {
        double us[BB_OVERLAP_TIMES], compute, comm, efficiency, lost;
    } rows[] = {
        {{100, 60, 100, 60, 100}, 1, 1, 1, 0},         /* communication fully hidden, no slowdown */
        {{100, 60, 160, 60, 160}, 1.6, 1, 0, 60},      /* serialized */
        {{100, 60, 130, 90, 130}, 1.3, 1.5, 0.5, 30},  /* half hidden */
        {{100, 60, 190, 120, 190}, 1.9, 2, -0.5, 90},  /* slower than serialized */
        {{50, 200, 60, 220, 220}, 1.2, 1.1, 0.6, 170}, /* the collective takes longer */
    };

    (void)state;
    for (size_t i = 0; i < ROWS(rows); i++) {
        struct bb_contention f = bb_contention_of(rows[i].us);

        assert_true(near(f.compute_slowdown, rows[i].compute));
        assert_true(near(f.comm_slowdown, rows[i].comm));
        assert_true(near(f.efficiency, rows[i].efficiency));
        assert_true(near(f.lost_to_comm_us, rows[i].lost));
    }
}

/* A collective on one rank in place takes no time. */
static void no_communication_gives_nan_efficiency(void **state)
{
    const double us[BB_OVERLAP_TIMES] = {[BB_COMPUTE_ALONE] = 100, [BB_COMPUTE_IN_BOTH] = 100, [BB_BOTH] = 100};
    struct bb_contention f = bb_contention_of(us);

    (void)state;
    assert_true(isnan(f.comm_slowdown) && isnan(f.efficiency));
    assert_true(near(f.compute_slowdown, 1) && near(f.lost_to_comm_us, 0));
}

static void counts_balance_compute_and_communication(void **state)
{
    static const struct {
        double gemm_us, collective_us;
        int min_collectives, gemms, collectives;
    } rows[] = {
        {10, 10, 5, 5, 5},
        {10, 30, 5, 15, 5},
        {100, 10, 5, 1, 10},
        {95, 10, 5, 1, 10},
        {300, 100, 10, 3, 10},
        {1, 1000, 10, BB_OVERLAP_CALLS, 10},
        {1e6, 1, 10, 1, BB_OVERLAP_CALLS},
        {100, 0, 10, 1, 10},
        {0, 100, 10, 1, 10},
        {0, 0, 10, 1, 10},
    };
    int gemms, collectives;

    (void)state;
    for (size_t i = 0; i < ROWS(rows); i++) {
        bb_overlap_counts(rows[i].gemm_us, rows[i].collective_us, rows[i].min_collectives, &gemms, &collectives);
        assert_int_equal(gemms, rows[i].gemms);
        assert_int_equal(collectives, rows[i].collectives);
    }
}

static void parses_and_formats_cta_limits(void **state)
{
    static const char *const bad[] = {"", "0", "65", "4:2", "0:4", "4:", ":4", "1,", "defaults", "2-4", "1:2:3", "-1"};
    struct bb_cta_limit limits[BB_CTA_LIMITS];
    char text[BB_CTA_TEXT];
    int n;

    (void)state;
    assert_int_equal(bb_cta_limits_parse("default,1,2:8,64", limits, &n), 0);
    assert_int_equal(n, 4);
    assert_string_equal(bb_cta_limit_text(&limits[0], text), "default");
    assert_string_equal(bb_cta_limit_text(&limits[1], text), "1");
    assert_string_equal(bb_cta_limit_text(&limits[2], text), "2:8");
    assert_int_equal(limits[3].max, 64);
    assert_int_equal(limits[3].min, 0);
    for (size_t i = 0; i < ROWS(bad); i++)
        assert_int_equal(bb_cta_limits_parse(bad[i], limits, &n), -BB_EUSAGE);
    assert_int_equal(bb_cta_limits_parse("1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1", limits, &n), 0);
    assert_int_equal(bb_cta_limits_parse("1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1", limits, &n), -BB_EUSAGE);
}

/* Intervals of this half width around the medians. Returns the best limit; *ties: bit i is set if limit i ties with
 * it. */
static int best_of(const double *medians, double half_width, int n, unsigned *ties)
{
    static const struct bb_cta_limit limits[] = {{0, 0}, {0, 1}, {0, 4}, {2, 16}};
    struct bb_stats both_us[4];
    bool tied[4];
    int best, n_ties;

    for (int i = 0; i < n; i++)
        both_us[i] = (struct bb_stats){.p50 = medians[i], .ci95 = {medians[i] - half_width, medians[i] + half_width}};
    best = bb_overlap_best(limits, both_us, n, tied, &n_ties);
    *ties = 0;
    for (int i = 0; i < n; i++) {
        *ties |= (unsigned)tied[i] << i;
        n_ties -= tied[i];
    }
    assert_int_equal(n_ties, 0);
    return best;
}

static void best_limit_is_fastest_then_smallest(void **state)
{
    unsigned ties;

    (void)state;
    assert_int_equal(best_of((const double[]){100, 150, 90, 120}, 0, 4, &ties), 2);
    assert_int_equal(ties, 4);
    assert_int_equal(best_of((const double[]){100, 100, 100, 100}, 0, 4, &ties), 1);
    assert_int_equal(ties, 15);
    assert_int_equal(best_of((const double[]){100, 102, 100.9, 100}, 0, 4, &ties), 2);
    assert_int_equal(ties, 13);
    assert_int_equal(best_of((const double[]){100, 102, 101.1, 101}, 0, 4, &ties), 3);
    assert_int_equal(best_of((const double[]){100, 150, 150, 150}, 0, 4, &ties), 0);
    assert_int_equal(ties, 1);
    assert_int_equal(best_of((const double[]){100}, 0, 1, &ties), 0);
}

/*
 * The medians 90 and 100 tie with a half width of 5 (the intervals touch), but not with 4.9. Without intervals the
 * medians decide.
 */
static void overlapping_intervals_tie(void **state)
{
    unsigned ties;

    (void)state;
    assert_int_equal(best_of((const double[]){100, 120, 90, 130}, 5, 4, &ties), 2);
    assert_int_equal(ties, 5);
    assert_int_equal(best_of((const double[]){100, 120, 90, 130}, 4.9, 4, &ties), 2);
    assert_int_equal(ties, 4);
    /* of two tied limits, the one with fewer CTAs */
    assert_int_equal(best_of((const double[]){90, 120, 100, 130}, 5, 4, &ties), 2);
    assert_int_equal(ties, 5);
    assert_int_equal(best_of((const double[]){90, 120, 100, 130}, NAN, 4, &ties), 0);
    assert_int_equal(ties, 1);
}

static void parses_gemm_dimensions(void **state)
{
    static const char *const bad[] = {"",        "x",    "0",    "1x2",
                                      "1x2x3x4", "1x2x", "x1x2", "1X2X3",
                                      "1048577", "-4",   "4K",   "1x2x99999999999999999999999999999999999"};
    int64_t mnk[3];

    (void)state;
    assert_int_equal(bb_gemm_dimensions_parse("128", mnk), 0);
    assert_true(mnk[0] == 128 && mnk[1] == 128 && mnk[2] == 128);
    assert_int_equal(bb_gemm_dimensions_parse("1x20x1048576", mnk), 0);
    assert_true(mnk[0] == 1 && mnk[1] == 20 && mnk[2] == 1048576);
    for (size_t i = 0; i < ROWS(bad); i++)
        assert_int_equal(bb_gemm_dimensions_parse(bad[i], mnk), -BB_EUSAGE);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(metrics_match_manual_results),
        cmocka_unit_test(no_communication_gives_nan_efficiency),
        cmocka_unit_test(counts_balance_compute_and_communication),
        cmocka_unit_test(parses_and_formats_cta_limits),
        cmocka_unit_test(best_limit_is_fastest_then_smallest),
        cmocka_unit_test(overlapping_intervals_tie),
        cmocka_unit_test(parses_gemm_dimensions),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
