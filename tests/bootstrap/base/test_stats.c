/* test_stats.c - figures of samples against hand-made cases, and interval ranks against the published tables. */
#include "bootstrap/base/stats.h"
#include "tests/check.h"

#include <math.h>

static void test_none(void **state)
{
    struct bb_stats s;

    (void)state;
    assert_int_equal(bb_stats_compute(NULL, 0, &s), 0);
    assert_int_equal(s.n, 0);
    assert_true(isnan(s.min) && isnan(s.max) && isnan(s.mean) && isnan(s.p50) && isnan(s.p90) && isnan(s.p99));
    assert_true(isnan(s.ci95[0]) && isnan(s.ci95[1]));
}

static void test_few(void **state)
{
    static const double one[] = {3}, five[] = {5, 1, 4, 2, 9};
    double copy[5];
    struct bb_stats s;

    (void)state;
    assert_int_equal(bb_stats_compute(one, 1, &s), 0);
    assert_true(s.min == 3 && s.max == 3 && s.mean == 3 && s.p50 == 3 && s.p90 == 3);
    memcpy(copy, five, sizeof(five));
    assert_int_equal(bb_stats_compute(copy, 5, &s), 0);
    assert_memory_equal(copy, five, sizeof(five));
    assert_true(s.n == 5 && s.min == 1 && s.max == 9 && s.mean == 4.2 && s.p50 == 4 && s.p90 == 9);
    assert_true(isnan(s.p99) && isnan(s.ci95[0])); /* 5 samples: the whole range covers only 93.75 % */
}

/* 1 .. n in a shuffled order: every figure is known. */
static void fill(double *samples, size_t n)
{
    for (size_t i = 0; i < n; i++)
        samples[i] = (double)(i * 7919 % n + 1); /* 7919 is prime and divides no n used here */
}

static void test_ten(void **state)
{
    double samples[10];
    struct bb_stats s;

    (void)state;
    fill(samples, 10);
    assert_int_equal(bb_stats_compute(samples, 10, &s), 0);
    assert_true(s.p50 == 5.5 && s.p90 == 9 && s.mean == 5.5);
    assert_true(s.ci95[0] == 2 && s.ci95[1] == 9);
    assert_true(isnan(s.p99));
}

static void test_hundred(void **state)
{
    double samples[100];
    struct bb_stats s;

    (void)state;
    fill(samples, 100);
    assert_int_equal(bb_stats_compute(samples, 100, &s), 0);
    assert_true(s.p50 == 50.5 && s.p90 == 90 && s.p99 == 99);
    assert_true(s.ci95[0] == 40 && s.ci95[1] == 61);
    assert_int_equal(bb_stats_compute(samples, 99, &s), 0);
    assert_true(isnan(s.p99));
}

/* Lower rank of the 95 % interval of the median, as tables of order statistics give it. */
static void test_interval_ranks(void **state)
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

/* The definition itself: exact binomial sums for n where 2^n is exact, and both sides of the limit. */
static void test_interval_definition(void **state)
{
    (void)state;
    for (size_t n = 6; n <= 52; n++) {
        size_t k = bb_stats_ci_rank(n);
        double ways = 1, below = 0, all = ldexp(1, (int)n);

        for (size_t i = 0; i < k; i++) {
            below += ways;
            ways = ways * (double)(n - i) / (double)(i + 1);
        }
        assert_true(below / all <= 0.025);
        assert_true((below + ways) / all > 0.025);
    }
}

/* Far beyond 2^-1074 the normal approximation must agree to a rank or two. */
static void test_interval_large(void **state)
{
    static const size_t sizes[] = {2000, 100000, 10000000};

    (void)state;
    for (size_t i = 0; i < 3; i++) {
        double n = (double)sizes[i], expected = n / 2 - 1.959964 * sqrt(n) / 2;

        assert_true(fabs((double)bb_stats_ci_rank(sizes[i]) - expected) < 2);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_none),
        cmocka_unit_test(test_few),
        cmocka_unit_test(test_ten),
        cmocka_unit_test(test_hundred),
        cmocka_unit_test(test_interval_ranks),
        cmocka_unit_test(test_interval_definition),
        cmocka_unit_test(test_interval_large),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
