/*
 * compare.h - `busbar compare A.json B.json`: row by row, did B get faster or slower than A? No MPI, no GPU.
 *
 * Rows belong together when collective, bytes, dtype, op, root, placement, mode, group and cycle are equal; the k-th of
 * several equal ones meets the k-th. The verdict of a row comes from the 95 % intervals of the medians: they must not
 * touch for a difference to be one. Where a side has no interval (one sample, as in nccl-tests' files) it comes from
 * the plain ratio against the threshold, and says so; without a threshold nothing can be told.
 *
 * The comparison has a verdict too, the worst that holds: a run of which a part is missing, no common row, wrong data,
 * slower, a row that cannot be told, a row that B lacks, not slower.
 */
#ifndef BB_COLLECTIVES_COMPARE_COMPARE_H
#define BB_COLLECTIVES_COMPARE_COMPARE_H

#include "bootstrap/results/results.h"
#include "collectives/compare/result_reader.h"

#include <stdbool.h>
#include <stdio.h>

enum bb_verdict {
    BB_FASTER,      /* all of B's interval lies below A's; or B / A below 1 / (1 + threshold) */
    BB_SLOWER,      /* ... above; or B / A above 1 + threshold                   */
    BB_SAME,        /* the intervals overlap: no difference can be shown; or the ratio lies between */
    BB_INCONCLUSIVE, /* a side has no time; or no interval, and there is no threshold */
    BB_WRONG_DATA,  /* a side moved wrong data: its time is worth nothing        */
    BB_VERDICTS
};

extern const char *const bb_verdict_names[BB_VERDICTS];

/* bb_verdict_of - threshold_percent is NaN for none; it is looked at where a side has no interval. */
enum bb_verdict bb_verdict_of(const struct bb_timing *a, const struct bb_timing *b, double threshold_percent);

/*
 * bb_match_rows - out[i], one per row of a: the row of b that belongs to row i of a, -1 for none. Returns how many rows
 * of b are left over; left, [b->n], is 1 for those.
 */
size_t bb_match_rows(const struct bb_result_file *a, const struct bb_result_file *b, long *out, char *unmatched);

/* What is asked of a comparison. */
struct bb_regression_threshold {
    double threshold_percent; /* a row slower by more is too slow; NaN: none */
    bool strict;              /* what could not be judged is too bad as well */
};

/*
 * bb_compare - the table to out (NULL: none) and the fields of busbar.compare/1 to results (NULL: none). Returns 0,
 * -BB_EFAIL, or -BB_EBELOW when a row is slower by more than the threshold; with strict also for every other verdict
 * that is worse than slower, for rows that cannot be told, and for rows that B lacks.
 */
int bb_compare(const struct bb_result_file *a, const struct bb_result_file *b,
               const struct bb_regression_threshold *threshold, FILE *out, struct bb_results *results) BB_MUST_CHECK;

int bb_compare_main(int argc, char **argv);

#endif
