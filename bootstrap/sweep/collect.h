/*
 * collect.h - combines the results of a study (a set of benchmark runs) into one table (text and CSV) and one JSON
 * file.
 *
 * A combination (the settings of one run, expand.h) yields one row per element of the array results[] in its result, or
 * a single row if its result has no such array. The columns are the axes of the study (varied options, variables and
 * ranks), then values of the result, then the state of the run. A value is named by its path in the JSON
 * ("step_us.p50"), which is looked up first in the element of results[], then in the whole result. A column with
 * relative_to contains a ratio: the row's value divided by the value of its reference row. The reference row belongs to
 * the combination with the same settings except for those in relative_to, and has the same collective, size and other
 * identifying keys (the table `identity` in collect.c).
 *
 * busbar.sweep/1: schema, busbar, name, about, study (the file as read), axes{axis: [values]}, combinations[{id,
 * settings{}, command[], environment{}, launch_arguments[], ranks, state ("complete"|"failed"|"below threshold"|"to do"), exit_status,
 * seconds, stderr[] (last lines of a failed run), result (complete JSON of the run, or null)}], columns[], rows[[]]
 * (table cells, null if empty), counts{complete, failed, to_do, below_threshold}, emulated, shared_gpu, status, reason
 * (bb_results_set_end).
 */
#ifndef BB_BOOTSTRAP_SWEEP_COLLECT_H
#define BB_BOOTSTRAP_SWEEP_COLLECT_H

#include "bootstrap/sweep/state.h"

struct bb_gathered {
    const struct bb_study *study;
    const struct bb_sweep_runs *combinations;
    struct bb_sweep_found *found;  /* [combinations->n] state and result of each combination; owned */
    size_t *order;                 /* [combinations->n] indices of the combinations in the order of the rows; owned */
    json_t *columns;               /* JSON list of the column names */
    json_t *rows;                  /* JSON list of the table rows; each table row is a list of one value per column */
    json_t *identity;              /* NULL, or names of the additional values at the end of each table row */
    size_t count[BB_SWEEP_STATES]; /* number of combinations in each state */
    bool emulated, shared_gpu;     /* true if any result is from emulated GPUs, or from ranks that share a GPU */
    bool some_measured;            /* true if any result is not from emulated GPUs */
    bool shows_mfu, fewer_bits;    /* a column is the MFU; a result of a plan has GEMMs of fewer bits than --dtype */
    bool *left_out;                /* [combinations->n] --where left out all rows; NULL: not given; owned */
    size_t not_shown;              /* number of rows removed by --where and --top (view.h) */
};

/* bb_gather - read all results in the folder `dir` and build the table. Runs without a result are allowed. The caller
 * releases g with bb_gathered_release. */
void bb_gather(struct bb_gathered *g, const struct bb_study *study, const struct bb_sweep_runs *combinations,
               const char *dir);
void bb_gathered_release(struct bb_gathered *g);

/*
 * bb_sweep_columns - return the names of all columns that the table of a study may have: a new list owned by the
 * caller.
 * bb_sweep_check_columns - check "columns" of a study before its runs, with the JSON Schemas of the results. Returns 0, also if
 *     a program may write any result, or -BB_EUSAGE after an error line.
 * bb_list_columns - return the rows of `busbar list columns`: a new list with the default columns of each command.
 */
json_t *bb_sweep_columns(const struct bb_study *study, const struct bb_sweep_runs *combinations);
int bb_sweep_check_columns(const struct bb_study *study, const struct bb_sweep_runs *combinations) BB_MUST_CHECK;
json_t *bb_list_columns(void);

/* bb_gathered_identify - append to each table row the values that identify its run (bb_flat_table_identity), for the
 * CSV. Must be called before rows are filtered or sorted. */
void bb_gathered_identify(struct bb_gathered *g);

/* The table as text and as JSON (collect_table.c), and as CSV with the values of bb_gathered_identify. The text
 * contains header lines that start with '#', an aligned table, and the failed combinations with the last lines of their
 * stderr; full: all of them, else the first ones in at most 25 lines. The caller owns the JSON. */
void bb_gathered_text(const struct bb_gathered *g, bool full, FILE *out);
json_t *bb_gathered_json(const struct bb_gathered *g);
void bb_gathered_csv(const struct bb_gathered *g, FILE *out);

/* bb_is_misfit - return whether a row of the table is a plan that does not fit. Such rows are last. */
bool bb_is_misfit(const struct bb_gathered *g, const json_t *row);

#endif
