/*
 * case_fields.h - the table columns and JSON keys that `busbar bench COLLECTIVE` (measured) and `busbar plan
 * COLLECTIVE` (predicted) share: the case (size, count, type, ...), its time, bandwidths and number of wrong elements.
 * These are the columns of nccl-tests' table and the first keys of a JSON result.
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
    double algbw_gbps, busbw_gbps; /* algorithm and bus bandwidth, 1e9 bytes/s; NaN: unknown */
    double factor;                 /* bus factor of the collective: busbw / algbw */
    long long wrong;               /* number of received elements with a wrong value; -1: not verified */
};

/* Values of bb_field.width for columns whose width depends on the table: bb_line.widths[0] for times, bb_line.widths[1]
 * for bandwidths. bb_case_widths: these two widths in busbar's own tables, in characters. */
enum { BB_WIDTH_TIME = -1, BB_WIDTH_RATE = -2 };
extern const int bb_case_widths[2];

/* bb_case_fields: the columns that describe the case, once per row. bb_time_fields (time) and bb_metric_fields
 * (bandwidths, wrong elements): the columns of one buffer placement (out of place or in place), so twice per row. */
extern const struct bb_field bb_case_fields[], bb_time_fields[], bb_metric_fields[];

/*
 * bb_print_case_title - print the title of a collective's table.
 *   mode    timing mode to print after the name of the collective; NULL: none
 * bb_print_placements - print the line above the column headings, which names the buffer placements.
 *   widths  column widths, as bb_case_widths
 *   more    total width in characters of the columns that follow bb_metric_fields in each placement
 */
void bb_print_case_title(FILE *out, int coll, const char *mode);
void bb_print_placements(FILE *out, const int widths[2], int more);

/* bb_show_case - return the collective and the parameters of the case, formatted for output. The caller sets time_us,
 * algbw_gbps, busbw_gbps and wrong. mode: timing mode, the value of the key "mode" in the results. */
struct bb_shown_case bb_show_case(const struct bb_case *c, bool in_place, const char *mode);

#endif
