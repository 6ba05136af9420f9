/*
 * test_robust_fit.c - parameters from rows that are made here from known ones: exactly, with noise, with rows that fit
 * nothing, and where the rows do not tell.
 */
#include "tests/check.h"

#include "proxies/calibrate/robust_fit.h"

#include <math.h>

enum { ROWS_MADE = 24 };

/* latency x steps + bytes x (1 / rate), the larger of that and a floor. */
struct line {
    double steps[ROWS_MADE], bytes[ROWS_MADE], measured[ROWS_MADE];
};

static double line_us(void *model, const double *values, size_t i)
{
    const struct line *l = model;

    return fmax(values[2], l->steps[i] * values[0] + l->bytes[i] * values[1]);
}

/* 3 steps of 2.5 us, 1 / 40 us a byte, from 8 to 8 x 2^23 bytes; floor 4 us. */
static struct line make_line(double steps, double smallest)
{
    static const double truth[] = {2.5, 0.025, 4};
    struct line l;

    for (int i = 0; i < ROWS_MADE; i++) {
        l.steps[i] = steps;
        l.bytes[i] = smallest * pow(2, i);
    }
    for (size_t i = 0; i < ROWS_MADE; i++)
        l.measured[i] = line_us(&l, truth, i);
    return l;
}

static struct bb_fit fit_of(struct line *l)
{
    return (struct bb_fit){.n_parameters = 3,
                           .parameters = {{.value = 7, .scale = 7},
                                          {.value = 0.004, .min = 4e-6, .scale = 0.004},
                                          {.value = 1, .scale = 1}},
                           .measured = l->measured,
                           .n_rows = ROWS_MADE,
                           .predict = line_us,
                           .model = l};
}

static void near(double got, double expected, double part)
{
    if (!(fabs(got / expected - 1) <= part))
        fail_msg("%.9g, expected %.9g within %g", got, expected, part);
}

static void the_figures_of_exact_rows_are_found(void **state)
{
    struct line l = make_line(3, 8);
    struct bb_fit fit = fit_of(&l);

    (void)state;
    assert_int_equal(bb_fit_run(&fit), 0);
    near(fit.parameters[0].value, 2.5, 1e-6);
    near(fit.parameters[1].value, 0.025, 1e-6);
    assert_true(fit.parameters[0].fitted && fit.parameters[1].fitted);
    assert_int_equal(fit.n_outliers, 0);
    assert_true(fit.worst_error < 1e-6);
    bb_fit_release(&fit);
}

/* No row stands on the floor: 7.5 us and more. */
static void a_parameter_that_no_row_shows_stays(void **state)
{
    struct line l = make_line(3, 8);
    struct bb_fit fit = fit_of(&l);

    (void)state;
    assert_int_equal(bb_fit_run(&fit), 0);
    assert_false(fit.parameters[2].fitted);
    near(fit.parameters[2].value, 1, 1e-12);
    bb_fit_release(&fit);
}

/* Bytes alone are below the floor of 4 us: small rows show it. */
static void a_floor_is_found(void **state)
{
    struct line l = make_line(0, 1);
    struct bb_fit fit = fit_of(&l);

    (void)state;
    assert_int_equal(bb_fit_run(&fit), 0);
    near(fit.parameters[2].value, 4, 1e-4);
    near(fit.parameters[1].value, 0.025, 1e-4);
    bb_fit_release(&fit);
}

/* Only large messages: their latency is far below 5 % of their time. */
static void a_latency_that_large_rows_hide_stays_nominal(void **state)
{
    struct line l = make_line(3, 1 << 20);
    struct bb_fit fit = fit_of(&l);

    (void)state;
    assert_int_equal(bb_fit_run(&fit), 0);
    assert_false(fit.parameters[0].fitted);
    near(fit.parameters[0].value, 7, 1e-12);
    near(fit.parameters[1].value, 0.025, 1e-3);
    bb_fit_release(&fit);
}

static void outliers_move_nothing(void **state)
{
    static const double factors[] = {10, 0.1, 1.5, 3, 0.6};
    struct line l = make_line(3, 8);
    struct bb_fit fit;

    (void)state;
    for (size_t i = 0; i < ROWS(factors); i++)
        l.measured[3 + 4 * i] *= factors[i];
    fit = fit_of(&l);
    assert_int_equal(bb_fit_run(&fit), 0);
    near(fit.parameters[0].value, 2.5, 1e-5);
    near(fit.parameters[1].value, 0.025, 1e-5);
    assert_int_equal(fit.n_outliers, ROWS(factors));
    for (size_t i = 0; i < ROWS(factors); i++)
        assert_true(fit.is_outlier[3 + 4 * i]);
    bb_fit_release(&fit);
}

