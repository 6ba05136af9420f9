/*
 * shortfall.h - compares a measurement with a prediction, to find where the machine is slower than predicted. compare.h
 * reports B relative to A; this module reports measured relative to predicted times, whichever of the two files is A.
 */
#ifndef BB_COLLECTIVES_COMPARE_SHORTFALL_H
#define BB_COLLECTIVES_COMPARE_SHORTFALL_H

#include "collectives/compare/result_reader.h"

#include <stdbool.h>
#include <stdio.h>

/* Default threshold in percent: a row counts as slower than predicted if the measured time exceeds the predicted
 * time by more than this. A threshold is needed because predictions have no confidence interval. */
#define BB_SHORTFALL_PERCENT 10.0

/* Ratios of two times in several rows. A zero-initialized struct is empty. */
struct bb_ratios {
    size_t n, over;                /* over: number of ratios above the threshold */
    double log_sum;                /* sum of the logarithms of all ratios */
    const struct bb_timing *worst; /* row with the largest ratio; NULL: no row */
    double worst_ratio;
};

/* bb_ratios_add - add the ratio of a row. threshold_percent: a ratio above 1 + threshold_percent / 100 counts in
 * `over`; NaN: none does.
 * bb_ratios_mean - return the geometric mean of all ratios; NaN: no ratio. */
void bb_ratios_add(struct bb_ratios *r, const struct bb_timing *row, double ratio, double threshold_percent);
double bb_ratios_mean(const struct bb_ratios *r);

struct bb_shortfall {
    /* known: whether exactly one of the two files is a prediction, so that measured and predicted times can be
     * compared; if false, the other fields are unused. a_is_measured: A is the measurement */
    bool known, a_is_measured;
    const char *cluster; /* name of the cluster that the prediction is for; borrowed from the file */
    double percent;
    struct bb_ratios ratios; /* measured / predicted time; `worst` is the measured row */
    json_t *parts; /* measured and predicted times of a proxy's training step: compute, communication, exposed, idle,
                      and the time of each process group (tensor parallel, data parallel, ..); JSON list, owned */
};

/*
 * bb_shortfall_init - start comparing a measurement with a prediction. If both files are of a proxy's training step and
 * contain the compute, communication, exposed and idle times of the slowest rank and the times of the process groups,
 * the function compares these times too.
 *   threshold_percent  NaN: BB_SHORTFALL_PERCENT
 */
void bb_shortfall_init(struct bb_shortfall *s, const struct bb_result_file *a, const struct bb_result_file *b,
                       double threshold_percent);

void bb_shortfall_release(struct bb_shortfall *s);

/* bb_shortfall_add - add a matching pair of rows with correct data. Does nothing unless s->known. */
void bb_shortfall_add(struct bb_shortfall *s, const struct bb_timing *a, const struct bb_timing *b);

void bb_shortfall_print(const struct bb_shortfall *s, FILE *out);
json_t *bb_shortfall_json(const struct bb_shortfall *s); /* returns JSON null unless s->known */

#endif
