/*
 * compare.h - `busbar compare A.json B.json`: row by row, did B get faster or slower than A? No MPI, no GPU.
 *
 * Rows belong together when collective, bytes, dtype, op, root, placement, mode, group and cycle are equal; the k-th of
 * several equal ones meets the k-th. The verdict comes from the 95 % intervals of the medians: they must not touch for
 * a difference to be one.
 */
#ifndef BB_COLLECTIVES_COMPARE_COMPARE_H
#define BB_COLLECTIVES_COMPARE_COMPARE_H

#include "bootstrap/results/results.h"
#include "collectives/compare/result_reader.h"

#include <stdio.h>

enum bb_verdict {
    BB_FASTER,      /* all of B's interval lies below A's                        */
    BB_SLOWER,      /* ... above                                                 */
    BB_SAME,        /* the intervals overlap: no difference can be shown         */
    BB_CANNOT_TELL, /* a side has no interval, or no time                        */
    BB_WRONG_DATA,  /* a side moved wrong data: its time is worth nothing        */
    BB_VERDICTS
};

extern const char *const bb_verdict_names[BB_VERDICTS];

enum bb_verdict bb_verdict_of(const struct bb_timing *a, const struct bb_timing *b);

/*
 * bb_pairs_of - out[i], one per row of a: the row of b that belongs to row i of a, -1 for none. Returns how many rows
 * of b are left over; left, [b->n], is 1 for those.
 */
size_t bb_pairs_of(const struct bb_result_file *a, const struct bb_result_file *b, long *out, char *left);

/*
 * bb_compare - the table to out (NULL: none) and the fields of busbar.compare/1 to results (NULL: none). threshold:
 * percent, NaN for none. Returns 0, -BB_EBELOW when a row is slower by more than threshold, or -BB_EFAIL.
 */
int bb_compare(const struct bb_result_file *a, const struct bb_result_file *b, double threshold_percent, FILE *out,
               struct bb_results *results) BB_MUST_CHECK;

int bb_compare_main(int argc, char **argv);

#endif
