/*
 * busbw_reference.h - thresholds of `--min-busbw FILE:PERCENT%`: each result must reach PERCENT of the bus bandwidth that
 * a result file contains for the same case. The file is a prediction (`busbar plan COLLECTIVE --json`) or a measurement.
 */
#ifndef BB_COLLECTIVES_SWEEP_BUSBW_REFERENCE_H
#define BB_COLLECTIVES_SWEEP_BUSBW_REFERENCE_H

#include "collectives/compare/result_reader.h"
#include "collectives/sweep/busbw_thresholds.h"
#include "collectives/sweep/cases.h"
#include "collectives/sweep/groups.h"

/* An all-zero struct is empty. */
struct bb_busbw_reference {
    char *path;
    double fraction;
    struct bb_result_file file;
    struct bb_busbw_threshold *item; /* [n] one threshold per case; their `from` are rows of `file` */
    int n;
};

/*
 * bb_busbw_reference_load - read the file that `thresholds` names.
 *   text     value of --min-busbw
 *   groups   [w->size] group of each rank (--split)
 *   Returns  0, or -BB_EUSAGE after printing one error line: the file cannot be read, has another number of ranks or nodes
 *            than one of the groups, or was measured with --split
 *   Owner    the caller calls bb_busbw_reference_release, also after an error
 */
int bb_busbw_reference_load(struct bb_busbw_reference *r, const struct bb_busbw_thresholds *thresholds,
                            const char *text, const struct bb_world *w, const int *groups) BB_MUST_CHECK;

/* bb_busbw_reference_add - add the thresholds of all cases of a collective in a timing mode. Returns 0, or -BB_EUSAGE after
 * printing one error line if the file has no result for a case. */
int bb_busbw_reference_add(struct bb_busbw_reference *r, const struct bb_sweep *sweep, int coll, const char *mode,
                           int ranks) BB_MUST_CHECK;

/* bb_busbw_reference_matches - return whether a row of a result file is the case `c`, with its placement, in `mode`. */
bool bb_busbw_reference_matches(const struct bb_timing *row, const struct bb_case *c, const char *mode);

void bb_busbw_reference_release(struct bb_busbw_reference *r);

#endif
