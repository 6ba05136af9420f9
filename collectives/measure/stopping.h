/*
 * stopping.h - analysis of samples: when to stop sampling, whether the samples have a trend, which warnings apply, and
 * in which random order sizes are measured. No CUDA.
 */
#ifndef BB_COLLECTIVES_MEASURE_STOPPING_H
#define BB_COLLECTIVES_MEASURE_STOPPING_H

#include "bootstrap/base/stats.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* ---- stopping rule ---- */

struct bb_stopping {
    double confidence;  /* target for the half width of the median's 95 % confidence interval, as a fraction of the
                          median; 0: take one batch */
    size_t max_samples; /* maximum number of samples of a row if the target is not reached */
    double max_s;       /* likewise, maximum time in seconds */
};

enum bb_stop {
    BB_STOP_NOT_YET,
    BB_STOP_FIXED,     /* one batch, as requested */
    BB_STOP_CONFIDENT, /* the confidence interval is narrow enough */
    BB_STOP_SAMPLES,   /* limit reached, the confidence interval is still too wide */
    BB_STOP_TIME,
    BB_STOP_COUNT
};
extern const char *const bb_stop_names[BB_STOP_COUNT]; /* values of `stopped` in the results */

/* bb_stopping_is_confident - whether the confidence interval is as narrow as requested, or at least six samples are
 * all equal. */
bool bb_stopping_is_confident(const struct bb_stopping *p, const struct bb_stats *s);

/* bb_stopping_decide - called after each batch. */
enum bb_stop bb_stopping_decide(const struct bb_stopping *p, bool confident, size_t samples, double elapsed_s);

/* bb_half_width - half width of the confidence interval / median; NaN without an interval or with a median of 0. */
double bb_half_width(const struct bb_stats *s);

/* ---- trend ---- */

/*
 * bb_has_trend - whether the samples increase or decrease in the order in which they were taken: the Mann-Kendall test,
 * which assumes no distribution, on at most 32 means of consecutive samples, with a threshold of 3 standard deviations
 * (one false alarm in 370). In addition, the means of the last and of the first third must differ by more than 1 % of
 * the overall mean.
 */
bool bb_has_trend(const double *samples, size_t n);

/* ---- warnings ---- */

enum bb_warning {
    BB_WARN_NOT_CHECKED,
    BB_WARN_FEW_SAMPLES,
    BB_WARN_NOISY,
    BB_WARN_NOT_CONFIDENT,
    BB_WARN_TREND,
    BB_WARN_START_BARRIER_EXPIRED,
    BB_WARN_COUNT
};

/* Warnings derived from the samples; cuda/device/nvml.h has those derived from the GPU's state. word: value in
 * results[].flags; text: the problem; advice: the option that helps. */
struct bb_warning_row {
    const char *word, *text, *advice;
};
extern const struct bb_warning_row bb_warnings[BB_WARN_COUNT];

/* bb_warnings_of - the warnings that apply to the samples, as bits 1 << enum bb_warning. */
unsigned bb_warnings_of(const struct bb_stats *s, const double *samples, enum bb_stop stop);

/* ---- random order ---- */

/* bb_shuffle - permute list[n]. The permutation depends only on n and seed, so it is equal on every rank and
 * machine. */
void bb_shuffle(size_t *list, size_t n, uint64_t seed);

#endif
