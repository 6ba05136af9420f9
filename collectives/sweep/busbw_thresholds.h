/*
 * busbw_thresholds.h - the thresholds of `--min-busbw`. "300" or "mean:300" applies to the mean over all results of a
 * table, "peak:300" to the fastest result, "1G:300" to the results of one size, "all_reduce:1G:300" only to those of a
 * collective. Commas separate several thresholds. If
 * a size has several results (in place and out of place, several types), the threshold applies to the
 * slowest one. "FILE:90%" takes one threshold per result from a result file (busbw_reference.h). With --split each
 * threshold applies to each group. Pure functions without I/O.
 */
#ifndef BB_COLLECTIVES_SWEEP_BUSBW_THRESHOLDS_H
#define BB_COLLECTIVES_SWEEP_BUSBW_THRESHOLDS_H

#include "bootstrap/base/err.h"
#include "bootstrap/base/units.h"

#include <stddef.h>

enum bb_busbw_scope { BB_BUSBW_MEAN, BB_BUSBW_PEAK, BB_BUSBW_SIZE };

struct bb_busbw_threshold {
    enum bb_busbw_scope scope;
    size_t bytes; /* message size to which the threshold applies; only with BB_BUSBW_SIZE */
    double gbps;  /* GB/s (1e9 bytes per second), above 0 */
    const struct bb_timing
        *from;                  /* row of the result file that the threshold is derived from (result_reader.h), for the
                                     results of this case only; NULL: the threshold was typed */
    const struct bb_coll *coll; /* in bb_colls; NULL: all collectives */
};

enum { BB_BUSBW_THRESHOLDS_MAX = 32 };
struct bb_busbw_thresholds {
    struct bb_busbw_threshold item[BB_BUSBW_THRESHOLDS_MAX];
    int n;
    int path_length; /* FILE:PERCENT%: number of characters of FILE at the start of the text; 0: typed thresholds */
    double fraction; /* PERCENT / 100 */
};

/* bb_busbw_thresholds_parse - parse the value of the option. NULL yields an empty list; thresholds of 0 are dropped.
 * Returns 0, or -BB_EUSAGE after printing one error line. */
int bb_busbw_thresholds_parse(struct bb_busbw_thresholds *f, const char *text) BB_MUST_CHECK;

/* Sum, minimum and maximum of the bus bandwidths to which one threshold applies. A zero-initialized struct is empty. */
struct bb_busbw_tally {
    size_t n;
    double sum, min, max; /* sum, minimum and maximum in GB/s */
};

/* bb_busbw_tally_add - add the bus bandwidth of a result. NaN is ignored.
 * bb_busbw_tally_mean - return the mean in GB/s; NaN if the tally is empty. */
void bb_busbw_tally_add(struct bb_busbw_tally *t, double busbw_gbps);
double bb_busbw_tally_mean(const struct bb_busbw_tally *t);

/* bb_busbw_threshold_measured - return the bus bandwidth to compare with the threshold, in GB/s: the mean, the
 * maximum (peak) or the minimum (one size) of the tally; NaN if the tally is empty. */
double bb_busbw_threshold_measured(const struct bb_busbw_threshold *f, const struct bb_busbw_tally *t);

/* bb_busbw_threshold_text - return what a threshold applies to: "mean", "peak", or a size such as "1 GiB", which is
 * formatted in buf. Returns a pointer to a constant or to buf. */
const char *bb_busbw_threshold_text(const struct bb_busbw_threshold *f, char buf[BB_BYTES_TEXT]);

#endif
