/*
 * compare.h - `busbar compare A.json B.json`: compares two result files row by row. Needs neither MPI nor a GPU.
 *
 * Two rows match when collective, bytes, dtype, op, root, placement, mode, group and cycle are equal; among several
 * equal rows the k-th row of A matches the k-th row of B. A row is faster or slower when the 95 % confidence intervals
 * of the two medians do not overlap. Where a side has no interval (one sample, as in nccl-tests' files), the ratio of
 * the times is compared with the threshold and the verdict is marked "by ratio"; without a threshold such a row is
 * inconclusive.
 *
 * The verdict of the whole comparison is the first of these that applies: incomplete run, no common row, wrong data,
 * slower, inconclusive, rows missing in B, not slower.
 */
#ifndef BB_COLLECTIVES_COMPARE_COMPARE_H
#define BB_COLLECTIVES_COMPARE_COMPARE_H

#include "bootstrap/results/results.h"
#include "collectives/compare/result_reader.h"

#include <stdbool.h>
#include <stdio.h>

enum bb_verdict {
    BB_FASTER,       /* B's interval is entirely below A's; or B / A is below 1 / (1 + threshold) */
    BB_SLOWER,       /* B's interval is entirely above A's; or B / A is above 1 + threshold */
    BB_SAME,         /* the intervals overlap; or the ratio is within the threshold */
    BB_INCONCLUSIVE, /* a side has no time; or a side has no interval and there is no threshold */
    BB_WRONG_DATA,   /* a side produced wrong data, so its time is meaningless */
    BB_VERDICTS
};

extern const char *const bb_verdict_names[BB_VERDICTS];

/* bb_verdict_of - verdict of two matching rows. threshold_percent (NaN: none) is used only where a side has no
 * interval. */
enum bb_verdict bb_verdict_of(const struct bb_timing *a, const struct bb_timing *b, double threshold_percent);

/*
 * bb_match_rows - match the rows of two files.
 *   out        [a->n] out: index of the row of b that matches row i of a; -1: none
 *   unmatched  [b->n] out: 1 for rows of b that match no row of a, 0 for the others
 *   Returns    the number of unmatched rows of b
 */
size_t bb_match_rows(const struct bb_result_file *a, const struct bb_result_file *b, long *out, char *unmatched);

/* The criteria for exit status 5. */
struct bb_regression_threshold {
    double threshold_percent; /* fail when a row is slower by more than this percentage; NaN: no limit */
    bool strict;              /* fail also when the comparison is not conclusive */
};

/*
 * bb_compare - compare two files.
 *   out      table and summary; NULL: none
 *   results  fields of busbar.compare/1; NULL: none
 *   Returns  0; -BB_EFAIL without memory or on a write error; -BB_EBELOW when a row is slower by more than the
 *            threshold, or with threshold->strict when the verdict is incomplete run, no common row, wrong data,
 *            inconclusive or rows missing in B
 */
int bb_compare(const struct bb_result_file *a, const struct bb_result_file *b,
               const struct bb_regression_threshold *threshold, FILE *out, struct bb_results *results) BB_MUST_CHECK;

/* bb_compare_main - the command `busbar compare`. */
int bb_compare_main(int argc, char **argv);

#endif
