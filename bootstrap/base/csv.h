/*
 * csv.h - a table as CSV (RFC 4180, lines end in \n): names of columns, then rows. A cell is quoted where it must be;
 * numbers have a point and 12 digits at most, truth is true or false, and what does not apply is empty.
 */
#ifndef BB_BOOTSTRAP_BASE_CSV_H
#define BB_BOOTSTRAP_BASE_CSV_H

#include <jansson.h>
#include <stdio.h>

/* bb_csv_write - columns: texts; rows: lists of scalars, one for each column. Whether all could be written, the stream
 * knows. */
void bb_csv_write(const json_t *columns, const json_t *rows, FILE *out);

#endif
