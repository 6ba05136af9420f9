/* rule.c - see rule.h. */
#include "collectives/health/verdict/rule.h"

#include "bootstrap/base/alloc.h"
#include "bootstrap/base/stats.h"
#include "bootstrap/base/units.h"

#include <math.h>
#include <stdlib.h>

double bb_health_middle(const double *values, size_t n)
{
    struct bb_stats stats;

    bb_stats_compute(values, n, &stats);
    return stats.p50;
}

/* Returns the finite ones of the values in ascending order. */
static double *sort_finite(const double *values, size_t n, size_t *finite)
{
    double *sorted;

    BB_NEW(sorted, n);
    *finite = 0;
    for (size_t i = 0; i < n; i++)
        if (isfinite(values[i]))
            sorted[(*finite)++] = values[i];
    bb_sort_doubles(sorted, *finite);
    return sorted;
}

static struct bb_health_peers peers_of(const double *values, size_t n)
{
    struct bb_health_peers p = {.of_faster = false};
    double *finite = sort_finite(values, n, &p.n);

    p.median = bb_health_middle(finite, p.n);
    for (size_t i = 0; i < p.n; i++)
        finite[i] = fabs(finite[i] - p.median);
    p.mad = bb_health_middle(finite, p.n);
    free(finite);
    return p;
}

double bb_health_median(const double *values, size_t n)
{
    return peers_of(values, n).median;
}

enum { SCORED_PEERS = 10 };

struct bb_health_peers bb_health_reference_peers(const double *values, size_t n, double expected)
{
    size_t finite, slow = 0;
    double *sorted = sort_finite(values, n, &finite);
    double widest = finite >= SCORED_PEERS ? BB_HEALTH_OUTLIER : BB_HEALTH_WARNS;
    const bool is_expected = bb_health_middle(sorted, finite) >= BB_HEALTH_WARNS * expected;
    struct bb_health_peers p;

    for (size_t i = 1; i < finite; i++)
        if (2 * i >= finite && 4 * (finite - i) >= finite && !(2 * i > finite && is_expected) &&
            sorted[i - 1] < widest * sorted[i]) {
            widest = sorted[i - 1] / sorted[i];
            slow = i;
        }
    p = peers_of(sorted + slow, finite - slow);
    p.n = finite;
    p.of_faster = slow > 0;
    free(sorted);
    return p;
}

#define BB_HEALTH_UNSTEADY BB_HEALTH_WARNS
#define OUTLIER_SCORE      3.5
#define SCORE_OF_MAD       0.6745

double bb_health_without_noise(double value, double expected, const struct bb_health_peers *p)
{
    const double most = (1 - BB_HEALTH_OUTLIER) * p->median,
                 noise = p->n < SCORED_PEERS ? most : fmin(most, OUTLIER_SCORE / SCORE_OF_MAD * p->mad);
    const bool is_expected = p->n >= BB_HEALTH_REFERENCE_PEERS && p->median >= BB_HEALTH_WARNS * expected;

    return is_expected && value >= p->median - noise ? fmax(value, p->median) : value;
}

enum bb_health_level bb_health_judge_value(double value, double expected, const struct bb_health_peers *p)
{
    const double score = SCORE_OF_MAD * (value - p->median) / fmax(p->mad, 0.005 * p->median);
    const bool is_outlier = p->n >= SCORED_PEERS && score < -OUTLIER_SCORE;

    if (isnan(value))
        return BB_HEALTH_OK;
    if (isnan(expected) && p->n >= BB_HEALTH_REFERENCE_PEERS)
        expected = p->median;
    value = bb_health_without_noise(value, expected, p);
    if (value < BB_HEALTH_FAILS * expected || (is_outlier && value < BB_HEALTH_OUTLIER * p->median))
        return BB_HEALTH_FAIL;
    return value < BB_HEALTH_WARNS * expected || is_outlier ? BB_HEALTH_WARN : BB_HEALTH_OK;
}

enum bb_health_level bb_health_judge(double ratio)
{
    return bb_health_judge_value(ratio, 1, &(struct bb_health_peers){0});
}

bool bb_health_exceeds(enum bb_health_test test, double ratio)
{
    /* the best GEMM shapes of A100, H100 and B200 reach 1.21 to 1.38 of the profiles' rates (MAMF,
     * stas00/ml-engineering) */
    return isfinite(ratio) && ratio > (bb_health_tests[test].part == BB_HEALTH_A_GPU ? 1.5 : 1.15);
}

const char *bb_health_percent(double part, char text[BB_HEALTH_PERCENT_TEXT])
{
    static const double limits[] = {BB_HEALTH_FAILS, BB_HEALTH_WARNS, BB_HEALTH_OUTLIER};

    int decimals = 0;

    for (size_t i = 0; i < sizeof limits / sizeof *limits; i++)
        if (fabs(part - limits[i]) < 0.01)
            decimals = bb_decimals_beside(-100 * part, -100 * limits[i], 1); /* below a limit: the negative is above */
    snprintf(text, BB_HEALTH_PERCENT_TEXT, "%.*f %%", decimals, 100 * part);
    return text;
}