/* 2 % up and down by turns: within 2 % all the same, and said. */
static void noise_is_averaged_and_told(void **state)
{
    struct line l = make_line(3, 8);
    struct bb_fit fit;

    (void)state;
    for (int i = 0; i < ROWS_MADE; i++)
        l.measured[i] *= i % 2 ? 1.02 : 0.98;
    fit = fit_of(&l);
    assert_int_equal(bb_fit_run(&fit), 0);
    near(fit.parameters[0].value, 2.5, 0.01);
    near(fit.parameters[1].value, 0.025, 0.01);
    assert_int_equal(fit.n_outliers, 0);
    near(fit.median_error, 0.02, 0.2);
    bb_fit_release(&fit);
}

/* values[0] + 3 values[1]: 4 + 3 x 2 = 10. Started at 2 and 2, the sum of 8 grows by a quarter. */
static double sum_us(void *model, const double *values, size_t i)
{
    (void)model;
    (void)i;
    return values[0] + 3 * values[1];
}

static void what_only_a_sum_tells_is_said(void **state)
{
    const double measured[] = {10, 10, 10};
    struct bb_fit fit = {.n_parameters = 2,
                         .parameters = {{.value = 2, .scale = 2}, {.value = 2, .scale = 2}},
                         .measured = measured,
                         .n_rows = 3,
                         .predict = sum_us};

    (void)state;
    assert_int_equal(bb_fit_run(&fit), 0);
    near(fit.parameters[0].value + 3 * fit.parameters[1].value, 10, 1e-6);
    assert_true(fit.parameters[0].correlated && fit.parameters[1].correlated);
    assert_true(fit.parameters[0].value >= 2 && fit.parameters[1].value >= 2); /* none pays for the other */
    bb_fit_release(&fit);
}

static double constant_us(void *model, const double *values, size_t i)
{
    (void)model;
    (void)i;
    return values[0];
}

/* As often half as large again as half as large: their mean, not what the short ones, of whose time an error is more,
 * would have. */
static void short_times_count_no_more_than_long_ones(void **state)
{
    const double measured[] = {3, 9, 3, 9, 3, 9, 3, 9, 6, 6};
    struct bb_fit fit = {.n_parameters = 1,
                         .parameters = {{.value = 1, .scale = 1}},
                         .measured = measured,
                         .n_rows = ROWS(measured),
                         .predict = constant_us};

    (void)state;
    assert_int_equal(bb_fit_run(&fit), 0);
    near(fit.parameters[0].value, 6, 0.01);
    bb_fit_release(&fit);
}

/* A latency can be nothing, and is never less. */
static void no_latency_is_below_nothing(void **state)
{
    struct line l = make_line(3, 8);
    struct bb_fit fit;

    (void)state;
    for (int i = 0; i < ROWS_MADE; i++)
        l.measured[i] = 0.025 * l.bytes[i];
    fit = fit_of(&l);
    assert_int_equal(bb_fit_run(&fit), 0);
    assert_true(fit.parameters[0].value >= 0 && fit.parameters[0].value < 1e-3);
    near(fit.parameters[1].value, 0.025, 1e-3);
    bb_fit_release(&fit);
}

static void without_parameters_rows_are_judged(void **state)
{
    struct line l = make_line(3, 8);
    struct bb_fit fit = fit_of(&l);

    (void)state;
    fit.n_parameters = 0;
    fit.predict = sum_us;
    assert_int_equal(bb_fit_run(&fit), 0);
    assert_int_equal(fit.n_outliers, 0);
    assert_true(fit.worst_error > 0.9);
    bb_fit_release(&fit);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_figures_of_exact_rows_are_found),
        cmocka_unit_test(a_parameter_that_no_row_shows_stays),
        cmocka_unit_test(a_floor_is_found),
        cmocka_unit_test(a_latency_that_large_rows_hide_stays_nominal),
        cmocka_unit_test(outliers_move_nothing),
        cmocka_unit_test(noise_is_averaged_and_told),
        cmocka_unit_test(what_only_a_sum_tells_is_said),
        cmocka_unit_test(short_times_count_no_more_than_long_ones),
        cmocka_unit_test(no_latency_is_below_nothing),
        cmocka_unit_test(without_parameters_rows_are_judged),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
