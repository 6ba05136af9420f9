/*
 * shortfall.h - a machine against what was predicted for it: where it falls behind. The verdicts of compare.h say that
 * B is faster or slower than A; this says it of measured and predicted, whichever of them is A.
 */
#ifndef BB_COLLECTIVES_COMPARE_SHORTFALL_H
#define BB_COLLECTIVES_COMPARE_SHORTFALL_H

#include "collectives/compare/result_reader.h"

#include <stdbool.h>
#include <stdio.h>

/* Predictions have no interval: a row that takes more than so much longer is behind, unless --threshold says else. */
#define BB_SHORTFALL_PERCENT 10.0

struct bb_shortfall {
    bool known, a_is_measured; /* known: one of both files is a prediction, and only one */
    const char *cluster;       /* it is for                                              */
    double percent;
    size_t rows, slower_rows;
    const struct bb_timing *worst; /* measured; NULL: no row                   */
    double worst_ratio, log_sum;   /* of measured over predicted times         */
    json_t *parts;                 /* of steps: where their times go */
};

/* bb_shortfall_init - threshold_percent NaN: the usual one. Of two steps the parts (compute, ...) and the groups that
 * both files tell of the slowest rank are put beside each other. */
void bb_shortfall_init(struct bb_shortfall *s, const struct bb_result_file *a, const struct bb_result_file *b,
                       double threshold_percent);

void bb_shortfall_release(struct bb_shortfall *s);

/* bb_shortfall_add - two rows that belong together, with right data. */
void bb_shortfall_add(struct bb_shortfall *s, const struct bb_timing *a, const struct bb_timing *b);

void bb_shortfall_print(const struct bb_shortfall *s, FILE *out);
json_t *bb_shortfall_json(const struct bb_shortfall *s); /* null where nothing is known */

#endif
