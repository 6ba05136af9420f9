/*
 * robust_fit.h - fits the parameters of a model to measured times by robust nonlinear least squares of relative errors.
 * The module is purely numerical and knows nothing of machines.
 *
 * The method is Gauss-Newton with iteratively reweighted least squares (IRLS). The first 20 steps use the weights
 * 1/|error| (least absolute deviations), the others Tukey's biweight with c = 4.685 and the scale 1.4826 x median
 * |error|: a row with an error of 4.685 scales or more has weight 0 (outlier). With fewer than three rows per parameter
 * all rows have the same weight. The model must be piecewise linear in each parameter (a maximum may switch its
 * branch).
 *
 * Parameters that the rows do not determine keep their start values: a parameter that contributes less than 5 % to the
 * time of every row. If the rows determine only a sum of parameters, each changes in proportion to its start value.
 */
#ifndef BB_PROXIES_CALIBRATE_ROBUST_FIT_H
#define BB_PROXIES_CALIBRATE_ROBUST_FIT_H

#include "bootstrap/base/err.h"

#include <stdbool.h>
#include <stddef.h>

#define BB_FIT_PARAMETERS 12

struct bb_fit_parameter {
    double value;    /* in: start; out: result */
    double min;      /* lower bound; above 0 for the inverse of a rate */
    double scale;    /* size of a large change, above 0 */
    bool fitted;     /* out: the rows determine it; false: value is the start */
    bool correlated; /* out: the rows determine only a sum of this parameter and others */
};

struct bb_fit {
    struct bb_fit_parameter parameters[BB_FIT_PARAMETERS];
    int n_parameters;       /* 0: compute errors only */
    const double *measured; /* [n_rows] times above 0 */
    size_t n_rows;
    /* predict - the model's time of a row with these parameter values. */
    double (*predict)(void *model, const double *values, size_t row);
    void *model;

    double *error;    /* [n_rows] out: predicted / measured - 1        */
    bool *is_outlier; /* [n_rows] out: the row has weight 0 */
    size_t n_outliers;
    double median_error, worst_error; /* out: of |error|, without outliers; 0 without rows */
};

/* bb_fit_run - fit; allocates error and is_outlier, which bb_fit_release releases. Returns 0, or -BB_EFAIL without
 * memory. */
int bb_fit_run(struct bb_fit *fit) BB_MUST_CHECK;
void bb_fit_release(struct bb_fit *fit);

#endif
