/* stats.c - see stats.h. */
#include "bootstrap/base/stats.h"

#include "bootstrap/base/alloc.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { P99_SAMPLES = 100 };

static int compare_doubles(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;

    return (x > y) - (x < y);
}

void bb_sort_doubles(double *values, size_t n)
{
    qsort(values, n, sizeof(*values), compare_doubles);
}

/* The index is computed with integers, so that no rounding error can change it. */
double bb_nearest_rank(const double *sorted, size_t n, size_t percent)
{
    return sorted[(percent * n + 99) / 100 - 1];
}

/* Returns P(X = i) for X ~ Binomial(n, 1/2). Computed with logarithms, because 2^-n underflows in double for n >
 * 1074. */
static double binomial_probability(size_t n, size_t i)
{
    int sign;
    double log_combinations =
        lgamma_r((double)n + 1, &sign) - lgamma_r((double)i + 1, &sign) - lgamma_r((double)(n - i) + 1, &sign);

    return exp(log_combinations - (double)n * M_LN2);
}

size_t bb_stats_ci_rank(size_t n)
{
    double tail = 0;
    double first = floor((double)n / 2 - 6 * sqrt((double)n)); /* the sum starts 12 standard deviations below the
                                                                  mean; the omitted terms are negligible */
    size_t i = first > 0 ? (size_t)first : 0;

    for (;; i++) {
        tail += binomial_probability(n, i);
        if (tail > 0.025)
            return i; /* i is the smallest number with P(X <= i) > 0.025, and thus the largest k with P(X < k) <=
                         0.025 */
    }
}

void bb_stats_compute(const double *samples, size_t n, struct bb_stats *stats)
{
    double *sorted, sum = 0;
    size_t k;

    *stats = (struct bb_stats){n, NAN, NAN, NAN, NAN, NAN, NAN, {NAN, NAN}};
    if (n == 0)
        return;
    BB_NEW(sorted, n);
    memcpy(sorted, samples, n * sizeof(*sorted));
    bb_sort_doubles(sorted, n);
    for (size_t i = 0; i < n; i++)
        sum += sorted[i];
    stats->min = sorted[0];
    stats->max = sorted[n - 1];
    stats->mean = sum / (double)n;
    stats->p50 = (sorted[(n - 1) / 2] + sorted[n / 2]) / 2;
    stats->p90 = bb_nearest_rank(sorted, n, 90);
    if (n >= P99_SAMPLES)
        stats->p99 = bb_nearest_rank(sorted, n, 99);
    k = bb_stats_ci_rank(n);
    if (k > 0) {
        stats->ci95[0] = sorted[k - 1];
        stats->ci95[1] = sorted[n - k];
    }
    free(sorted);
}

double bb_stats_typical(const double *sorted, size_t n, double factor)
{
    struct bb_stats stats;
    size_t below = n > 0;

    while (below < n && sorted[below] <= factor * sorted[below - 1])
        below++;
    bb_stats_compute(sorted, below, &stats);
    return stats.p50;
}

size_t bb_stats_outliers(const double *sorted, size_t n, double factor)
{
    for (size_t p = n > 5 ? (n + 1) / 2 : 3; p < n; p++) {
        const double gap = sorted[p] - sorted[p - 1], range = sorted[p - 1] - sorted[0];

        if (sorted[p] > factor * sorted[p / 2] && gap > (1 + 100.0 / (double)(p * p)) * range)
            return p;
    }
    return n;
}
