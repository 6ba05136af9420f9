/*
 * case_fields.h - the columns and JSON keys that every table of measured (bench) or predicted (plan COLLECTIVE)
 * collectives has: the case (size, count, type, ...), and its time, bandwidths and wrong elements. These are the
 * columns of nccl-tests' table and the first keys of a JSON result. A column added here appears in both tables.
 */
#ifndef BB_COLLECTIVES_SWEEP_CASE_FIELDS_H
#define BB_COLLECTIVES_SWEEP_CASE_FIELDS_H

#include "bootstrap/results/table.h"
#include "collectives/measure/case.h"

/* The collective, its parameters (size, count, type, ...) and its metrics, formatted for output. The lists of fields
 * below require this struct to be the first member of the struct that describes a row. */
struct bb_shown_case {
    const char *collective, *dtype, *op, *redop, *placement, *mode;
    size_t bytes, count;
    int root;
    struct bb_stats time_us;
    double algbw_gbps, busbw_gbps, factor; /* algorithm and bus bandwidth, 1e9 bytes/s; NaN: not known. factor: busbw /
                                              algbw */
    long long wrong;                       /* number of wrong elements; -1: not verified */
};

/* Special widths of columns: the first (times) or the second (rates) element of bb_line.widths, which is
 * bb_case_widths in busbar's tables. */
enum { BB_WIDTH_TIME = -1, BB_WIDTH_RATE = -2 };
extern const int bb_case_widths[2];

/* bb_case_fields: the case. bb_time_fields, bb_metric_fields: the columns of each buffer placement (out of place, in
 * place). */
extern const struct bb_field bb_case_fields[], bb_time_fields[], bb_metric_fields[];

/*
 * bb_print_case_title - print the title of a collective's table. mode: timing mode to append to its name; NULL: none.
 * bb_print_placements - print the line above the column headings, which names the buffer placements. more: width of
 *                       the columns that follow bb_metric_fields in each placement, in characters
 */
void bb_print_case_title(FILE *out, int coll, const char *mode);
void bb_print_placements(FILE *out, const int widths[2], int more);

/* bb_show_case - return collective and parameters of the case, formatted for output, without time, bandwidths and
 * verification. mode: the value of the key "mode" in the results. */
struct bb_shown_case bb_show_case(const struct bb_case *c, bool in_place, const char *mode);

#endif
