/* robust_fit.c - see robust_fit.h. */
#include "proxies/calibrate/robust_fit.h"

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
/* DAMPING x (sum of the measurements' weights) is added to the diagonal of the normal equations, so that parameters
 * that the measurements do not determine keep their values. */
#define DAMPING 1e-5
/* Errors are relative to the predicted time, but at least to this fraction of the measured time. */
#define MIN_REFERENCE 0.01
#define TUKEY         4.685
/* Minimum scale (typical size) of the relative errors in Tukey's biweight; no model is more accurate. */
#define MIN_SCALE 5e-3

/* State of a fit. A row is one measured time. slope: derivative of a row's relative error with respect to a
 * parameter, per `scale` of the parameter. */
struct work {
    struct bb_fit *fit;
    double values[P];
    double (*slope)[P]; /* [n_rows][parameter] change of the row's relative error if the parameter grows by its
                           `scale` */
    double *weight;     /* [n_rows] weight of the row's squared error in the least-squares sum */
    double *reference;  /* [n_rows] time to which the row's error is relative: the measured time; from iteration
                          LAD_STEPS + 1 on, the predicted time */
    double *selected;   /* [n_rows] scratch memory of summarize_errors */
    bool frozen[P];
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

static void find_errors(const struct work *w)
{
    const struct bb_fit *fit = w->fit;

    for (size_t i = 0; i < fit->n_rows; i++) {
        const double predicted = fit->predict(fit->model, w->values, i);

        fit->error[i] = (predicted - fit->measured[i]) / w->reference[i];
    }
}

/* Makes errors relative to the predicted times. With errors relative to the measured times, a measured time that is
 * too short would have more weight than one that is too long by the same amount. */
static void use_predicted_reference(struct work *w)
{
    for (size_t i = 0; i < w->fit->n_rows; i++)
        w->reference[i] = fmax(w->fit->predict(w->fit->model, w->values, i), MIN_REFERENCE * w->fit->measured[i]);
}

static void find_slopes(struct work *w)
{
    struct bb_fit *fit = w->fit;

    for (int p = 0; p < fit->n_parameters; p++) {
        const double here = w->values[p], step = STEP * fit->parameters[p].scale;

        for (size_t i = 0; i < fit->n_rows; i++) {
            double low = here - step < fit->parameters[p].min ? here : here - step;

            w->values[p] = here + step;
            w->slope[i][p] = fit->predict(fit->model, w->values, i);
            w->values[p] = low;
            w->slope[i][p] -= fit->predict(fit->model, w->values, i);
            w->slope[i][p] *= fit->parameters[p].scale / (here + step - low) / w->reference[i];
        }
        w->values[p] = here;
    }
}

/* Returns the statistics of the absolute values of the relative errors: of all rows if `all` is true, otherwise of
 * the rows that are not outliers. */
static struct bb_stats summarize_errors(const struct work *w, bool all)
{
    const struct bb_fit *fit = w->fit;
    struct bb_stats stats;
    size_t n = 0;

