/*
 * view.h - which rows of a gathered table are shown, and in what order: `--sort`, `--where`, `--top`. Files that keep
 * results hold all rows.
 *
 * --sort COLUMN is ascending, -COLUMN descending; rows without a value come last, equal ones stay in order. --where is
 * conditions between commas, all of which must hold: COLUMN, one of < <= > >= = !=, and a number (1K is 1024) or, for
 * = and !=, a text. A row without a value never holds.
 */
#ifndef BB_BOOTSTRAP_SWEEP_VIEW_H
#define BB_BOOTSTRAP_SWEEP_VIEW_H

#include "bootstrap/sweep/collect.h"

struct bb_sweep_view {
    const char *sort, *where; /* as typed; NULL: none */
    int top;                  /* rows; 0: all */
};

/* bb_view_check - before anything runs: whether the words are such, and name columns that the table may have. Returns 0
 * or -BB_EUSAGE after one line. */
int bb_view_check(const struct bb_sweep_view *v, const struct bb_study *study,
                  const struct bb_sweep_runs *combinations) BB_MUST_CHECK;

/* bb_view_apply - g->rows as asked for. -BB_EUSAGE, said, when no result has a column. */
int bb_view_apply(const struct bb_sweep_view *v, struct bb_gathered *g) BB_MUST_CHECK;

#endif
