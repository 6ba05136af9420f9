/*
 * calibration.h - fits the parameters of a cluster profile to measurements, and reports the errors of the fits.
 *
 * The starting profile determines the cost model. If the profile has "nccl" and "achieved", each variant of NCCL
 * (algorithm + protocol) has its own latencies and rates, and kernels reach fractions of the data sheet's rates.
 * Otherwise collectives follow the alpha-beta model: one latency and one rate. The cost model itself
 * (proxies/simulation/machine) predicts each measurement, so `plan` uses exactly the model that was fitted.
 */
#ifndef BB_PROXIES_OFFLINE_CALIBRATE_CALIBRATION_H
#define BB_PROXIES_OFFLINE_CALIBRATE_CALIBRATION_H

#include "bootstrap/base/stats.h"
#include "proxies/offline/calibrate/measurements/measurements.h"

#define BB_CALIBRATION_FITS       (11 + BB_NCCL_VARIANTS)
#define BB_CALIBRATION_PARAMETERS (40 + 6 * BB_NCCL_VARIANTS)

/* One fit: a subset of the profile's parameters is fitted to a subset of the measurements. */
struct bb_calibration_fit {
    char name[64]; /* the kind of measurements, for example "kernels" or "ring LL" */
    size_t n_rows, n_outliers;
    double median_percent, worst_percent; /* median and maximum of |predicted / measured - 1| in percent, without
                                             outliers */
    bool fitted;  /* false: the fit changes no parameters; its measurements only validate parameters of other fits */
    size_t files; /* bit mask: bit (i modulo 64) is set if at least one measurement of this fit is from result file i */
};

/* The measurements that determine a parameter. BB_BY_NO_FIT: no fit changes the parameter; others are determined as
 * direct_parameters.h describes. */
enum bb_determined_by {
    BB_BY_NO_FIT,
    BB_BY_KERNELS,
    BB_BY_CALLS,   /* host times of NCCL calls */
    BB_BY_LOCAL,   /* messages and collectives within a node */
    BB_BY_REMOTE,  /* messages and collectives between nodes */
    BB_BY_VARIANT, /* collectives with one NCCL variant (algorithm + protocol) */
    BB_BY_OVERLAP  /* GEMMs during NCCL operations */
};

/* A LATENCY contributes a time proportional to its value, a RATE a time proportional to 1 / value. FIXED: no time is
 * proportional to the value. The value is a double, except for INTEGER: an int. */
enum bb_parameter_kind { BB_LATENCY, BB_RATE, BB_FIXED, BB_INTEGER };

/* A number in the cluster profile that calibration may change. */
struct bb_calibration_parameter {
    char key[64];  /* path in the profile's JSON, for example "intra.gbps" or "nccl.ring.LL.base_us" */
    int variant;   /* index of the NCCL variant (algorithm + protocol); -1: not a parameter of a variant */
    size_t offset; /* byte offset of the value in struct bb_cluster */
    enum bb_parameter_kind kind;
    enum bb_determined_by by;
    bool is_fittable; /* true: a fit may change the value */
    double nominal, value;
    double uncertainty_percent; /* half of the 95 % confidence interval of a fitted value, in percent of it; NAN: not
                                   fitted to measurements, or correlated */
    const struct bb_calibration_fit *fit; /* the fit that determined the value, in bb_calibration.fits; NULL: the value
                                             is that of the starting profile */
    bool scaled;     /* true: not measured; the value has the factor of rates that were (unmeasured_rates.h) */
    bool is_small;   /* true: a rate that takes a small part of all times, so it does not show that of the links */
    bool correlated; /* true: the measurements determine only a sum of this parameter and others, not its own value */
};

/* A measurement that a fit used, and the time that the fitted model predicts for it. */
struct bb_calibration_row {
    const struct bb_measurement *measurement;
    const struct bb_calibration_fit *fit;
    double fitted_us;
    bool outlier;    /* true: the fit ignored this measurement */
    bool systematic; /* true: ignored as many of its collective, for which the model is wrong; no outlier */
};

