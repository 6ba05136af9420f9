/* test_stats.c - statistics of samples against cases computed by hand, and confidence intervals against published
 * tables. */
#include "bootstrap/base/stats.h"
#include "tests/check.h"

#include <math.h>

static void no_samples_give_nan(void **state)
{
    struct bb_stats s;

    (void)state;
    bb_stats_compute(NULL, 0, &s);
    assert_int_equal(s.n, 0);
    assert_true(isnan(s.min) && isnan(s.max) && isnan(s.mean) && isnan(s.p50) && isnan(s.p90) && isnan(s.p99));
    assert_true(isnan(s.ci95[0]) && isnan(s.ci95[1]));
}

static void few_samples_have_no_p99_and_no_interval(void **state)
{
    static const double one[] = {3}, five[] = {5, 1, 4, 2, 9};
    double copy[5];
    struct bb_stats s;

    (void)state;
    bb_stats_compute(one, 1, &s);
    assert_true(s.min == 3 && s.max == 3 && s.mean == 3 && s.p50 == 3 && s.p90 == 3);
    memcpy(copy, five, sizeof(five));
    bb_stats_compute(copy, 5, &s);
    assert_memory_equal(copy, five, sizeof(five));
    assert_true(s.n == 5 && s.min == 1 && s.max == 9 && s.mean == 4.2 && s.p50 == 4 && s.p90 == 9);
    assert_true(isnan(s.p99) && isnan(s.ci95[0])); /* 5 samples: the whole range covers only 93.75 % */
}

/* Fills samples with 1 .. n in a shuffled order, so that every statistic is known. */
static void fill(double *samples, size_t n)
{
    for (size_t i = 0; i < n; i++)
        samples[i] = (double)(i * 7919 % n + 1); /* 7919 is prime and divides no n used here */
}

static void ten_samples(void **state)
{
    double samples[10];
    struct bb_stats s;

    (void)state;
    fill(samples, 10);
    bb_stats_compute(samples, 10, &s);
    assert_true(s.p50 == 5.5 && s.p90 == 9 && s.mean == 5.5);
    assert_true(s.ci95[0] == 2 && s.ci95[1] == 9);
    assert_true(isnan(s.p99));
}

static void p99_needs_a_hundred_samples(void **state)
{
    double samples[100];
    struct bb_stats s;

    (void)state;
    fill(samples, 100);
    bb_stats_compute(samples, 100, &s);
    assert_true(s.p50 == 50.5 && s.p90 == 90 && s.p99 == 99);
    assert_true(s.ci95[0] == 40 && s.ci95[1] == 61);
    bb_stats_compute(samples, 99, &s);
    assert_true(isnan(s.p99));
}

/* Lower rank of the 95 % confidence interval of the median, from tables of order statistics. */
static void interval_ranks_match_published_tables(void **state)
{
    static const struct {
        size_t n, k;
    } table[] = {
        {1, 0},  {5, 0},  {6, 1},  {7, 1},   {8, 1},   {9, 2},   {10, 2},  {11, 2},   {12, 3},   {15, 4},
        {17, 5}, {20, 6}, {25, 8}, {30, 10}, {40, 14}, {50, 18}, {70, 27}, {100, 40}, {200, 86},
    };

    (void)state;
    for (size_t i = 0; i < ROWS(table); i++)
        assert_int_equal(bb_stats_ci_rank(table[i].n), table[i].k);
}

/* The rank satisfies its definition: exact binomial sums for each n where 2^n is exact; the next rank violates the
 * limit. */
static void interval_ranks_match_binomial_sums(void **state)
{
    (void)state;
    for (size_t n = 6; n <= 52; n++) {
        size_t k = bb_stats_ci_rank(n);
        double combinations = 1, below = 0, all = ldexp(1, (int)n);

        for (size_t i = 0; i < k; i++) {
            below += combinations;
            combinations = combinations * (double)(n - i) / (double)(i + 1);
        }
        assert_true(below / all <= 0.025);
        assert_true((below + combinations) / all > 0.025);
    }
}

