/*
 * collect.h - the results of a study put together: one table, as text and CSV, and one JSON file.
 *
 * A row of the table is a combination's result, or each of its results[] (bench). Its columns are the axes of the
 * study, then figures of the result, then the state. Figures are named by their way through the JSON ("step_us.p50"),
 * first looked for in the row, then in the whole result. A column relative to another combination is this row's figure
 * over that of the row with the same collective, size and so on in the combination whose settings are the same except
 * for those named.
 *
 * busbar.sweep/1: schema, busbar, name, about, study (the file as it was read), axes{axis: [values]}, combinations[{id,
 * settings{}, command[], environment{}, ranks, state ("complete"|"failed"|"to do"), exit_status, seconds, stderr[]
 * (last lines of a failed one), result (its whole JSON, null without)}], columns[], rows[[]] (values as in the table,
 * null for none), counts{complete, failed, to_do}, emulated, shared_gpu.
 */
#ifndef BB_BOOTSTRAP_SWEEP_COLLECT_H
#define BB_BOOTSTRAP_SWEEP_COLLECT_H

#include "bootstrap/sweep/state.h"

struct bb_gathered {
    const struct bb_study *study;
    const struct bb_sweep_runs *combinations;
    struct bb_sweep_found *found; /* [combinations->n]                                            */
    json_t **errors;              /* [combinations->n] last lines of failed ones, else NULL       */
    json_t *columns;              /* names                                                        */
    json_t *rows;                 /* [[value per column]]                                         */
    size_t *row_of;               /* [rows] the combination                                       */
    size_t count[3];              /* by enum bb_sweep_state                                       */
    bool emulated, shared_gpu;    /* some result is                                               */
    size_t not_shown;             /* rows that a view left out (view.h)                           */
};

/* bb_gather - read everything in dir. Also for a study of which little has run. release is fine on a half-made one. */
int bb_gather(struct bb_gathered *g, const struct bb_study *study, const struct bb_sweep_runs *combinations,
              const char *dir) BB_MUST_CHECK;
void bb_gathered_release(struct bb_gathered *g);

/* bb_sweep_columns - names of all columns that the table of a study may have, as a new list; NULL without memory.
 * bb_list_columns - the usual ones of each command, for `busbar list`. Returns 0 or -BB_EFAIL. */
json_t *bb_sweep_columns(const struct bb_study *study, const struct bb_sweep_runs *combinations);
int bb_list_columns(FILE *out);

/* The three forms (collect_table.c). Text: a head of # lines, an aligned table, the failed ones with their reasons. */
void bb_gathered_text(const struct bb_gathered *g, FILE *out);
int bb_gathered_csv(const struct bb_gathered *g, FILE *out); /* 0 */
json_t *bb_gathered_json(const struct bb_gathered *g);       /* owned by the caller; NULL without memory */

#endif
