/* stats.h - what is said about a set of timed samples. Pure; the unit of the samples is the unit of the figures. */
#ifndef BB_BOOTSTRAP_BASE_STATS_H
#define BB_BOOTSTRAP_BASE_STATS_H

#include "bootstrap/base/err.h"

#include <stddef.h>

struct bb_stats {
    size_t n;
    double min, max, mean;
    double p50;     /* the median: mean of the two middle samples when n is even                   */
    double p90;     /* nearest rank: the ceil(0.90 n)-th smallest                                  */
    double p99;     /* nearest rank, NaN below 100 samples                                         */
    double ci95[2]; /* of the median, from order statistics, distribution-free; NaN below 6 samples */
};

/*
 * bb_stats_compute - figures of samples[n], which stays as it is. n == 0 gives NaN everywhere.
 * ci95 is [x(k), x(n+1-k)] with the largest k for which Binomial(n, 1/2) gives P(X < k) <= 0.025, so that the interval
 * covers the median with at least 95 %. Returns 0 or -BB_EFAIL (no memory).
 */
int bb_stats_compute(const double *samples, size_t n, struct bb_stats *stats) BB_MUST_CHECK;

/* bb_stats_ci_rank - the k above (1-based), 0 when n < 6. */
size_t bb_stats_ci_rank(size_t n);

#endif
