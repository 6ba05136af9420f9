/*
 * flat_table.h - results as a table: each row of the JSON with its scalar fields side by side, the union of them as
 * columns. A field below an object is called object.field; an interval is two columns, ci95.low and ci95.high; a list of
 * texts is one text with blanks between. Other lists, and what the command was given (options, environment), are left to
 * the JSON.
 */
#ifndef BB_BOOTSTRAP_RESULTS_FLAT_TABLE_H
#define BB_BOOTSTRAP_RESULTS_FLAT_TABLE_H

#include "bootstrap/base/err.h"

#include <jansson.h>
#include <stdbool.h>
#include <stdio.h>

/* Zeroed is empty. */
struct bb_flat_table {
    json_t *columns; /* names, as keys of an object, in the order in which they came */
    json_t *rows;    /* objects                                                      */
    bool failed;     /* no memory for a row                                          */
};

/* bb_flat_table_add - one more row. extra: more fields, after those of the row where they have the same name; NULL:
 * none. */
void bb_flat_table_add(struct bb_flat_table *t, const json_t *row, const json_t *extra);

/* bb_flat_table_write - as CSV (csv.h). -BB_EFAIL: no memory (said). */
int bb_flat_table_write(const struct bb_flat_table *t, FILE *out) BB_MUST_CHECK;

void bb_flat_table_release(struct bb_flat_table *t);

#endif
