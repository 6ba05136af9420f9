/* robust_fit.c - see robust_fit.h. */
#include "proxies/offline/calibrate/fit/robust_fit.h"

#include "bootstrap/base/alloc.h"
#include "bootstrap/base/stats.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { P = BB_FIT_PARAMETERS, STEPS = 60, LAD_STEPS = 20, ROWS_PER_PARAMETER = 3 };

/* A parameter is fitted only if it contributes at least this fraction of the predicted time of at least one
 * measurement. */
#define MIN_SENSITIVITY 0.05
/* Step width of the numerical derivatives (central differences) as a multiple of the parameter's `scale`. The step
 * is large because predicted times are rounded to whole ns. */
#define STEP 0.1
/* Relative error of a value that the arithmetic set to its lower bound. */
#define ROUNDING 1e-3
/* DAMPING x (sum of the measurements' weights) is added to the diagonal of the normal equations, so that parameters
 * that the measurements do not determine keep their values. */
#define DAMPING 1e-5
/* Errors are relative to the predicted time, but at least to this fraction of the measured time. */
#define MIN_REFERENCE 0.01
#define TUKEY         4.685
/* Minimum scale (typical size) of the relative errors in Tukey's biweight; no model is more accurate. */
#define MIN_SCALE 5e-3
/* Smallest value, as a part of its scale, to which an uncertainty is relative. */
#define MIN_PART 0.1
/* Rows of a group that have weight 0 are no outliers if they are more than this part of its rows, of this number of sizes or
 * more. */
#define SYSTEMATIC_PART  0.1
#define SYSTEMATIC_SIZES 3

/* Normal equations a x = b for the change x of the parameters, in units of their `scale`: a = S^T W S, b = -S^T W
 * error, with the slopes S and the weights W. */
struct normal_equations {
    double a[P][P], b[P];
    double sum_weights;
};

/* ---- linear algebra ---- */

/* Solves a x = b for the free parameters by Gauss-Jordan elimination, without pivoting: a is symmetric and, because
 * of DAMPING, positive definite. */
static void solve(double a[P][P], const double b[P], const bool *is_free, int n, double x[P])
{
    double m[P][P + 1];
    int at[P], k = 0;

    for (int i = 0; i < n; i++)
        if (is_free[i])
            at[k++] = i;
    memset(x, 0, sizeof(double) * P);
    for (int i = 0; i < k; i++) {
        for (int j = 0; j < k; j++)
            m[i][j] = a[at[i]][at[j]];
        m[i][k] = b[at[i]];
    }
    for (int i = 0; i < k; i++)
        for (int r = 0; r < k; r++) {
            const double factor = r == i ? 0 : m[r][i] / m[i][i];

            for (int j = i; j <= k && r != i; j++)
                m[r][j] -= factor * m[i][j];
        }
    for (int i = 0; i < k; i++)
        x[at[i]] = m[i][k] / m[i][i];
}

/* ---- one Gauss-Newton iteration ---- */

/* Computes the errors. from_predicted: errors are relative to the predicted times, otherwise to the measured times.
 * With errors relative to the measured times, a measured time that is too short would have more weight than one that is
 * too long by the same amount. */
static void find_errors(struct bb_fit *fit, bool from_predicted)
{
    for (size_t i = 0; i < fit->n_rows; i++) {
        struct bb_fit_row *row = &fit->rows[i];
        const double predicted = fit->predict(fit, i);

        row->reference = from_predicted ? fmax(predicted, MIN_REFERENCE * row->measured) : row->measured;
        row->error = (predicted - row->measured) / row->reference;
    }
}

static void find_slopes(struct bb_fit *fit)
{
    for (int p = 0; p < fit->n_parameters; p++) {
        struct bb_fit_parameter *one = &fit->parameters[p];
        const double here = one->value, step = STEP * one->scale, low = here - step < one->min ? here : here - step;

        for (size_t i = 0; i < fit->n_rows; i++) {
            double *slope = &fit->rows[i].slope[p];

            one->value = here + step;
            *slope = fit->predict(fit, i);
            one->value = low;
            *slope -= fit->predict(fit, i);
            *slope *= one->scale / (here + step - low) / fit->rows[i].reference;
        }
        one->value = here;
    }
}

/* Returns the statistics of the absolute values of the relative errors: of all rows if `all` is true, otherwise of
 * the rows that are not outliers. */
static struct bb_stats summarize_errors(const struct bb_fit *fit, bool all)
{
    struct bb_stats stats;
    double *selected;
    size_t n = 0;

    BB_NEW(selected, fit->n_rows);
    for (size_t i = 0; i < fit->n_rows; i++)
        if (all || !fit->rows[i].is_outlier)
            selected[n++] = fabs(fit->rows[i].error);
    bb_stats_compute(selected, n, &stats);
    free(selected);
    return stats;
}