/* Result of a calibration. A zero-initialized struct is valid and empty. The struct must not be copied, because it
 * contains pointers to its own members. */
struct bb_calibration {
    const struct bb_cluster *base; /* starting profile */
    const struct bb_measurements *measurements;
    struct bb_cluster start;   /* starting profile with the rates of bb_set_start_rates */
    struct bb_cluster cluster; /* the cluster profile with the fitted values */
    struct bb_calibration_fit fits[BB_CALIBRATION_FITS];
    struct bb_calibration_parameter parameters[BB_CALIBRATION_PARAMETERS];
    struct bb_calibration_row *rows; /* [n_rows] the measurements of fits[0], then those of fits[1], ... */
    size_t n_rows;
    int *
        chosen; /* [measurements->n_rows] index of the NCCL variant of each collective: the recorded one, or the one that
                    the times show (bb_choices_correct); -1: the starting profile does not have it, or no collective */
    int n_fits, n_parameters;
    char variant_names[BB_NCCL_VARIANTS][40];  /* [index of the NCCL variant] algorithm and protocol: "ring LL" */
    bool penalized_variants[BB_NCCL_VARIANTS]; /* [index of the NCCL variant] true: the variant was made slower in
                                                  the profile; see penalized_variants.h */
    double scaled[2]; /* factor of the rates [0] within a node, [1] between nodes that were not measured; 0: none */
    const char *scaled_as[2]; /* the variant of NCCL whose measured rate has this factor, or "all variants" */
};

/*
 * bb_calibrate - fits the parameters of a cluster profile to measurements.
 *   c        out: result; the caller releases it with bb_calibration_release
 *   base     starting profile; owned by the caller, must outlive c
 *   e        measured times of kernels, messages and collectives; owned by the caller, must outlive c
 */
void bb_calibrate(struct bb_calibration *c, const struct bb_cluster *base, const struct bb_measurements *e);
void bb_calibration_release(struct bb_calibration *c);

/*
 * bb_cross_validate (cross_validation.c) - repeats a calibration without a part of its measurements, and predicts this
 * part: with every other size of the collectives and messages (twice), and without each of the collectives that are one
 * NCCL call.
 *   c         a finished calibration, whose starting profile and measurements are used; its outliers are not predicted
 *   left_out  out: |predicted / measured - 1| in percent; n is 0 if fewer than MIN_SIZES sizes or two collectives were
 *             measured
 */
void bb_cross_validate(const struct bb_calibration *c, struct bb_stats left_out[BB_LEFT_OUT_KINDS]);

/* A shipped profile that predicts the measurements between nodes better than the starting profile. */
struct bb_better_start {
    const char *name; /* NULL: none */
    double percent,
        percent_of_the_other; /* mean differences of predicted and measured times, of the starting profile too */
};

/*
 * bb_find_better_start (better_start.c) - looks for a better starting profile among the shipped ones with the same nodes
 * and other NICs or another transport: the fits change latencies and rates of NCCL's variants, but with the values of
 * another transport the wrong variants are fitted.
 *   base      the starting profile, before the fits
 *   relative  name of a shipped profile of these nodes; NULL: none, nothing is found
 *   Returns   0, or the code of an error after printing a message
 */
int bb_find_better_start(const struct bb_cluster *base, const char *relative, const struct bb_measurements *e,
                         struct bb_better_start *better) BB_MUST_CHECK;

/*
 * bb_set_start_rates (start_rates.c) - sets the rates of c->start, with which the fits of NCCL's variants begin. A
 * collective between nodes takes the longer time of links and NICs: from nominal rates, a fit may change the rates of
 * those that are not slow. The other measurements determine the rates of links. With them, the collectives between nodes
 * show the rate of the NICs; it is nominal unless a lower one halves the errors.
 */
void bb_set_start_rates(struct bb_calibration *c);

#endif
