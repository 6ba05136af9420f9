/* test_stopping.c - when sampling stops, trend detection, warnings, and the order of sizes. */
#include "collectives/measure/sampling_options.h"
#include "collectives/measure/stopping.h"
#include "collectives/sweep/cases.h"
#include "tests/check.h"

#include <math.h>

static struct bb_stats stats_of(const double *samples, size_t n)
{
    struct bb_stats s;

    bb_stats_compute(samples, n, &s);
    return s;
}

/* 12 samples: the interval is from the 3rd to the 10th (binomial: P(X < 3) = 79 / 4096 = 0.019); the median is 100. */
static const double samples_12[12] = {90, 92, 96, 97, 98, 100, 100, 102, 103, 104, 108, 110};

static void confidence_is_relative_half_width(void **state)
{
    struct bb_stats s = stats_of(samples_12, 12);

    (void)state;
    assert_true(s.ci95[0] == 96 && s.ci95[1] == 104 && s.p50 == 100);
    assert_true(bb_half_width(&s) == 0.04);
    assert_true(bb_stopping_is_confident(&(struct bb_stopping){.confidence = 0.04}, &s));
    assert_false(bb_stopping_is_confident(&(struct bb_stopping){.confidence = 0.0399}, &s));
    s = stats_of(samples_12, 5); /* too few samples for an interval */
    assert_true(isnan(bb_half_width(&s)));
    assert_false(bb_stopping_is_confident(&(struct bb_stopping){.confidence = 1}, &s));
    s = stats_of((const double[]){0, 0, 0, 0, 0, 0}, 6); /* width 0 and median 0 */
    assert_true(bb_stopping_is_confident(&(struct bb_stopping){.confidence = 0.01}, &s));
}

static void reports_the_first_reason_to_stop(void **state)
{
    const struct bb_stopping p = {.confidence = 0.01, .max_samples = 100, .max_s = 2};
    const struct {
        bool narrow;
        size_t n;
        double s;
        enum bb_stop stop;
    } rows[] = {
        {false, 99, 1.9, BB_STOP_NOT_YET}, {true, 6, 0, BB_STOP_CONFIDENT},  {true, 100, 3, BB_STOP_CONFIDENT},
        {false, 100, 0, BB_STOP_SAMPLES},  {false, 101, 3, BB_STOP_SAMPLES}, {false, 99, 2, BB_STOP_TIME},
    };

    (void)state;
    for (size_t i = 0; i < ROWS(rows); i++)
        assert_int_equal(bb_stopping_decide(&p, rows[i].narrow, rows[i].n, rows[i].s), rows[i].stop);
    assert_int_equal(bb_stopping_decide(&(struct bb_stopping){0}, false, 1, 1e9), BB_STOP_FIXED);
}

static void detects_a_trend_but_not_noise(void **state)
{
    static const double noise[10] = {100, 104, 97, 101, 99, 103, 98, 102, 100, 96};
    double x[1000];

    (void)state;
    for (int i = 0; i < 10; i++)
        x[i] = 130 - 3 * i;
    assert_true(bb_has_trend(x, 10)); /* all 45 pairs fall: 44 / 11.2 = 3.9 sigmas */
    assert_false(bb_has_trend(x, 5)); /* too few samples for a trend */
    assert_false(bb_has_trend(noise, 10));
    for (int i = 0; i < 10; i++)
        x[i] = 100 - 0.01 * i;
    assert_false(bb_has_trend(x, 10)); /* significant, but too small for a warning */
    for (int i = 0; i < 10; i++)
        x[i] = 100;
    assert_false(bb_has_trend(x, 10));
    for (int i = 0; i < 1000; i++)
        x[i] = noise[i % 10] + i * 0.01; /* a rise of 10 % with 8 % noise */
    assert_true(bb_has_trend(x, 1000));
    for (int i = 0; i < 1000; i++)
        x[i] = noise[i % 10];
    assert_false(bb_has_trend(x, 1000));
}

static unsigned bit(enum bb_warning w)
{
    return 1u << w;
}

static void warnings_follow_the_samples(void **state)
{
    static const double wide[6] = {80, 120, 90, 110, 95, 105};
    double falling[12], spiked[12], many[200];
    struct bb_stats s = stats_of(samples_12, 12);

    (void)state;
    assert_int_equal(bb_warnings_of(&s, (const double[12]){1, 2, 1, 2, 1, 2, 1, 2, 1, 2, 1, 2}, BB_STOP_CONFIDENT), 0);
    s = stats_of(wide, 6);
    assert_int_equal(bb_warnings_of(&s, wide, BB_STOP_FIXED), bit(BB_WARN_NOISY));
    assert_int_equal(bb_warnings_of(&s, wide, BB_STOP_TIME), bit(BB_WARN_NOISY) | bit(BB_WARN_NOT_CONFIDENT));
    s = stats_of(wide, 2);
    assert_int_equal(bb_warnings_of(&s, wide, BB_STOP_FIXED), bit(BB_WARN_FEW_SAMPLES));
    for (int i = 0; i < 12; i++)
        falling[i] = 100 - i;
    s = stats_of(falling, 12);
    assert_int_equal(bb_warnings_of(&s, falling, BB_STOP_FIXED), bit(BB_WARN_TREND));
    for (int i = 0; i < 12; i++)
        spiked[i] = i == 5 ? 2 : 1 + 0.03 * (i % 3 - 1); /* 3 % of noise, and a sample of twice the median */
    s = stats_of(spiked, 12);
    assert_int_equal(bb_warnings_of(&s, spiked, BB_STOP_FIXED), 0);
    spiked[5] = 50;
    s = stats_of(spiked, 12);
    assert_int_equal(bb_warnings_of(&s, spiked, BB_STOP_FIXED), bit(BB_WARN_OUTLIERS));
    for (int i = 0; i < 200; i++)
        many[i] = i % 90 == 3 ? 50 : 1 + 0.03 * (i % 3 - 1); /* 3 of 200 are slow */
    s = stats_of(many, 200);
    assert_int_equal(bb_warnings_of(&s, many, BB_STOP_FIXED), bit(BB_WARN_OUTLIERS));
    many[3] = 1; /* 1 % */
    s = stats_of(many, 200);
    assert_int_equal(bb_warnings_of(&s, many, BB_STOP_FIXED), 0);
    for (int w = 0; w < BB_WARN_COUNT; w++)
        assert_true(bb_warnings[w].word && bb_warnings[w].text && bb_warnings[w].advice);
}

