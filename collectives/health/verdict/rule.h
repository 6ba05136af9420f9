/*
 * rule.h - the rule of verdict.h: the level of a value by its expectation and its peers. For the files of this folder.
 */
#ifndef BB_COLLECTIVES_HEALTH_VERDICT_RULE_H
#define BB_COLLECTIVES_HEALTH_VERDICT_RULE_H

#include "collectives/health/verdict/verdict.h"

#define BB_HEALTH_UNSTEADY BB_HEALTH_WARNS

struct bb_health_peers {
    double median, mad; /* MAD: median absolute deviation */
    size_t n;
    bool of_faster; /* the median is that of the faster ones */
};

/* bb_health_middle - return the median of values[n], all finite; NaN: n is 0. */
double bb_health_middle(const double *values, size_t n);

/* bb_health_reference_peers - return the peers of values. If half of these or more are slow, which the widest gap at or
 * above their middle shows, the peers are the faster values; the mean of a slow and a fast half was measured nowhere. Slow values of more than
 * half are as expected if the median is, and fewer than a quarter above the gap are fast parts instead. expected: NaN:
 * unknown */
struct bb_health_peers bb_health_reference_peers(const double *values, size_t n, double expected);

/* bb_health_without_noise - return a value, or the median of its peers if that is as expected and the value is below it
 * by no more than noise: 3 %, of at least ten peers also no more than an outlier. Else noise makes peers slow whose
 * median is just above the limit. */
double bb_health_without_noise(double value, double expected, const struct bb_health_peers *p);

/* bb_health_judge_value - return the level of a value by its expectation and its peers; expected: NaN: unknown. */
enum bb_health_level bb_health_judge_value(double value, double expected, const struct bb_health_peers *p);

#endif
