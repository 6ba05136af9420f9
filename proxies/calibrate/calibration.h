/*
 * calibration.h - a cluster profile from measurements: which figures of the machine model are fitted to which rows, and
 * how well they hold.
 *
 * The law is that of the profile that it starts from: with "nccl" and "achieved" each of NCCL's ways has its own
 * latencies and rates, and products and passes reach parts of the nominal rates; without them one latency and one rate
 * make all collectives. Rows are predicted by the machine model itself (proxies/machine), so what is fitted is what
 * `plan` will take.
 */
#ifndef BB_PROXIES_CALIBRATE_CALIBRATION_H
#define BB_PROXIES_CALIBRATE_CALIBRATION_H

#include "proxies/calibrate/measurements.h"

#define BB_CALIBRATION_FITS       (10 + BB_NCCL_VARIANTS)
#define BB_CALIBRATION_PARAMETERS (32 + 6 * BB_NCCL_VARIANTS)

/* One fit. */
struct bb_calibration_fit {
    char name[64]; /* "kernels", "collectives, ring LL" */
    size_t n_rows, n_outliers;
    double median_error, worst_error; /* parts of the measured time, outliers aside */
    bool evaluated_only;              /* its figures come from other rows */
    size_t files;                     /* bits: of which files its rows are */
};

/* One figure of the profile. */
struct bb_calibration_parameter {
    char key[64];     /* "intra.gbps", "nccl.ring.LL.base_us" */
    int variant;      /* of NCCL, or -1                                    */
    size_t offset;    /* in struct bb_cluster                             */
    bool is_rate;     /* time goes with its inverse                       */
    bool is_integer;  /* an int                                            */
    bool is_fittable; /* rows may tell it                                 */
    double nominal, value;
    int fit;         /* which one told it, or -1: it stays nominal       */
    bool correlated; /* only a sum of it and others is told              */
};

/* A row beside what its fit makes of it. */
struct bb_calibration_row {
    size_t row; /* of the evidence */
    int fit;
    double measured_us, fitted_us;
    bool outlier; /* it counted for nothing */
};

/* Zeroed is empty. */
struct bb_calibration {
    struct bb_cluster cluster; /* as calibrated */
    struct bb_calibration_fit fits[BB_CALIBRATION_FITS];
    struct bb_calibration_parameter parameters[BB_CALIBRATION_PARAMETERS];
    struct bb_calibration_row *rows; /* of all fits */
    size_t n_rows;
    int n_fits, n_parameters;
    bool held_out[BB_NCCL_VARIANTS]; /* hold_out.h */
};

/* bb_calibrate - base: what the figures start from. 0 or -BB_EFAIL (no memory). Released also after a failure. */
int bb_calibrate(struct bb_calibration *c, const struct bb_cluster *base,
                 const struct bb_measurements *e) BB_MUST_CHECK;
void bb_calibration_release(struct bb_calibration *c);

#endif