/* For n > 1074, where 2^-n underflows, the rank agrees with the normal approximation within 2. */
static void interval_ranks_match_normal_approximation(void **state)
{
    static const size_t sizes[] = {2000, 100000, 10000000};

    (void)state;
    for (size_t i = 0; i < 3; i++) {
        double n = (double)sizes[i], expected = n / 2 - 1.959964 * sqrt(n) / 2;

        assert_true(fabs((double)bb_stats_ci_rank(sizes[i]) - expected) < 2);
    }
}

/* Times of 8 ranks with noise of up to 1 %; the last `slow` ranks take 1.2 times as long. */
static void the_typical_time_is_that_of_the_faster_ranks(void **state)
{
    (void)state;
    for (unsigned seed = 1; seed <= 20; seed++)
        for (int slow = 0; slow <= 8; slow++) {
            double times[8], typical;
            unsigned x = seed;

            for (int r = 0; r < 8; r++) {
                x = x * 1664525u + 1013904223u;
                times[r] = (r >= 8 - slow ? 120 : 100) * (1 + 0.01 * (double)(x >> 8) / (1 << 24));
            }
            bb_sort_doubles(times, 8);
            typical = bb_stats_typical(times, 8, 1.1);
            for (int r = 0; r < 8; r++) /* if all ranks are slow, none can be recognised */
                assert_int_equal(times[r] > 1.1 * typical, slow < 8 && r >= 8 - slow);
        }
}

/* Returns a sample of the standard normal distribution: the sum of 12 uniform numbers minus 6 (Irwin-Hall). */
static double normal(unsigned *x)
{
    double sum = -6;

    for (int i = 0; i < 12; i++) {
        *x = *x * 1664525u + 1013904223u;
        sum += (double)(*x >> 8) / (1 << 24);
    }
    return sum;
}

/* 100 samples of normally distributed times of each number of ranks, with a standard deviation of 0.2 % to 3 %. */
static void noise_has_no_outliers(void **state)
{
    static const double deviations[] = {0.002, 0.005, 0.01, 0.02, 0.03};
    static const size_t ranks[] = {2, 3, 8, 16, 64};
    unsigned x = 1;

    (void)state;
    for (size_t d = 0; d < ROWS(deviations); d++)
        for (size_t n = 0; n < ROWS(ranks); n++)
            for (int sample = 0; sample < 100; sample++) {
                double times[64];

                for (size_t r = 0; r < ranks[n]; r++)
                    times[r] = 100 * (1 + deviations[d] * normal(&x));
                bb_sort_doubles(times, ranks[n]);
                assert_int_equal(bb_stats_outliers(times, ranks[n], 1.02), ranks[n]);
            }
}

static void outliers_exceed_the_spread_of_the_others(void **state)
{
    static const struct {
        double times[8];
        size_t n, first;
    } rows[] = {
        {{100, 100, 100, 100, 100, 100, 100, 103}, 8, 7},     /* equal times: 3 % */
        {{100, 100, 100, 100, 100, 100, 100, 101.9}, 8, 8},   /* within the factor */
        {{100, 100, 100, 100, 105, 105, 105, 105}, 8, 4},     /* half of them */
        {{100, 100, 100, 105, 105, 105, 105, 105}, 8, 8},     /* most of them: the typical time is 105 */
        {{100, 100.3, 100.6, 101, 101, 101, 101, 105}, 8, 7}, /* 4 times the range of the others */
        {{100, 100.3, 101.3, 102, 102, 102, 102, 105}, 8, 8}, /* 1.5 times the range of the others */
        {{100, 100, 100, 103}, 4, 3},
        {{100, 100, 103}, 3, 3}, /* no three others */
    };

    (void)state;
    for (size_t i = 0; i < ROWS(rows); i++)
        assert_int_equal(bb_stats_outliers(rows[i].times, rows[i].n, 1.02), rows[i].first);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(no_samples_give_nan),
        cmocka_unit_test(few_samples_have_no_p99_and_no_interval),
        cmocka_unit_test(ten_samples),
        cmocka_unit_test(p99_needs_a_hundred_samples),
        cmocka_unit_test(interval_ranks_match_published_tables),
        cmocka_unit_test(interval_ranks_match_binomial_sums),
        cmocka_unit_test(interval_ranks_match_normal_approximation),
        cmocka_unit_test(the_typical_time_is_that_of_the_faster_ranks),
        cmocka_unit_test(noise_has_no_outliers),
        cmocka_unit_test(outliers_exceed_the_spread_of_the_others),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
