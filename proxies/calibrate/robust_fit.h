/*
 * robust_fit.h - parameters of a model from rows of measured times: the least squares of the relative errors, in which
 * rows that fit nothing count for nothing. Pure numbers: knows nothing of machines.
 *
 * The model is a function of the parameters, linear in each wherever no maximum changes sides, so that a few
 * Gauss-Newton steps find it. Rows are weighted anew in each step: first by 1/|error| (their median decides), then by
 * Tukey's biweight, which gives none to a row whose error is 4.7 times the usual one, or more. With fewer than three
 * rows for a parameter all count alike.
 *
 * What the rows do not tell stays at its start: a parameter that makes less than 5 % of the time of every row, and of
 * several that only their sum is known of, each moves by the part that it has at the start.
 */
#ifndef BB_PROXIES_CALIBRATE_ROBUST_FIT_H
#define BB_PROXIES_CALIBRATE_ROBUST_FIT_H

#include "bootstrap/base/err.h"

#include <stdbool.h>
#include <stddef.h>

#define BB_FIT_PARAMETERS 12

struct bb_fit_parameter {
    double value;    /* in: the start; out: fitted                                    */
    double min;      /* bound                                                         */
    double scale;    /* what a large change is, above 0                               */
    bool fitted;     /* out: by the rows, else value is the start                     */
    bool correlated; /* out: only a sum of this and others is told                    */
};

struct bb_fit {
    struct bb_fit_parameter parameters[BB_FIT_PARAMETERS];
    int n_parameters;       /* 0: nothing is fitted, the errors alone are told */
    const double *measured; /* [n_rows] above 0 */
    size_t n_rows;
    /* The time that the model gives row i with these values of the parameters. */
    double (*predict)(void *model, const double *values, size_t row);
    void *model;

    double *error;    /* [n_rows] out: predicted / measured - 1        */
    bool *is_outlier; /* [n_rows] out: it counted for nothing          */
    size_t n_outliers;
    double median_error, worst_error; /* out: of |error| over the others; 0 without rows */
};

/* bb_fit_run - 0 or -BB_EFAIL (no memory, said). error and is_outlier are made; released by bb_fit_release. */
int bb_fit_run(struct bb_fit *fit) BB_MUST_CHECK;
void bb_fit_release(struct bb_fit *fit);

#endif
