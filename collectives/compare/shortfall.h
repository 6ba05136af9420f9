/*
 * shortfall.h - comparison of a measurement with a prediction: where the machine is slower than predicted. compare.h
 * reports B relative to A; this module reports measured relative to predicted, whichever of the two files is A.
 */
#ifndef BB_COLLECTIVES_COMPARE_SHORTFALL_H
#define BB_COLLECTIVES_COMPARE_SHORTFALL_H

#include "collectives/compare/result_reader.h"

#include <stdbool.h>
#include <stdio.h>

/* Default threshold, because predictions have no interval: a row that takes this much longer than predicted counts
 * as slower. */
#define BB_SHORTFALL_PERCENT 10.0

struct bb_shortfall {
    bool known, a_is_measured; /* known: exactly one of the two files is a prediction */
    const char *cluster;       /* cluster profile of the prediction; borrowed from the file */
    double percent;
    size_t rows, slower_rows;
    const struct bb_timing *worst; /* measured row with the largest ratio; NULL: no row */
    double worst_ratio, log_sum;   /* ratios of measured to predicted times; log_sum is the sum of their logarithms */
    json_t *parts;                 /* JSON list: time of a proxy's step by part and by group; owned */
};

/*
 * bb_shortfall_init - start a comparison with a prediction.
 *   threshold_percent  NaN: BB_SHORTFALL_PERCENT
 *   For two steps, the parts of the slowest rank's time (compute, communication, ...) and the times of its groups are
 *   compared, as far as both files have them.
 */
void bb_shortfall_init(struct bb_shortfall *s, const struct bb_result_file *a, const struct bb_result_file *b,
                       double threshold_percent);

void bb_shortfall_release(struct bb_shortfall *s);

/* bb_shortfall_add - add two matching rows with correct data; ignored unless s->known. */
void bb_shortfall_add(struct bb_shortfall *s, const struct bb_timing *a, const struct bb_timing *b);

void bb_shortfall_print(const struct bb_shortfall *s, FILE *out);
json_t *bb_shortfall_json(const struct bb_shortfall *s); /* null when exactly one file being a prediction does not
                                                            hold */

#endif
