/*
 * flat_table.h - results as a flat table with one line per JSON row. The columns are the union of the scalar fields of
 * all rows. A nested field is named object.field; an interval has two columns, ci95.low and ci95.high; a list of
 * strings becomes one string, separated by blanks. Other lists, `options` and `environment` are only in the JSON.
 */
#ifndef BB_BOOTSTRAP_RESULTS_FLAT_TABLE_H
#define BB_BOOTSTRAP_RESULTS_FLAT_TABLE_H

#include "bootstrap/base/err.h"

#include <jansson.h>
#include <stdbool.h>
#include <stdio.h>

/* A zero-initialized struct is an empty table. */
struct bb_flat_table {
    json_t *columns; /* object whose keys are the column names, in order of first appearance */
    json_t *rows;    /* list of objects: column name -> value */
    bool failed;     /* true after memory for a row or a column was exhausted */
};

/* bb_flat_table_add - append a row. extra: additional fields, appended after the fields of the row; NULL: none. If
 * both have a field of the same name, the field of the row is used. */
void bb_flat_table_add(struct bb_flat_table *t, const json_t *row, const json_t *extra);

/* bb_flat_table_write - write the table as CSV (csv.h). Returns 0, or -BB_EFAIL after an error message if memory is
 * exhausted. */
int bb_flat_table_write(const struct bb_flat_table *t, FILE *out) BB_MUST_CHECK;

void bb_flat_table_release(struct bb_flat_table *t);

#endif
