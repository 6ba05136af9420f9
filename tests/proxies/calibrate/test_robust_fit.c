/*
 * test_robust_fit.c - bb_fit_run on rows generated from known parameters: exact rows, rows with noise, outliers, and
 * rows without sensitivity to a parameter.
 */
#include "tests/check.h"

#include "proxies/calibrate/robust_fit.h"

#include <math.h>

enum { ROWS_MADE = 24 };

/* Model: max(floor, latency x steps + bytes x time per byte). */
struct line {
    double steps[ROWS_MADE], bytes[ROWS_MADE], measured[ROWS_MADE];
};

static double line_us(void *model, const double *values, size_t i)
{
    const struct line *l = model;

    return fmax(values[2], l->steps[i] * values[0] + l->bytes[i] * values[1]);
}

/* The true parameters are 2.5 us per step, 1 / 40 us per byte and a floor of 4 us. Sizes double from `smallest` in
 * 24 rows. */
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

static void assert_near(double actual, double expected, double tolerance)
{
    if (!(fabs(actual / expected - 1) <= tolerance))
        fail_msg("%.9g, expected %.9g within %g", actual, expected, tolerance);
}

static void finds_parameters_of_exact_rows(void **state)
{
    struct line l = make_line(3, 8);
    struct bb_fit fit = fit_of(&l);

    (void)state;
    bb_fit_run(&fit);
    assert_near(fit.parameters[0].value, 2.5, 1e-6);
    assert_near(fit.parameters[1].value, 0.025, 1e-6);
    assert_true(fit.parameters[0].fitted && fit.parameters[1].fitted);
    assert_int_equal(fit.n_outliers, 0);
    assert_true(fit.worst_error < 1e-6);
    bb_fit_release(&fit);
}

/* No row is at the floor, because every row takes at least 7.5 us. */
static void keeps_parameter_without_sensitivity(void **state)
{
    struct line l = make_line(3, 8);
    struct bb_fit fit = fit_of(&l);

    (void)state;
    bb_fit_run(&fit);
    assert_false(fit.parameters[2].fitted);
    assert_near(fit.parameters[2].value, 1, 1e-12);
    bb_fit_release(&fit);
}

/* Without steps the small rows are below 4 us, so they show the floor. */
static void finds_a_floor(void **state)
{
    struct line l = make_line(0, 1);
    struct bb_fit fit = fit_of(&l);

    (void)state;
    bb_fit_run(&fit);
    assert_near(fit.parameters[2].value, 4, 1e-4);
    assert_near(fit.parameters[1].value, 0.025, 1e-4);
    bb_fit_release(&fit);
}

/* Only large messages: the latency is far below 5 % of their time. */
static void keeps_latency_that_large_messages_hide(void **state)
{
    struct line l = make_line(3, 1 << 20);
    struct bb_fit fit = fit_of(&l);

    (void)state;
    bb_fit_run(&fit);
    assert_false(fit.parameters[0].fitted);
    assert_near(fit.parameters[0].value, 7, 1e-12);
    assert_near(fit.parameters[1].value, 0.025, 1e-3);
    bb_fit_release(&fit);
}

static void outliers_do_not_change_the_fit(void **state)
{
    static const double factors[] = {10, 0.1, 1.5, 3, 0.6};
    struct line l = make_line(3, 8);
    struct bb_fit fit;

    (void)state;
    for (size_t i = 0; i < ROWS(factors); i++)
        l.measured[3 + 4 * i] *= factors[i];
    fit = fit_of(&l);
    bb_fit_run(&fit);
    assert_near(fit.parameters[0].value, 2.5, 1e-5);
    assert_near(fit.parameters[1].value, 0.025, 1e-5);
    assert_int_equal(fit.n_outliers, ROWS(factors));
    for (size_t i = 0; i < ROWS(factors); i++)
        assert_true(fit.is_outlier[3 + 4 * i]);
    bb_fit_release(&fit);
}

