/*
 * stopping.h - what is made of samples besides their statistics: when there are enough of them, whether they still go
 * up or down, what has to be said about them, and in which order sizes are measured. Pure.
 */
#ifndef BB_COLLECTIVES_MEASURE_STOPPING_H
#define BB_COLLECTIVES_MEASURE_STOPPING_H

#include "bootstrap/base/stats.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* ---- enough samples? ---- */

struct bb_stopping {
    double confidence;  /* half the width of the median's interval, as a part of the median; 0: one batch, no more */
    size_t max_samples; /* of a row, when that is not reached                                                      */
    double max_s;       /* the same, in seconds                                                                    */
};

enum bb_stop {
    BB_STOP_NOT_YET,
    BB_STOP_FIXED,     /* as many as were asked for         */
    BB_STOP_CONFIDENT, /* the interval is narrow enough     */
    BB_STOP_SAMPLES,   /* it is not, but that was the limit */
    BB_STOP_TIME,
    BB_STOP_COUNT
};
extern const char *const bb_stop_names[BB_STOP_COUNT]; /* words of the results */

/* bb_stopping_is_confident - whether the interval is as narrow as asked for, or six samples or more are all the same. */
bool bb_stopping_is_confident(const struct bb_stopping *p, const struct bb_stats *s);

/* bb_stopping_decide - after a batch, with `samples` in all; elapsed_s: since the row's first began. */
enum bb_stop bb_stopping_decide(const struct bb_stopping *p, bool confident, size_t samples, double elapsed_s);

/* bb_half_width - half the width of the interval over the median; NaN without an interval or with a median of 0. */
double bb_half_width(const struct bb_stats *s);

/* ---- trend ---- */

/*
 * bb_has_trend - whether samples go up or down in the order in which they were taken: the Mann-Kendall test, which
 * knows nothing of their distribution (3 standard deviations: a false alarm in 370), of at most 32 means of neighbours,
 * and a difference between the last and the first third of more than 1 % of the mean: less is not worth a word.
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

/* The closed list of what samples tell; what GPUs tell of themselves: cuda/device/nvml.h. word: in flags[] of the
 * results; text: what is the matter; advice: the option that helps. */
struct bb_warning_row {
    const char *word, *text, *advice;
};
extern const struct bb_warning_row bb_warnings[BB_WARN_COUNT];

/* bb_warnings_of - bits 1 << enum bb_warning of what the samples themselves tell. */
unsigned bb_warnings_of(const struct bb_stats *s, const double *samples, enum bb_stop stop);

/* ---- order ---- */

/* bb_shuffle - a permutation of list[n] that depends on n and seed alone: the same on every rank and machine. */
void bb_shuffle(size_t *list, size_t n, uint64_t seed);

#endif
