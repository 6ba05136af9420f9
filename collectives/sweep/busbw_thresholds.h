/*
 * busbw_thresholds.h - the thresholds of `--min-busbw`: "300" or "mean:300" applies to the mean over all rows,
 * "peak:300" to the fastest row, "1G:300" to the rows of one size; several are separated by commas. If a size has
 * several rows (placements, types), the slowest one counts. Pure functions without I/O.
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
    size_t bytes; /* with BB_BUSBW_SIZE */
    double gbps;  /* GB/s (1e9 bytes per second), above 0 */
};

enum { BB_BUSBW_THRESHOLDS_MAX = 32 };
struct bb_busbw_thresholds {
    struct bb_busbw_threshold item[BB_BUSBW_THRESHOLDS_MAX];
    int n;
};

/* bb_busbw_thresholds_parse - read the option's value; NULL gives an empty list, and thresholds of 0 are dropped.
 * Returns 0 or -BB_EUSAGE after printing one line. */
int bb_busbw_thresholds_parse(struct bb_busbw_thresholds *f, const char *text) BB_MUST_CHECK;

/* Bus bandwidths of the rows of a table that one threshold applies to. A zeroed struct is empty. */
struct bb_busbw_tally {
    size_t n;
    double sum, min, max; /* GB/s */
};

/* bb_busbw_tally_add - add the bus bandwidth of a row; NaN is ignored. */
void bb_busbw_tally_add(struct bb_busbw_tally *t, double busbw_gbps);

/* bb_busbw_threshold_measured - return the bus bandwidth to compare with the threshold; NaN if there is none. */
double bb_busbw_threshold_measured(const struct bb_busbw_threshold *f, const struct bb_busbw_tally *t);

/* bb_busbw_threshold_text - return "mean", "peak" or a size such as "1 GiB", in buf or as a constant. */
const char *bb_busbw_threshold_text(const struct bb_busbw_threshold *f, char buf[BB_BYTES_TEXT]);

#endif
