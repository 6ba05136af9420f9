/*
 * flat_table.h - converts JSON rows to a CSV table with one line per row. The columns are the scalar fields of all
 * rows. A nested field has the name object.field; a confidence interval has two columns, ci95.low and ci95.high; a list
 * of strings becomes one string, separated by blanks. Other lists and the fields `options` and `environment` are
 * omitted.
 */
#ifndef BB_BOOTSTRAP_RESULTS_FLAT_TABLE_H
#define BB_BOOTSTRAP_RESULTS_FLAT_TABLE_H

#include <jansson.h>
#include <stdio.h>

/*
 * bb_flat_table_write - write a table as CSV (csv.h).
 *   rows   list of JSON objects
 *   extra  object with additional fields, which every row gets after its own fields; NULL: none. If a row has a field
 *          of the same name, the field of the row is used.
 *   out    the caller checks the stream for write errors
 */
void bb_flat_table_write(const json_t *rows, json_t *extra, FILE *out);

#endif