static void shuffle_is_a_permutation_given_by_the_seed(void **state)
{
    size_t a[20], b[20], seen = 0, moved = 0, differs = 0;

    (void)state;
    for (size_t i = 0; i < 20; i++)
        a[i] = b[i] = i;
    bb_shuffle(a, 20, 7);
    bb_shuffle(b, 20, 7);
    assert_memory_equal(a, b, sizeof a);
    for (size_t i = 0; i < 20; i++) {
        seen |= (size_t)1 << a[i];
        moved += a[i] != i;
        b[i] = i;
    }
    assert_int_equal(seen, (1 << 20) - 1);
    assert_true(moved > 10);
    bb_shuffle(b, 20, 8);
    for (size_t i = 0; i < 20; i++)
        differs += a[i] != b[i];
    assert_true(differs > 10);
    bb_shuffle(a, 0, 1);
    bb_shuffle(a, 1, 1);
}

/* All permutations are about equally frequent: 6 permutations of 3 elements, 6000 seeds, 1000 each. */
static void shuffle_is_uniform(void **state)
{
    int seen[27] = {0};

    (void)state;
    for (uint64_t seed = 0; seed < 6000; seed++) {
        size_t list[3] = {0, 1, 2};
        bb_shuffle(list, 3, seed);
        seen[list[0] * 9 + list[1] * 3 + list[2]]++;
    }
    for (int i = 0; i < 27; i++)
        assert_true(seen[i] == 0 || (seen[i] > 880 && seen[i] < 1120));
}

static int keep_count(void *arg, const struct bb_case *c)
{
    size_t *list = arg;

    list[++list[0]] = c->count;
    return 0;
}

static void shuffled_sweep_has_all_sizes(void **state)
{
    struct bb_sweep s = {.dtypes = {BB_UINT8}, .n_dtypes = 1, .redops = {BB_SUM}, .n_redops = 1, .factor = 2};
    size_t sorted[40] = {0}, shuffled_sizes[40] = {0}, sum = 0;

    (void)state;
    s.min_bytes = 1;
    s.max_bytes = 1 << 20;
    assert_int_equal(bb_sweep_each(&s, BB_ALL_REDUCE, 2, keep_count, sorted), 0);
    s.shuffled = true;
    s.seed = 3;
    assert_int_equal(bb_sweep_each(&s, BB_ALL_REDUCE, 2, keep_count, shuffled_sizes), 0);
    assert_int_equal(sorted[0], 21);
    assert_int_equal(shuffled_sizes[0], 21);
    for (size_t i = 1; i <= 21; i++) {
        assert_int_equal(sorted[i], (size_t)1 << (i - 1));
        sum += shuffled_sizes[i];
    }
    assert_int_equal(sum, (1 << 21) - 1);
    assert_memory_not_equal(sorted, shuffled_sizes, sizeof shuffled_sizes);
}

static void parses_sampling_options(void **state)
{
    static const char *const bad_delays[] = {"", "1", "1:", ":5", "x:5", "1:-5", "1:5,", "-1:5", "1:5;2:6", "1:1e12"};
    static const char *const bad_confidences[] = {"", "%", "0", "0%", "-1%", "1%%", "101%", "x%", "1 %"};
    double us[4] = {0};
    int highest;

    (void)state;
    assert_int_equal(bb_sampling_parse_delays("1:100,rank=3:0.5us,1:7,9:1", 4, us, &highest), 0);
    assert_true(us[0] == 0 && us[1] == 7 && us[2] == 0 && us[3] == 0.5 && highest == 9);
    for (size_t i = 0; i < ROWS(bad_delays); i++)
        assert_int_equal(bb_sampling_parse_delays(bad_delays[i], 4, us, &highest), -BB_EUSAGE);
    for (size_t i = 0; i < ROWS(bad_confidences); i++)
        assert_int_equal(bb_sampling_resolve(&(struct bb_sampling_options){.confidence = bad_confidences[i]}),
                         -BB_EUSAGE);
    struct bb_sampling_options o = {.confidence = "2.5%", .shuffle = "12"};
    assert_int_equal(bb_sampling_resolve(&o), 0);
    assert_true(o.confidence_fraction == 0.025 && o.seed == 12);
    assert_int_equal(bb_sampling_resolve(&(struct bb_sampling_options){.shuffle = "x"}), -BB_EUSAGE);
    assert_int_equal(bb_sampling_resolve(&(struct bb_sampling_options){.delay = "1:2", .mode = "stream"}), -BB_EUSAGE);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(confidence_is_relative_half_width),
        cmocka_unit_test(reports_the_first_reason_to_stop),
        cmocka_unit_test(detects_a_trend_but_not_noise),
        cmocka_unit_test(warnings_follow_the_samples),
        cmocka_unit_test(shuffle_is_a_permutation_given_by_the_seed),
        cmocka_unit_test(shuffle_is_uniform),
        cmocka_unit_test(shuffled_sweep_has_all_sizes),
        cmocka_unit_test(parses_sampling_options),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
