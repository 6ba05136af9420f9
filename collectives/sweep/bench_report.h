/*
 * bench_report.h - writes the rows of a sweep (a sequence of collectives, types and sizes, cases.h) as a table in
 * nccl-tests' format and as JSON (schema busbar.bench/1). A row has up to two results: out of place and in place. Only
 * rank 0 has output streams; on other ranks the functions write nothing.
 */
#ifndef BB_COLLECTIVES_SWEEP_BENCH_REPORT_H
#define BB_COLLECTIVES_SWEEP_BENCH_REPORT_H

#include "bootstrap/results/results.h"
#include "collectives/measure/bench_context.h"
#include "collectives/session/registration.h"
#include "collectives/session/session.h"
#include "collectives/sweep/bench_options.h"
#include "collectives/sweep/busbw_reference.h"

enum { BB_OUT_OF_PLACE, BB_IN_PLACE, BB_PLACEMENTS };

struct bb_row {
    struct bb_case c; /* the measured collective with its parameters; in_place is always false, see `measured` */
    bool measured[BB_PLACEMENTS]; /* [placement] whether the placement (out of place, in place) was measured, so
                                     metrics[placement] is valid */
    struct bb_metrics metrics[BB_PLACEMENTS];
    bool wanted[BB_PLACEMENTS];  /* [placement] whether the placement is requested; measured only if the collective
                                   supports it */
    const struct bb_row *chosen; /* only for a row with a forced algorithm: the row with NCCL's own choice; otherwise
                                    NULL */
    int group;  /* index of this row's group (set of ranks with its own communicator, --split); 0 without --split */
    bool first; /* this rank is the first rank of its group, so this rank's row represents the group */
};

struct bb_report;

/* Output format of the table and of the results: busbar's or nccl-tests'. */
struct bb_report_style {
    const int *widths; /* [2] column widths in characters: [0] for times, [1] for rates */
    int threads, gpus; /* values of nccl-tests' options -t (threads) and -g (GPUs per thread), only for printing */
    /* Name of the nccl-tests program whose format this is, such as all_reduce_perf; NULL: busbar's format. In
     * nccl-tests' format, values that do not apply are 0.00 instead of N/A, for parsers of the table, and with --split
     * only the rows of the first group of ranks are printed. */
    const char *program;
    void (*head)(const struct bb_report *r); /* prints the lines above the first table */
    void (*before_row)(const struct bb_report *r, const struct bb_row *row); /* prints lines above a row; NULL: no
                                                                                lines */
    /* Functions that write the results in another schema; NULL: schema busbar.bench/1. */
    json_t *(*json_root)(const struct bb_report *r, int argc, char **argv);
    json_t *(*json_row)(const struct bb_report *r, const struct bb_row *row);
    int (*json_end)(const struct bb_report *r);
};
extern const struct bb_report_style bb_report_bench;

/* Points of the run at which the free device memory is recorded (-M). */
enum bb_memory_point {
    BB_MEMORY_START,   /* before the communicator exists */
    BB_MEMORY_INIT,    /* after the communicator, before the buffers */
    BB_MEMORY_BUFFERS, /* after the buffers, before the first operation */
    BB_MEMORY_END,
    BB_MEMORY_POINTS
};

/* Counts of the current table. */
struct bb_table_counts {
    unsigned long long wrong, unchecked; /* wrong: elements with wrong data; unchecked: results without verification */
    unsigned long long results, warned[BB_WARN_COUNT]; /* warned: results with each warning (enum bb_warning) */
    size_t min_bytes, max_bytes;                       /* sizes of these results */
    struct bb_busbw_tally busbw;                       /* of all results that NCCL chose the algorithm for */
    /* time of the smallest size, and by the host clock, and of the largest size, and its bus bandwidth; NaN: none */
    double first_us, first_wall_us, last_us, last_gbps;
    double worst_spread_us; /* sync mode: largest median arrival spread (time from first to last arrival) */
};

/* Results of the current table in which a rank is the straggler (struct bb_skew), and the largest median spread of them. */
struct bb_late_rank {
    unsigned long long results;
    double spread_us;
};

