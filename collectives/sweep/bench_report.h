/*
 * bench_report.h - the figures as a table that readers of nccl-tests' output know, and as JSON (schema busbar.bench/1).
 * Only rank 0 has an output; on the other ranks every call does nothing.
 */
#ifndef BB_COLLECTIVES_SWEEP_BENCH_REPORT_H
#define BB_COLLECTIVES_SWEEP_BENCH_REPORT_H

#include "bootstrap/results/results.h"
#include "collectives/measure/bench_context.h"
#include "collectives/session/registration.h"
#include "collectives/session/session.h"
#include "collectives/sweep/bench_options.h"

enum { BB_OUT_OF_PLACE, BB_IN_PLACE, BB_PLACEMENTS };

struct bb_row {
    struct bb_case c;             /* without its placement               */
    bool measured[BB_PLACEMENTS]; /* asked for, and possible             */
    struct bb_figures figures[BB_PLACEMENTS];
    bool wanted[BB_PLACEMENTS]; /* to be measured, if possible         */
    const struct bb_row *chosen;   /* of a row with a forced algorithm: the one with NCCL's own choice; else NULL */
    int group;                  /* of a split run                                        */
    bool first;                 /* the first rank of its group: this row is the group's  */
};

struct bb_report;
struct bb_report_head;

/* What the text looks like. */
struct bb_report_style {
    int widths[2];       /* of times and of rates                                                         */
    bool zeros;          /* a figure without a meaning is 0.00, where readers expect a number; else N/A   */
    bool first_group;    /* of a split run, only rows of the first group                                  */
    int threads, gpus;   /* of a process and of a thread, as nccl-tests names the ranks of a process      */
    const char *program; /* named in the text; NULL: the collective                                    */
    void (*head)(const struct bb_report *r, const struct bb_report_head *head);
    void (*before_row)(const struct bb_report *r, const struct bb_row *row); /* lines above a row; NULL: none */
    /* Results in another schema; NULL: busbar's. */
    json_t *(*json_root)(const struct bb_report *r, const struct bb_report_head *head, int argc, char **argv);
    json_t *(*json_row)(const struct bb_report *r, const struct bb_row *row);
    int (*json_end)(const struct bb_report *r);
};
extern const struct bb_report_style bb_report_bench;

/* Free device memory of rank 0 on the way, in bytes. */
struct bb_report_memory {
    size_t free_at_start, free_after_init, free_after_buffers, free_at_end;
};

struct bb_report {
    FILE *out;               /* of the table, NULL: none      */
    struct bb_results *json; /* NULL: none                    */
    const struct bb_bench_context *ctx;
    const struct bb_report_style *style;
    const struct bb_bench_options *options;
    const struct bb_report_memory *memory;
    const struct bb_registration *registration;
    int cycle; /* of the sweep, from 0          */
    bool shared_gpu;
    unsigned long long wrong, unchecked, rows; /* of the current collective: elements, figures, rows */
    unsigned gpu_flags;                        /* about clocks and power, already said */
    double busbw_sum;
    size_t busbw_n;
    struct bb_busbw_tally busbw_thresholds[BB_BUSBW_THRESHOLDS_MAX]; /* of each of the options' */
    unsigned long long figures, warned[BB_WARN_COUNT];               /* of the current table                       */
    double worst_spread_us;                                          /* mode sync: the largest of the rows' medians */
    int straggler;                                                   /* the first that a row names, -1: none        */
    unsigned long long stragglers;                                   /* figures that name it                        */
};

/* Everything about the run that stands above the tables. */
struct bb_report_head {
    const struct bb_bench_options *options;
    const struct bb_session *session;
    const int *groups, *pids; /* of each rank */
};

enum { BB_STAMP_TEXT = 32 };
void bb_report_stamp(char text[BB_STAMP_TEXT]); /* "2026-01-31 23:59:59", now */

/* bb_report_redop - the word for the reduction, "none" without one. */
const char *bb_report_redop(const struct bb_report *r, const struct bb_row *row);

void bb_report_head(const struct bb_report *r, const struct bb_report_head *head);
void bb_report_begin(struct bb_report *r, int coll);
BB_MUST_CHECK int bb_report_row(struct bb_report *r, const struct bb_row *row);
void bb_report_skip(struct bb_report *r, int coll);

/* bb_report_end - the footer. True when a bus bandwidth is below what the options ask for, or cannot be held against
 * it; each is said. */
bool bb_report_end(struct bb_report *r, int coll);

/* bb_report_close - what stands at the end of the results: memory_bytes, when asked for, or the other schema's end. */
BB_MUST_CHECK int bb_report_close(const struct bb_report *r);

#endif
