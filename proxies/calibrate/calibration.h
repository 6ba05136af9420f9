/*
 * calibration.h - fits the parameters of a cluster profile to measurements, and reports the errors of the fits.
 *
 * The cost model is that of the starting profile. With "nccl" and "achieved", each variant of NCCL has its own
 * latencies and rates, and kernels reach fractions of the data sheet's rates. Otherwise collectives follow the
 * alpha-beta model: one latency and one rate. Rows are predicted by the cost model itself (proxies/machine), so `plan`
 * uses exactly the model that was fitted.
 */
#ifndef BB_PROXIES_CALIBRATE_CALIBRATION_H
#define BB_PROXIES_CALIBRATE_CALIBRATION_H

#include "proxies/calibrate/measurements.h"

#define BB_CALIBRATION_FITS       (10 + BB_NCCL_VARIANTS)
#define BB_CALIBRATION_PARAMETERS (32 + 6 * BB_NCCL_VARIANTS)

/* A fit of some parameters to some rows. */
struct bb_calibration_fit {
    char name[64]; /* "kernels", "collectives, ring LL" */
    size_t n_rows, n_outliers;
    double median_error, worst_error; /* of |predicted / measured - 1|, without outliers */
    bool evaluated_only; /* the fit has no free parameters: its rows only validate parameters from other rows */
    size_t files;        /* bit i: rows come from file i (modulo 64) */
};

/* A number of the profile that calibration may change. */
struct bb_calibration_parameter {
    char key[64];     /* "intra.gbps", "nccl.ring.LL.base_us" */
    int variant;      /* index of the NCCL variant, or -1 */
    size_t offset;    /* offset of the value in struct bb_cluster */
    bool is_rate;     /* time is proportional to 1 / value */
    bool is_integer;  /* the value is an int */
    bool is_fittable; /* a fit may change the value */
    double nominal, value;
    int fit;         /* index of the fit that determined the value; -1: it keeps its nominal value */
    bool correlated; /* the rows determine only a sum of this parameter and others */
};

/* A row with its fitted time. */
struct bb_calibration_row {
    size_t row; /* index in the measurements */
    int fit;
    double measured_us, fitted_us;
    bool outlier; /* the fit ignored the row */
};

/* All zero is a valid empty calibration. */
struct bb_calibration {
    struct bb_cluster cluster; /* the result */
    struct bb_calibration_fit fits[BB_CALIBRATION_FITS];
    struct bb_calibration_parameter parameters[BB_CALIBRATION_PARAMETERS];
    struct bb_calibration_row *rows; /* [n_rows] of all fits */
    size_t n_rows;
    int n_fits, n_parameters;
    bool penalized_variants[BB_NCCL_VARIANTS]; /* see penalized_variants.h */
};

/*
 * bb_calibrate - fit the parameters.
 *   base     starting profile
 *   Returns  0, or -BB_EFAIL without memory; call bb_calibration_release in both cases
 */
int bb_calibrate(struct bb_calibration *c, const struct bb_cluster *base,
                 const struct bb_measurements *e) BB_MUST_CHECK;
void bb_calibration_release(struct bb_calibration *c);

#endif
