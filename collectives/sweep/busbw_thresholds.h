/*
 * busbw_thresholds.h - what `--min-busbw` asks for: "300" of the mean over all rows, "peak:300" of the best row, "1G:300"
 * of the rows of a size, several between commas. Of several rows of a size (placements, types) the slowest counts.
 * Pure.
 */
#ifndef BB_COLLECTIVES_SWEEP_BUSBW_THRESHOLDS_H
#define BB_COLLECTIVES_SWEEP_BUSBW_THRESHOLDS_H

#include "bootstrap/base/err.h"
#include "bootstrap/base/units.h"

#include <stdbool.h>
#include <stddef.h>

enum bb_busbw_scope { BB_BUSBW_MEAN, BB_BUSBW_PEAK, BB_BUSBW_SIZE };

struct bb_busbw_threshold {
    enum bb_busbw_scope scope;
    size_t bytes; /* of a size */
    double gbps;  /* 1e9 bytes per second, above 0 */
};

enum { BB_BUSBW_THRESHOLDS_MAX = 32 };
struct bb_busbw_thresholds {
    struct bb_busbw_threshold item[BB_BUSBW_THRESHOLDS_MAX];
    int n;
};

/* bb_busbw_thresholds_parse - text NULL: none; a floor of 0 is none, too. Returns 0 or -BB_EUSAGE after one line. */
int bb_busbw_thresholds_parse(struct bb_busbw_thresholds *f, const char *text) BB_MUST_CHECK;

/* What the rows of a table had that a floor speaks of; zeroed is none. */
struct bb_busbw_tally {
    size_t n;
    double sum, min, max; /* GB/s */
};

void bb_busbw_tally_add(struct bb_busbw_tally *t, double busbw_gbps);

/* bb_busbw_threshold_measured - what is held against the floor; NaN where no row can be. */
double bb_busbw_threshold_measured(const struct bb_busbw_threshold *f, const struct bb_busbw_tally *t);

/* bb_busbw_threshold_text - "mean", "peak", "1 GiB". Returns buf or a constant. */
const char *bb_busbw_threshold_text(const struct bb_busbw_threshold *f, char buf[BB_BYTES_TEXT]);

#endif