/* Returns the relative error from which a row is an outlier; INFINITY: there are too few rows to identify outliers. */
static double outlier_limit(const struct bb_fit *fit)
{
    if (fit->n_rows < ROWS_PER_PARAMETER * (size_t)fit->n_parameters)
        return INFINITY;
    return TUKEY * fmax(1.4826 * summarize_errors(fit, true).p50, MIN_SCALE); /* without rows p50 is NaN, which fmax
                                                                                 ignores */
}

static void weigh_rows(struct bb_fit *fit, bool least_absolute_deviations)
{
    const double limit = outlier_limit(fit);

    for (size_t i = 0; i < fit->n_rows; i++) {
        const double e = fabs(fit->rows[i].error), u = e / limit;

        fit->rows[i].weight = least_absolute_deviations && isfinite(limit) ? 1 / fmax(e, 1e-4)
                              : u < 1                                      ? (1 - u * u) * (1 - u * u)
                                                                           : 0;
    }
}

static struct normal_equations gather_normal(const struct bb_fit *fit)
{
    struct normal_equations normal = {0};

    for (const struct bb_fit_row *row = fit->rows; row < fit->rows + fit->n_rows; row++) {
        for (int p = 0; p < fit->n_parameters; p++) {
            normal.b[p] -= row->weight * row->slope[p] * row->error;
            for (int q = 0; q < fit->n_parameters; q++)
                normal.a[p][q] += row->weight * row->slope[p] * row->slope[q];
        }
        normal.sum_weights += row->weight;
    }
    return normal;
}

static void add_damping(struct normal_equations *normal, int n, double damping)
{
    for (int p = 0; p < n; p++)
        normal->a[p][p] += damping * normal->sum_weights + 1e-12;
}

/* Changes the parameters by the solution of the normal equations (active set method). A parameter that would fall
 * below its lower bound is set to the bound, and the equations are solved again for the other parameters. */
static void move_within_bounds(struct bb_fit *fit, struct normal_equations *normal)
{
    double x[P] = {0};
    bool is_free[P], again = true;

    for (int p = 0; p < fit->n_parameters; p++)
        is_free[p] = fit->parameters[p].fitted;
    while (again) {
        again = false;
        solve(normal->a, normal->b, is_free, fit->n_parameters, x);
        for (int p = 0; p < fit->n_parameters && !again; p++) {
            struct bb_fit_parameter *one = &fit->parameters[p];

            if (!is_free[p] || one->value + x[p] * one->scale >= one->min)
                continue;
            again = true;
            is_free[p] = false;
            for (int q = 0; q < fit->n_parameters; q++)
                normal->b[q] -= normal->a[q][p] * (one->min - one->value) / one->scale;
            one->value = one->min;
        }
    }
    for (int p = 0; p < fit->n_parameters; p++)
        fit->parameters[p].value += is_free[p] ? x[p] * fit->parameters[p].scale : 0;
}

static void take_steps(struct bb_fit *fit)
{
    for (int p = 0; p < fit->n_parameters; p++)
        fit->parameters[p].value = fit->parameters[p].start;
    for (int step = 0; step < STEPS; step++) {
        struct normal_equations normal;

        find_errors(fit, step > LAD_STEPS);
        find_slopes(fit);
        weigh_rows(fit, step < LAD_STEPS);
        normal = gather_normal(fit);
        add_damping(&normal, fit->n_parameters, DAMPING);
        move_within_bounds(fit, &normal);
    }
}

/* ---- parameters that the rows do not determine ---- */

/* Returns the largest fraction of a row's predicted time that parameter p contributes, over all rows with a weight
 * above 0. */
static double sensitivity_of(const struct bb_fit *fit, int p)
{
    const struct bb_fit_parameter *one = &fit->parameters[p];
    double largest = 0;

    for (size_t i = 0; i < fit->n_rows; i++)
        if (fit->rows[i].weight > 0)
            largest = fmax(largest, fit->rows[i].slope[p] * fmax(fabs(one->value), one->start) / one->scale);
    return largest;
}

/* Freezes parameters at their start values: those that contribute too little to the time of every row
 * (MIN_SENSITIVITY), and rates that the fit raised to their upper limit. Returns whether this call froze a
 * parameter. */
static bool freeze_insensitive(struct bb_fit *fit)
{
    bool found = false;

    for (int p = 0; p < fit->n_parameters; p++) {
        struct bb_fit_parameter *one = &fit->parameters[p];
        const bool unbounded = one->min > 0 && one->value <= one->min * (1 + ROUNDING);

        if (one->fitted && (unbounded || sensitivity_of(fit, p) < fmax(MIN_SENSITIVITY, one->min_sensitivity))) {
            one->fitted = false;
            found = true;
        }
    }
    return found;
}

