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
#ifndef BB_PROXIES_OFFLINE_CALIBRATE_ROBUST_FIT_H
#define BB_PROXIES_OFFLINE_CALIBRATE_ROBUST_FIT_H

#include "bootstrap/base/err.h"

#include <stdbool.h>
#include <stddef.h>

#define BB_FIT_PARAMETERS 12

struct bb_fit_parameter {
    double start; /* start value of the fit */
    double min;   /* lower bound of the value; if above 0, a value that reaches it is not fitted */
    double scale; /* typical size of the value, for example the start value; above 0. The fit computes changes in
                     this unit */
    double value; /* out: fitted value; during the fit, the value for which `predict` computes times */
    double min_sensitivity; /* not fitted if it contributes less than this fraction of the time of every row */
    bool fixed;             /* the value is `start` */
    bool fitted;            /* out: the rows determine the value; false: `value` is the start value */
    bool correlated;        /* out: the rows determine only a sum of this parameter and others */
    double
        uncertainty; /* out: half of the 95 % confidence interval, as a fraction of the value; NAN: not fitted, or correlated */
};

struct bb_fit_row {
    double measured;    /* measured time, above 0 */
    double error;       /* out: predicted / measured - 1 */
    bool is_outlier;    /* out: the row has weight 0 */
    bool is_systematic; /* out: the row has weight 0, as many of its group, for which the model is wrong; no outlier */
    int group;   /* rows of one operation, such as alltoall on 16 ranks; those of one size are together. 0: none */
    double size; /* of the operation */
    /* state of the fit: weight of the squared error in the least-squares sum; time to which `error` is relative; and
     * change of `error` if a parameter grows by its `scale` */
    double weight, reference, slope[BB_FIT_PARAMETERS];
};

struct bb_fit {
    struct bb_fit_parameter parameters[BB_FIT_PARAMETERS];
    int n_parameters; /* number of parameters to fit; 0: only compute the errors */
    struct bb_fit_row *rows;
    size_t n_rows;
    /* predict - returns the time that the model predicts for a row with the values fit->parameters[].value. */
    double (*predict)(const struct bb_fit *fit, size_t row);
    void *model; /* of the caller, for `predict` */

    size_t n_outliers;                /* out */
    double median_error, worst_error; /* out: median and maximum of |error|, without outliers; 0 if there are no rows */
};

/* bb_fit_run - computes the fit. The caller owns the rows. */
void bb_fit_run(struct bb_fit *fit);

#endif