/* Counts of all tables of a run. */
struct bb_run_counts {
    unsigned long long wrong, unchecked, results, warned[BB_WARN_COUNT]; /* as in bb_table_counts */
    double shortest_us, highest_gbps; /* of all results that NCCL chose the algorithm for; 0: none */
    char shortest[64], highest[64];   /* their collectives and sizes */
    int wrong_rank;                   /* of the first wrong result */
    bool below;                       /* whether a table is below --min-busbw */
};

struct bb_report {
    FILE *out;     /* stream for the table; NULL: no table */
    bool full;     /* print everything: --full or nccl-tests' format */
    bool one_line; /* a table takes one line, because there are several; with --sweep-algorithms only the ranking */
    bool headed;   /* one_line: the heading of these lines is printed */
    const char *
        gain; /* --sweep-algorithms: the largest gain (bb_algorithms_summary), in place of the shortest time; NULL: none */
    struct bb_run_counts all;
    struct bb_session *session; /* ranks, GPUs and results file */
    const struct bb_bench_context *ctx;
    const struct bb_report_style *style;
    const struct bb_bench_options *options;
    const struct bb_registration *registration;
    const int *groups, *pids; /* [ranks] index of each rank's --split group, and its process id; the latter only for the
                                 lines above the first table */
    size_t free_bytes[BB_MEMORY_POINTS]; /* free device memory on rank 0; only with -M */
    int cycle;                           /* current repetition of the sweep (-N), from 0 */
    int coll;                            /* of the current table */
    struct bb_table_counts counts;
    const struct bb_busbw_threshold *thresholds; /* [n_thresholds] of --min-busbw */
    int n_thresholds;
    /* [ranks][n_thresholds + 1] counts of the current table for each group, at the index of its first rank: the results
     * that each threshold applies to; [n_thresholds]: all results */
    struct bb_busbw_tally *tallies;
    struct bb_late_rank *late;                 /* [ranks] */
    const struct bb_busbw_reference *expected; /* of --expect; NULL: not given. Empty on other ranks than 0 */
    double *ratios; /* [n_ratios] bus bandwidth / expected bus bandwidth of the judged results; owned by bench.c */
    size_t n_ratios;
    double lowest; /* the lowest of them, and its result: "all_reduce, 4 MiB, in_place" */
    char lowest_result[80];
    json_t *below, *checks; /* lists for the results: bus bandwidths below their thresholds, checks; owned by bench.c */
};

enum { BB_STAMP_TEXT = 32 };
void bb_report_stamp(char text[BB_STAMP_TEXT]); /* writes the current local time, such as "2026-01-31 23:59:59" */

/* bb_report_emulated_note - with emulated GPUs, print which times come from a model, and what the model lacks. */
void bb_report_emulated_note(const struct bb_report *r);

/* bb_report_redop - return the reduction operation to print; "none" for collectives without one. */
const char *bb_report_redop(const struct bb_report *r, const struct bb_row *row);

/*
 * bb_report_begin - reset the counts of the table, and print the title and the column headings.
 *                     coll     enum bb_coll_kind
 * bb_report_row   - print a row and write its results.
 *                     Returns  0, or -BB_EFAIL if stdout is closed and there is no results file
 * bb_report_skip  - print that a collective is skipped because it cannot run on this number of ranks.
 */
void bb_report_begin(struct bb_report *r, int coll);
BB_MUST_CHECK int bb_report_row(struct bb_report *r, const struct bb_row *row);
void bb_report_skip(struct bb_report *r, int coll);

/*
 * bb_report_end - print the footer of a table. Returns true if a bus bandwidth is below its threshold or cannot be
 * determined, after printing one error line for each such threshold.
 */
bool bb_report_end(struct bb_report *r);

/* bb_report_mean_verdict - return "OK" or "FAILED" if --min-busbw has thresholds for the mean bus bandwidth of the table;
 * NULL: it has none. */
const char *bb_report_mean_verdict(const struct bb_report *r);

/* bb_report_close - print the verdict as the last line, unless everything is printed, and write the last fields of the
 * results: memory_bytes if requested (-M), or, in nccl-tests' format, what style->json_end writes. */
BB_MUST_CHECK int bb_report_close(const struct bb_report *r);

#endif
