/*
 * test_robust_fit.c - bb_fit_run on rows generated from known parameters: exact rows, rows with noise, outliers, and
 * rows without sensitivity to a parameter.
 */
#include "tests/check.h"

#include "proxies/offline/calibrate/fit/robust_fit.h"

#include <math.h>

enum { ROWS_MADE = 24 };

/* Model: max(floor, latency x steps + bytes x time per byte). */
struct line {
    double steps[ROWS_MADE], bytes[ROWS_MADE];
    struct bb_fit_row rows[ROWS_MADE];
};

static double time_us(const struct line *l, double latency, double per_byte, double floor, size_t i)
{
    return fmax(floor, l->steps[i] * latency + l->bytes[i] * per_byte);
}

static double line_us(const struct bb_fit *fit, size_t i)
{
    const struct bb_fit_parameter *p = fit->parameters;

    return time_us(fit->model, p[0].value, p[1].value, p[2].value, i);
}

/* The true parameters are 2.5 us per step, 1 / 40 us per byte and a floor of 4 us. Sizes double from `smallest` in
 * 24 rows. */
static struct line make_line(double steps, double smallest)
{
    struct line l = {0};

    for (int i = 0; i < ROWS_MADE; i++) {
        l.steps[i] = steps;
        l.bytes[i] = smallest * pow(2, i);
    }
    for (size_t i = 0; i < ROWS_MADE; i++)
        l.rows[i].measured = time_us(&l, 2.5, 0.025, 4, i);
    return l;
}

static struct bb_fit fit_of(struct line *l)
{
    return (struct bb_fit){.n_parameters = 3,
                           .parameters = {{.start = 7, .scale = 7},
                                          {.start = 0.004, .min = 4e-6, .scale = 0.004},
                                          {.start = 1, .scale = 1}},
                           .rows = l->rows,
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
}

static void outliers_do_not_change_the_fit(void **state)
{
    static const double factors[] = {10, 0.1, 1.5, 3, 0.6};
    struct line l = make_line(3, 8);
    struct bb_fit fit;

    (void)state;
    for (size_t i = 0; i < ROWS(factors); i++)
        l.rows[3 + 4 * i].measured *= factors[i];
    fit = fit_of(&l);
    bb_fit_run(&fit);
    assert_near(fit.parameters[0].value, 2.5, 1e-5);
    assert_near(fit.parameters[1].value, 0.025, 1e-5);
    assert_int_equal(fit.n_outliers, ROWS(factors));
    for (size_t i = 0; i < ROWS(factors); i++)
        assert_true(l.rows[3 + 4 * i].is_outlier);
}

/* Noise of alternately +2 % and -2 %: parameters are found within 1 %, and the median error is 2 %. */
static void noise_is_averaged_and_reported(void **state)
{
    struct line l = make_line(3, 8);
    struct bb_fit fit;

    (void)state;
    for (int i = 0; i < ROWS_MADE; i++)
        l.rows[i].measured *= i % 2 ? 1.02 : 0.98;
    fit = fit_of(&l);
    bb_fit_run(&fit);
    assert_near(fit.parameters[0].value, 2.5, 0.01);
    assert_near(fit.parameters[1].value, 0.025, 0.01);
    assert_int_equal(fit.n_outliers, 0);
    assert_near(fit.median_error, 0.02, 0.2);
}

/* Model: values[0] + 3 values[1]. The measured value is 10. The start value is 2 + 3 x 2 = 8, so both parameters
 * grow by a quarter. */
static double sum_us(const struct bb_fit *fit, size_t i)
{
    (void)i;
    return fit->parameters[0].value + 3 * fit->parameters[1].value;
}

static void reports_correlated_parameters(void **state)
{
    struct bb_fit_row rows[] = {{.measured = 10}, {.measured = 10}, {.measured = 10}};
    struct bb_fit fit = {.n_parameters = 2,
                         .parameters = {{.start = 2, .scale = 2}, {.start = 2, .scale = 2}},
                         .rows = rows,
                         .n_rows = ROWS(rows),
                         .predict = sum_us};

    (void)state;
    bb_fit_run(&fit);
    assert_near(fit.parameters[0].value + 3 * fit.parameters[1].value, 10, 1e-6);
    assert_true(fit.parameters[0].correlated && fit.parameters[1].correlated);
    /* neither parameter decreases to compensate for the other */
    assert_true(fit.parameters[0].value >= 2 && fit.parameters[1].value >= 2);
}

static double constant_us(const struct bb_fit *fit, size_t i)
{
    (void)i;
    return fit->parameters[0].value;
}

/* Measurements of 3 and 9 are equally frequent. The fit is their mean. With relative errors the short times would
 * have more weight and the fit would be lower. */
static void short_and_long_times_have_equal_weight(void **state)
{
    const double measured[] = {3, 9, 3, 9, 3, 9, 3, 9, 6, 6};
    struct bb_fit_row rows[ROWS(measured)] = {{0}};
    struct bb_fit fit = {.n_parameters = 1,
                         .parameters = {{.start = 1, .scale = 1}},
                         .rows = rows,
                         .n_rows = ROWS(rows),
                         .predict = constant_us};

    (void)state;
    for (size_t i = 0; i < ROWS(rows); i++)
        rows[i].measured = measured[i];
    bb_fit_run(&fit);
    assert_near(fit.parameters[0].value, 6, 0.01);
}

/* A latency may be zero and must not be negative. */
static void latency_is_not_negative(void **state)
{
    struct line l = make_line(3, 8);
    struct bb_fit fit;

    (void)state;
    for (int i = 0; i < ROWS_MADE; i++)
        l.rows[i].measured = 0.025 * l.bytes[i];
    fit = fit_of(&l);
    bb_fit_run(&fit);
    assert_true(fit.parameters[0].value >= 0 && fit.parameters[0].value < 1e-3);
    assert_near(fit.parameters[1].value, 0.025, 1e-3);
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
