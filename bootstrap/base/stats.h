/* stats.h - summary statistics of timed samples. The results have the unit of the samples. */
#ifndef BB_BOOTSTRAP_BASE_STATS_H
#define BB_BOOTSTRAP_BASE_STATS_H

#include "bootstrap/base/err.h"

#include <stddef.h>

struct bb_stats {
    size_t n;
    double min, max, mean;
    double p50;     /* median: mean of the two middle samples when n is even */
    double p90;     /* nearest rank: the ceil(0.90 n)-th smallest sample */
    double p99;     /* nearest rank: the ceil(0.99 n)-th smallest sample; NaN if n < 100 */
    double ci95[2]; /* [0] lower, [1] upper bound of the distribution-free 95 % confidence interval of the median;
                       NaN if n < 6 */
};

/*
 * bb_stats_compute - summarize samples[n], which is not changed. All results are NaN if n is 0.
 * ci95 is [x(k), x(n+1-k)], where x(i) is the i-th smallest sample and k is the largest number for which X ~
 * Binomial(n, 1/2) has P(X < k) <= 0.025. The interval thus covers the median with a probability of at least 95 %.
 */
void bb_stats_compute(const double *samples, size_t n, struct bb_stats *stats);

/* bb_sort_doubles - sort values[n] in ascending order. */
void bb_sort_doubles(double *values, size_t n);

/* bb_stats_typical - return the median of the values below the first gap of the ascending values sorted[n]: a value more
 * than `factor` times the value before it. Without a gap, the median of all values. Detects slow ranks even if most are. */
double bb_stats_typical(const double *sorted, size_t n, double factor);

/* bb_stats_outliers - return the index of the first outlier of the ascending values sorted[n], n if there is none. With p
 * values below it (at least 3, and at least half of all), the first outlier is more than `factor` times their median, and
 * the gap below it, divided by their range (as in Dixon's Q test), is above 1 + 100 / p^2: for normally distributed
 * values with a standard deviation of 1 % and a factor of 1.02, less than 1 of 500 samples has an outlier. */
size_t bb_stats_outliers(const double *sorted, size_t n, double factor);

/* bb_nearest_rank - return the ceil(percent/100 * n)-th smallest of the ascending values sorted[n]; n is at least 1. */
double bb_nearest_rank(const double *sorted, size_t n, size_t percent);

/* bb_stats_ci_rank - return the k of ci95 for n samples (see bb_stats_compute), counted from 1; 0 if n < 6. */
size_t bb_stats_ci_rank(size_t n);

#endif
