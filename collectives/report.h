/*
 * report.h - the figures as a table that readers of nccl-tests' output know, and as JSON (schema busbar.bench/1). Only
 * rank 0 has an output; on the other ranks every call does nothing.
 */
#ifndef BB_COLLECTIVES_REPORT_H
#define BB_COLLECTIVES_REPORT_H

#include "bootstrap/results.h"
#include "collectives/measure.h"
#include "collectives/options.h"

enum { BB_OUT_OF_PLACE, BB_IN_PLACE, BB_PLACEMENTS };

struct bb_row {
    struct bb_case c;             /* without its placement               */
    bool measured[BB_PLACEMENTS]; /* asked for, and possible             */
    struct bb_figures figures[BB_PLACEMENTS];
};

struct bb_report {
    FILE *out;               /* of the table, NULL: none      */
    struct bb_results *json; /* NULL: none                    */
    const struct bb_rig *rig;
    bool shared_gpu;
    unsigned long long wrong, unchecked, rows; /* of the current collective: elements, figures, rows */
    double busbw_sum;
    size_t busbw_n;
};

/* Everything about the run that stands above the tables. devices: one per rank. */
struct bb_report_head {
    const struct bb_bench_options *options;
    const struct bb_results_device *devices;
    int nccl_header, nccl_runtime, cuda_runtime, cuda_driver;
};

void bb_report_head(const struct bb_report *r, const struct bb_report_head *head);
void bb_report_begin(struct bb_report *r, int coll);
BB_MUST_CHECK int bb_report_row(struct bb_report *r, const struct bb_row *row);
void bb_report_end(struct bb_report *r, int coll);

#endif
