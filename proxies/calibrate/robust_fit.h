/*
 * robust_fit.h - fits the parameters of a model to measured times by robust nonlinear least squares of relative errors.
 * The module is purely numerical: it does not depend on the cost model. A *row* is one measured time.
 *
 * The method is Gauss-Newton with iteratively reweighted least squares (IRLS). The first 20 iterations use the weights
 * 1/|error| (least absolute deviations), the later ones Tukey's biweight with c = 4.685 and the scale 1.4826 x median
 * |error|. A row with |error| >= 4.685 x scale has weight 0: it is an outlier. With fewer than three rows per parameter
 * all rows have the same weight. The model must be piecewise linear in each parameter, for example a maximum of linear
 * functions.
 *
 * A parameter that contributes less than 5 % to the time of every row is not determined by the rows and keeps its start
 * value. If the rows determine only a sum of parameters, each of them changes in proportion to its start value.
 */
#ifndef BB_PROXIES_CALIBRATE_ROBUST_FIT_H
#define BB_PROXIES_CALIBRATE_ROBUST_FIT_H

#include "bootstrap/base/err.h"

#include <stdbool.h>
#include <stddef.h>

#define BB_FIT_PARAMETERS 12

struct bb_fit_parameter {
    double value;    /* in: start value of the fit; out: fitted value */
    double min;      /* lower bound of the value; above 0 if and only if the value is the inverse of a rate */
    double scale;    /* typical size of the value, for example the start value; above 0. The fit computes changes in
                     this unit */
    bool fitted;     /* out: the rows determine the value; false: `value` is still the start value */
    bool correlated; /* out: the rows determine only a sum of this parameter and others */
};

struct bb_fit {
    struct bb_fit_parameter parameters[BB_FIT_PARAMETERS];
    int n_parameters;       /* number of parameters to fit; 0: only compute the errors */
    const double *measured; /* [n_rows] measured times, above 0 */
    size_t n_rows;
    /* predict - returns the time that the model predicts for a row (one measured time) with these parameter values. */
    double (*predict)(void *model, const double *values, size_t row);
    void *model;

    double *error;    /* [n_rows] out: predicted / measured - 1        */
    bool *is_outlier; /* [n_rows] out: the row is an outlier (weight 0) */
    size_t n_outliers;
    double median_error, worst_error; /* out: median and maximum of |error|, without outliers; 0 if there are no rows */
};

/* bb_fit_run - computes the fit. Allocates error and is_outlier, which bb_fit_release frees. */
void bb_fit_run(struct bb_fit *fit);
void bb_fit_release(struct bb_fit *fit);

#endif