    for (size_t i = 0; i < fit->n_rows; i++)
        if (all || !fit->is_outlier[i])
            w->selected[n++] = fabs(fit->error[i]);
    bb_stats_compute(w->selected, n, &stats);
    return stats;
}

static double tukey_limit(const struct work *w)
{
    return TUKEY * fmax(1.4826 * summarize_errors(w, true).p50, MIN_SCALE); /* without rows p50 is NaN, which fmax
                                                                               ignores */
}

/* Returns whether there are enough rows to identify outliers. */
static bool has_many_rows(const struct bb_fit *fit)
{
    return fit->n_rows >= ROWS_PER_PARAMETER * (size_t)fit->n_parameters;
}

static void weigh_rows(struct work *w, bool least_absolute_deviations)
{
    const double limit = has_many_rows(w->fit) ? tukey_limit(w) : INFINITY;

    for (size_t i = 0; i < w->fit->n_rows; i++) {
        const double e = fabs(w->fit->error[i]), u = e / limit;

        w->weight[i] = least_absolute_deviations && isfinite(limit) ? 1 / fmax(e, 1e-4)
                       : u < 1                                      ? (1 - u * u) * (1 - u * u)
                                                                    : 0;
    }
}

/* Computes the normal equations a x = b for the change x of the parameters: a = S^T W S, b = -S^T W error, with the
 * slopes S and the weights W. */
static void gather_normal(const struct work *w, double a[P][P], double b[P])
{
    memset(a, 0, sizeof(double) * P * P);
    memset(b, 0, sizeof(double) * P);
    for (size_t i = 0; i < w->fit->n_rows; i++)
        for (int p = 0; p < w->fit->n_parameters; p++) {
            b[p] -= w->weight[i] * w->slope[i][p] * w->fit->error[i];
            for (int q = 0; q < w->fit->n_parameters; q++)
                a[p][q] += w->weight[i] * w->slope[i][p] * w->slope[i][q];
        }
}

static double sum_weights(const struct work *w)
{
    double sum = 0;

    for (size_t i = 0; i < w->fit->n_rows; i++)
        sum += w->weight[i];
    return sum;
}

/* Changes the parameters by the solution of the normal equations (active set method). A parameter that would fall
 * below its lower bound is set to the bound, and the equations are solved again for the other parameters. */
static void move_within_bounds(struct work *w, double a[P][P], const double b[P])
{
    const int n = w->fit->n_parameters;
    const struct bb_fit_parameter *parameters = w->fit->parameters;
    double x[P] = {0}, rest[P];
    bool is_free[P], again = true;

    memcpy(rest, b, sizeof(rest));
    for (int p = 0; p < n; p++)
        is_free[p] = !w->frozen[p];
    while (again) {
        again = false;
        solve(a, rest, is_free, n, x);
        for (int p = 0; p < n && !again; p++) {
            double to = w->values[p] + x[p] * parameters[p].scale;

            if (!is_free[p] || to >= parameters[p].min)
                continue;
            again = true;
            is_free[p] = false;
            for (int q = 0; q < n; q++)
                rest[q] -= a[q][p] * (parameters[p].min - w->values[p]) / parameters[p].scale;
            w->values[p] = parameters[p].min;
        }
    }
    for (int p = 0; p < n; p++)
        w->values[p] += is_free[p] ? x[p] * parameters[p].scale : 0;
}

static void take_step(struct work *w, bool least_absolute_deviations)
{
    double a[P][P], b[P], hold;

    find_errors(w);
    find_slopes(w);
    weigh_rows(w, least_absolute_deviations);
    gather_normal(w, a, b);
    hold = DAMPING * sum_weights(w) + 1e-12;
    for (int p = 0; p < w->fit->n_parameters; p++)
        a[p][p] += hold;
    move_within_bounds(w, a, b);
}

static void take_steps(struct work *w)
{
    memcpy(w->reference, w->fit->measured, w->fit->n_rows * sizeof(double));
    for (int step = 0; step < STEPS; step++) {
        if (step > LAD_STEPS)
            use_predicted_reference(w);
        take_step(w, step < LAD_STEPS);
    }
}

/* ---- parameters that the rows do not determine ---- */

/* Returns the largest fraction of a row's predicted time that parameter p contributes, over all rows with a weight
 * above 0. */
static double sensitivity_of(const struct work *w, int p)
{
    const struct bb_fit_parameter *one = &w->fit->parameters[p];
    double largest = 0;

    for (size_t i = 0; i < w->fit->n_rows; i++)
        if (w->weight[i] > 0)
            largest = fmax(largest, w->slope[i][p] * fmax(w->values[p], one->value) / one->scale);
    return largest;
}

/* Freezes parameters at their start values: those that contribute too little to the time of every row
 * (MIN_SENSITIVITY), and rates that the fit raised to their upper limit. Returns whether this call froze a
 * parameter. */
static bool freeze_insensitive(struct work *w)
{
    bool found = false;

    for (int p = 0; p < w->fit->n_parameters; p++) {
        const struct bb_fit_parameter *one = &w->fit->parameters[p];
        const bool unbounded = one->min > 0 && w->values[p] <= one->min;

        if (w->frozen[p])
            continue;
        w->frozen[p] = sensitivity_of(w, p) < MIN_SENSITIVITY || unbounded;
        found = found || w->frozen[p];
    }
    return found;
}

/* Marks correlated parameters. The slopes of each parameter are regressed on the slopes of all parameters, with
 * damping. If the coefficient of the parameter itself is below 0.99, other parameters can partly replace it. */
static void find_correlated(struct work *w)
{
    double a[P][P], b[P], x[P], held[P][P];
    bool is_free[P];

    gather_normal(w, a, b);
    memcpy(held, a, sizeof(held));
    for (int p = 0; p < w->fit->n_parameters; p++) {
        held[p][p] += DAMPING / 10 * sum_weights(w) + 1e-12;
        is_free[p] = !w->frozen[p];
    }
    for (int p = 0; p < w->fit->n_parameters; p++) {
        for (int q = 0; q < w->fit->n_parameters; q++)
            b[q] = a[q][p];
        solve(held, b, is_free, w->fit->n_parameters, x);
        w->fit->parameters[p].fitted = !w->frozen[p];
        w->fit->parameters[p].correlated = !w->frozen[p] && x[p] < 0.99;
    }
}

static void mark_outliers(struct work *w)
{
    struct bb_fit *fit = w->fit;
    const bool judges = fit->n_parameters > 0 && has_many_rows(fit);
    const double limit = tukey_limit(w);

    for (size_t i = 0; i < fit->n_rows; i++) {
        fit->is_outlier[i] = judges && fabs(fit->error[i]) >= limit;
        fit->n_outliers += fit->is_outlier[i];
    }
}

/* Computes the final errors, relative to the measured times. */
static void store_errors(struct work *w)
{
    struct bb_fit *fit = w->fit;
    struct bb_stats stats;

    memcpy(w->reference, fit->measured, fit->n_rows * sizeof(double));
    find_errors(w);
    stats = summarize_errors(w, false);
    fit->median_error = stats.n == 0 ? 0 : stats.p50;
    fit->worst_error = stats.n == 0 ? 0 : stats.max;
}

void bb_fit_run(struct bb_fit *fit)
{
    struct work w = {.fit = fit};

    fit->n_outliers = 0;
    BB_NEW(fit->error, fit->n_rows);
    BB_NEW(fit->is_outlier, fit->n_rows);
    BB_NEW(w.slope, fit->n_rows);
    BB_NEW(w.weight, fit->n_rows);
    BB_NEW(w.reference, fit->n_rows);
    BB_NEW(w.selected, fit->n_rows);
    do {
        for (int p = 0; p < fit->n_parameters; p++)
            w.values[p] = fit->parameters[p].value;
        take_steps(&w);
    } while (freeze_insensitive(&w));
    find_correlated(&w);
    find_errors(&w);
    mark_outliers(&w);
    store_errors(&w);
    for (int p = 0; p < fit->n_parameters; p++)
        fit->parameters[p].value = w.values[p];
    free(w.slope);
    free(w.weight);
    free(w.reference);
    free(w.selected);
}

void bb_fit_release(struct bb_fit *fit)
{
    free(fit->error);
    free(fit->is_outlier);
    *fit = (struct bb_fit){0};
}
