/*
 * stopping.h - analysis of samples: when to stop sampling, whether the samples show a trend, and which warnings apply.
 * Also shuffles the message sizes of a sweep. The module does not depend on CUDA.
 */
#ifndef BB_COLLECTIVES_MEASURE_STOPPING_H
#define BB_COLLECTIVES_MEASURE_STOPPING_H

#include "bootstrap/base/stats.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* ---- stopping rule ---- */

struct bb_stopping {
    double confidence;  /* target: half the width of the median's 95 % confidence interval, divided by the median; 0:
                          no target, stop after one batch */
    size_t max_samples; /* maximum number of samples if the target is not reached */
    double max_s;       /* maximum time for all samples of a measurement in seconds, if the target is not reached */
};

enum bb_stop {
    BB_STOP_NOT_YET,
    BB_STOP_FIXED,     /* the stopping rule requested a single batch */
    BB_STOP_CONFIDENT, /* the confidence interval is narrow enough */
    BB_STOP_SAMPLES,   /* max_samples is reached although the confidence interval is still too wide */
    BB_STOP_TIME,
    BB_STOP_COUNT
};
extern const char *const bb_stop_names[BB_STOP_COUNT]; /* [enum bb_stop] texts of the key "stopped" in the JSON
                                                          results */

/* bb_stopping_is_confident - return whether the confidence interval of the median is as narrow as requested. Also
 * true if there are six or more samples and all are equal. */
bool bb_stopping_is_confident(const struct bb_stopping *p, const struct bb_stats *s);

/* bb_stopping_decide - return the reason to stop sampling, or BB_STOP_NOT_YET. confident: result of
 * bb_stopping_is_confident; samples, elapsed_s: number of samples taken so far and the time in s that they took. */
enum bb_stop bb_stopping_decide(const struct bb_stopping *p, bool confident, size_t samples, double elapsed_s);

/* bb_half_width - return half the width of the confidence interval / median; NaN without an interval or if the
 * median is 0. */
double bb_half_width(const struct bb_stats *s);

/* ---- trend ---- */

/*
 * bb_has_trend - return whether the samples increase or decrease in the order in which they were taken. Uses the
 * Mann-Kendall test, which assumes no distribution, with a threshold of 3 standard deviations (one false alarm in 370),
 * on at most 32 means of consecutive samples. In addition, the mean of the last third of the samples must differ from
 * the mean of the first third by more than 1 % of the overall mean.
 */
bool bb_has_trend(const double *samples, size_t n);

/* ---- warnings ---- */

enum bb_warning {
    BB_WARN_NOT_CHECKED,
    BB_WARN_FEW_SAMPLES,
    BB_WARN_NOISY,
    BB_WARN_NOT_CONFIDENT,
    BB_WARN_TREND,
    BB_WARN_OUTLIERS,
    BB_WARN_START_BARRIER_EXPIRED,
    BB_WARN_NOT_SYMMETRIC,
    BB_WARN_COUNT
};

/*
 * A warning derived from the samples. Warnings derived from the GPU's state are in cuda/device/nvml.h.
 *   word    name of the warning in results[].flags
 *   text    description of the problem
 *   advice  options that help
 */
struct bb_warning_row {
    const char *word, *text, *advice;
};
extern const struct bb_warning_row bb_warnings[BB_WARN_COUNT];

/* bb_warnings_of - return the warnings that apply to the samples: bits 1 << enum bb_warning. */
unsigned bb_warnings_of(const struct bb_stats *s, const double *samples, enum bb_stop stop);

/* ---- random order of message sizes ---- */

/* bb_shuffle - permute list[n] at random. The permutation depends only on n and seed, so it is equal on all ranks
 * and machines. */
void bb_shuffle(size_t *list, size_t n, uint64_t seed);

#endif
