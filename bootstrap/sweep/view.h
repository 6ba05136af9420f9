/*
 * view.h - filters and sorts the rows of the table of a study: --sort, --where, --top. Files in the results folder
 * contain all rows.
 *
 * --sort COLUMN sorts in ascending order, -COLUMN in descending order; the sort is stable and rows without a value come
 * last. --where is a comma-separated list of conditions, all of which must hold: COLUMN, one of < <= > >= = == !=, and
 * a number (1K is 1024) or, for =, == and !=, a text. A row without a value satisfies no condition. The failures of
 * combinations without a row that is left are not printed.
 */
#ifndef BB_BOOTSTRAP_SWEEP_VIEW_H
#define BB_BOOTSTRAP_SWEEP_VIEW_H

#include "bootstrap/sweep/collect.h"

struct bb_sweep_view {
    const char *sort, *where; /* option values; NULL: not given */
    int top;                  /* maximum number of rows; 0: all */
};

/* bb_view_check - validate the options before anything runs: the conditions are well-formed, and the study may have
 * the named columns. Validates the columns of "charts" in the study, too. Returns 0, or -BB_EUSAGE after an error
 * message. */
int bb_view_check(const struct bb_sweep_view *v, const struct bb_study *study,
                  const struct bb_sweep_runs *combinations) BB_MUST_CHECK;

/* bb_view_apply - filter and sort g->rows. Returns 0, or -BB_EUSAGE after an error message if no result
 * has a requested column. */
int bb_view_apply(const struct bb_sweep_view *v, struct bb_gathered *g) BB_MUST_CHECK;

#endif
