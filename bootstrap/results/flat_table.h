/*
 * flat_table.h - converts JSON rows to a CSV table with one line per row. The columns are the scalar fields of all
 * rows. A nested field has the name object.field; a confidence interval has two columns, ci95.low and ci95.high; a list
 * of strings becomes one string, separated by blanks. Other lists and the field `environment` are omitted. Every row
 * also has the columns that identify the run (bb_flat_table_identity), its options, and of a comparison the runs of both
 * files.
 */
#ifndef BB_BOOTSTRAP_RESULTS_FLAT_TABLE_H
#define BB_BOOTSTRAP_RESULTS_FLAT_TABLE_H

#include <jansson.h>
#include <stdio.h>

/*
 * bb_flat_table_write - write a table as CSV (csv.h).
 *   rows      list of JSON objects
 *   document  the results of the run, which contain the rows. If a row has a field with the name of a column that
 *             identifies the run, the field of the row is used. NULL: the rows have only their own fields
 *   out       the caller checks the stream for write errors
 */
void bb_flat_table_write(const json_t *rows, const json_t *document, FILE *out);

/* bb_flat_table_identity - return the values that identify the run of a document, as a new object with the keys command,
 * started, host, ranks, nodes, busbar, nccl.runtime, cuda.runtime, emulated and shared_gpu. A value that the document
 * does not contain is null. */
json_t *bb_flat_table_identity(const json_t *document);

#endif