/* Noise of alternately +2 % and -2 %: parameters are found within 1 %, and the median error is 2 %. */
static void noise_is_averaged_and_reported(void **state)
{
    struct line l = make_line(3, 8);
    struct bb_fit fit;

    (void)state;
    for (int i = 0; i < ROWS_MADE; i++)
        l.measured[i] *= i % 2 ? 1.02 : 0.98;
    fit = fit_of(&l);
    bb_fit_run(&fit);
    assert_near(fit.parameters[0].value, 2.5, 0.01);
    assert_near(fit.parameters[1].value, 0.025, 0.01);
    assert_int_equal(fit.n_outliers, 0);
    assert_near(fit.median_error, 0.02, 0.2);
    bb_fit_release(&fit);
}

/* Model: values[0] + 3 values[1]. The measured value is 10. The start value is 2 + 3 x 2 = 8, so both parameters
 * grow by a quarter. */
static double sum_us(void *model, const double *values, size_t i)
{
    (void)model;
    (void)i;
    return values[0] + 3 * values[1];
}

static void reports_correlated_parameters(void **state)
{
    const double measured[] = {10, 10, 10};
    struct bb_fit fit = {.n_parameters = 2,
                         .parameters = {{.value = 2, .scale = 2}, {.value = 2, .scale = 2}},
                         .measured = measured,
                         .n_rows = 3,
                         .predict = sum_us};

    (void)state;
    bb_fit_run(&fit);
    assert_near(fit.parameters[0].value + 3 * fit.parameters[1].value, 10, 1e-6);
    assert_true(fit.parameters[0].correlated && fit.parameters[1].correlated);
    /* neither parameter decreases to compensate for the other */
    assert_true(fit.parameters[0].value >= 2 && fit.parameters[1].value >= 2);
    bb_fit_release(&fit);
}

static double constant_us(void *model, const double *values, size_t i)
{
    (void)model;
    (void)i;
    return values[0];
}

/* Measurements of 3 and 9 are equally frequent. The fit is their mean. With relative errors the short times would
 * have more weight and the fit would be lower. */
static void short_and_long_times_have_equal_weight(void **state)
{
    const double measured[] = {3, 9, 3, 9, 3, 9, 3, 9, 6, 6};
    struct bb_fit fit = {.n_parameters = 1,
                         .parameters = {{.value = 1, .scale = 1}},
                         .measured = measured,
                         .n_rows = ROWS(measured),
                         .predict = constant_us};

    (void)state;
    bb_fit_run(&fit);
    assert_near(fit.parameters[0].value, 6, 0.01);
    bb_fit_release(&fit);
}

/* A latency may be zero and must not be negative. */
static void latency_is_not_negative(void **state)
{
    struct line l = make_line(3, 8);
    struct bb_fit fit;

    (void)state;
    for (int i = 0; i < ROWS_MADE; i++)
        l.measured[i] = 0.025 * l.bytes[i];
    fit = fit_of(&l);
    bb_fit_run(&fit);
    assert_true(fit.parameters[0].value >= 0 && fit.parameters[0].value < 1e-3);
    assert_near(fit.parameters[1].value, 0.025, 1e-3);
    bb_fit_release(&fit);
}

static void reports_errors_without_parameters(void **state)
{
    struct line l = make_line(3, 8);
    struct bb_fit fit = fit_of(&l);

    (void)state;
    fit.n_parameters = 0;
    fit.predict = sum_us;
    bb_fit_run(&fit);
    assert_int_equal(fit.n_outliers, 0);
    assert_true(fit.worst_error > 0.9);
    bb_fit_release(&fit);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(finds_parameters_of_exact_rows),
        cmocka_unit_test(keeps_parameter_without_sensitivity),
        cmocka_unit_test(finds_a_floor),
        cmocka_unit_test(keeps_latency_that_large_messages_hide),
        cmocka_unit_test(outliers_do_not_change_the_fit),
        cmocka_unit_test(noise_is_averaged_and_reported),
        cmocka_unit_test(reports_correlated_parameters),
        cmocka_unit_test(short_and_long_times_have_equal_weight),
        cmocka_unit_test(latency_is_not_negative),
        cmocka_unit_test(reports_errors_without_parameters),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
