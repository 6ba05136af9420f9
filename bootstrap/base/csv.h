/*
 * csv.h - writes a table as CSV (RFC 4180, but lines end in \n): one line of column names, then one line per row.
 * Text is quoted only where the format requires it. A text that a spreadsheet would compute as a formula (it begins
 * with = + - or @, and is no number) gets an apostrophe in front. Numbers have a decimal point and at most 12
 * significant digits, booleans are "true" or "false", and null is an empty field.
 */
#ifndef BB_BOOTSTRAP_BASE_CSV_H
#define BB_BOOTSTRAP_BASE_CSV_H

#include <jansson.h>
#include <stdio.h>

/*
 * bb_csv_write - write a table.
 *   columns  JSON array of strings
 *   rows     JSON array of arrays of scalars, one scalar per column
 *   out      the caller checks ferror(out) for write errors
 */
void bb_csv_write(const json_t *columns, const json_t *rows, FILE *out);

#endif