/* Marks correlated parameters. The slopes of each parameter are regressed on the slopes of all parameters, with
 * damping. If the coefficient of the parameter itself is below 0.99, other parameters can partly replace it. */
static void find_correlated(struct bb_fit *fit)
{
    const struct normal_equations normal = gather_normal(fit);
    struct normal_equations damped = normal;
    double x[P];
    bool is_free[P];

    add_damping(&damped, fit->n_parameters, DAMPING / 10);
    for (int p = 0; p < fit->n_parameters; p++)
        is_free[p] = fit->parameters[p].fitted;
    for (int p = 0; p < fit->n_parameters; p++) {
        for (int q = 0; q < fit->n_parameters; q++)
            damped.b[q] = normal.a[q][p];
        solve(damped.a, damped.b, is_free, fit->n_parameters, x);
        fit->parameters[p].correlated = is_free[p] && x[p] < 0.99;
    }
}

/* Returns the 97.5 % quantile of Student's distribution (Cornish-Fisher expansion; Abramowitz & Stegun, 26.7.5). */
static double student(double freedom)
{
    return 1.96 + 2.37 / freedom + 2.82 / (freedom * freedom);
}

/* Computes the uncertainties from the covariance of least squares, s^2 (S^T W S)^-1, where s^2 is the weighted sum of the
 * squares of the errors per degree of freedom. */
static void find_uncertainties(struct bb_fit *fit)
{
    struct normal_equations normal = gather_normal(fit);
    double x[P], squares = 0, freedom = normal.sum_weights, scale;
    bool is_free[P];

    for (const struct bb_fit_row *row = fit->rows; row < fit->rows + fit->n_rows; row++)
        squares += row->weight * row->error * row->error;
    for (int p = 0; p < fit->n_parameters; p++) {
        is_free[p] = fit->parameters[p].fitted;
        freedom -= is_free[p];
    }
    freedom = fmax(freedom, 1);
    scale = student(freedom) * fmax(sqrt(squares / freedom), MIN_SCALE);
    add_damping(&normal, fit->n_parameters, DAMPING / 10);
    for (int p = 0; p < fit->n_parameters; p++) {
        struct bb_fit_parameter *one = &fit->parameters[p];

        one->uncertainty = NAN;
        if (!one->fitted || one->correlated)
            continue;
        for (int q = 0; q < fit->n_parameters; q++)
            normal.b[q] = p == q;
        solve(normal.a, normal.b, is_free, fit->n_parameters, x);
        one->uncertainty = scale * sqrt(x[p]) / fmax(fabs(one->value) / one->scale, MIN_PART);
    }
}

/* Returns whether a row that has weight 0 is one of many of its group with errors of the same sign. */
static bool is_systematic(const struct bb_fit *fit, const struct bb_fit_row *row, double limit)
{
    double last = -1;
    size_t n = 0, far = 0, sizes = 0;

    for (const struct bb_fit_row *other = fit->rows; other < fit->rows + fit->n_rows; other++) {
        if (other->group != row->group)
            continue;
        n++;
        if (fabs(other->error) < limit || (other->error < 0) != (row->error < 0))
            continue;
        far++;
        sizes += other->size != last;
        last = other->size;
    }
    return row->group != 0 && sizes >= SYSTEMATIC_SIZES && (double)far > SYSTEMATIC_PART * (double)n;
}

static void mark_outliers(struct bb_fit *fit)
{
    const double limit = fit->n_parameters > 0 ? outlier_limit(fit) : INFINITY;

    fit->n_outliers = 0;
    for (size_t i = 0; i < fit->n_rows; i++) {
        struct bb_fit_row *row = &fit->rows[i];
        const bool dropped = isfinite(limit) && fabs(row->error) >= limit;

        row->is_systematic = dropped && is_systematic(fit, row, limit);
        row->is_outlier = dropped && !row->is_systematic;
        fit->n_outliers += row->is_outlier;
    }
}

void bb_fit_run(struct bb_fit *fit)
{
    struct bb_stats stats;

    for (int p = 0; p < fit->n_parameters; p++)
        fit->parameters[p].fitted = !fit->parameters[p].fixed;
    do
        take_steps(fit);
    while (freeze_insensitive(fit));
    find_correlated(fit);
    find_errors(fit, true);
    find_uncertainties(fit);
    mark_outliers(fit);
    find_errors(fit, false);
    stats = summarize_errors(fit, false);
    fit->median_error = stats.n == 0 ? 0 : stats.p50;
    fit->worst_error = stats.n == 0 ? 0 : stats.max;
}
