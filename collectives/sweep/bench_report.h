/*
 * bench_report.h - writes the rows of a sweep as a table in nccl-tests' format and as JSON (schema busbar.bench/1).
 * Only rank 0 has an output; on the other ranks the functions write nothing.
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
    struct bb_case c;             /* the case, out of place; in_place is unset */
    bool measured[BB_PLACEMENTS]; /* requested and possible */
    struct bb_metrics figures[BB_PLACEMENTS];
    bool wanted[BB_PLACEMENTS];  /* requested; measured if possible */
    const struct bb_row *chosen; /* row with NCCL's own choice, if this row has a forced algorithm; otherwise NULL */
    int group;                   /* group of --split, 0 without */
    bool first;                  /* true on the first rank of a group, whose row represents the group */
};

struct bb_report;
struct bb_report_head;

/* Format of the text and of the results. */
struct bb_report_style {
    int widths[2];       /* widths of time and rate columns */
    bool zeros;          /* print values that do not apply as 0.00 instead of N/A, for parsers of nccl-tests */
    bool first_group;    /* with --split, print only the rows of the first group */
    int threads, gpus;   /* nccl-tests' threads per process and GPUs per thread, printed only */
    const char *program; /* program name in the text; NULL: name of the collective */
    void (*head)(const struct bb_report *r, const struct bb_report_head *head);
    void (*before_row)(const struct bb_report *r, const struct bb_row *row); /* prints lines above a row; NULL: none */
    /* Functions that write the results in another schema; NULL: busbar.bench/1. */
    json_t *(*json_root)(const struct bb_report *r, const struct bb_report_head *head, int argc, char **argv);
    json_t *(*json_row)(const struct bb_report *r, const struct bb_row *row);
    int (*json_end)(const struct bb_report *r);
};
extern const struct bb_report_style bb_report_bench;

/* Free device memory of rank 0 at four points of the run, in bytes. */
struct bb_report_memory {
    size_t free_at_start, free_after_init, free_after_buffers, free_at_end;
};

struct bb_report {
    FILE *out;               /* table output; NULL: none */
    struct bb_results *json; /* results file; NULL: none */
    const struct bb_bench_context *ctx;
    const struct bb_report_style *style;
    const struct bb_bench_options *options;
    const struct bb_report_memory *memory;
    const struct bb_registration *registration;
    int cycle; /* current repetition of the sweep (-N), from 0 */
    bool shared_gpu;
    unsigned long long wrong, unchecked, rows; /* counts of the current table: wrong elements, unverified results,
                                                  rows */
    unsigned gpu_flags;                        /* bits of enum bb_nvml_flag that were already reported */
    double busbw_sum;
    size_t busbw_n;
    struct bb_busbw_tally busbw_thresholds[BB_BUSBW_THRESHOLDS_MAX]; /* for each threshold of the options */
    unsigned long long figures, warned[BB_WARN_COUNT]; /* counts of the current table: results, and results per
                                                          warning */
    double worst_spread_us;        /* mode sync: largest median arrival spread of the table's rows */
    int straggler;                 /* first rank that a row reports as straggler; -1: none */
    unsigned long long stragglers; /* number of results that report `straggler` */
};

/* Data for the lines above the first table. */
struct bb_report_head {
    const struct bb_bench_options *options;
    const struct bb_session *session;
    const int *groups, *pids; /* [ranks] group and process id of each rank */
};

enum { BB_STAMP_TEXT = 32 };
void bb_report_stamp(char text[BB_STAMP_TEXT]); /* current local time as "2026-01-31 23:59:59" */

/* bb_report_redop - return the name of the reduction; "none" for operations without one. */
const char *bb_report_redop(const struct bb_report *r, const struct bb_row *row);

/*
 * bb_report_head  - print the lines above the first table.
 * bb_report_begin - reset the counts and print the title and heading of a table. coll: enum bb_coll_kind.
 * bb_report_row   - print a row and write its results, one per placement. Returns 0, or -BB_EFAIL if neither stdout nor
 *                   a results file can be written.
 * bb_report_skip  - print that a collective is skipped because of the number of ranks.
 */
void bb_report_head(const struct bb_report *r, const struct bb_report_head *head);
void bb_report_begin(struct bb_report *r, int coll);
BB_MUST_CHECK int bb_report_row(struct bb_report *r, const struct bb_row *row);
void bb_report_skip(struct bb_report *r, int coll);

/*
 * bb_report_end - print the footer of a table. Returns true if a bus bandwidth is below its threshold or cannot be
 * determined; one error is printed for each.
 */
bool bb_report_end(struct bb_report *r, int coll);

/* bb_report_close - write the end of the results: memory_bytes if requested, or the end of the other schema. */
BB_MUST_CHECK int bb_report_close(const struct bb_report *r);

#endif
