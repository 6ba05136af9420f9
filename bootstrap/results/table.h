/*
 * table.h - a table whose columns are described once: the description prints the heading, the rows, and names the
 * fields of the same rows in JSON.
 */
#ifndef BB_BOOTSTRAP_RESULTS_TABLE_H
#define BB_BOOTSTRAP_RESULTS_TABLE_H

#include <jansson.h>
#include <stdio.h>

struct bb_column {
    const char *key;         /* in JSON, with its unit                     */
    const char *head, *unit; /* in the heading                            */
    int width, digits;       /* of the text; digits behind the point       */
};

enum bb_cell_kind { BB_CELL_TEXT, BB_CELL_INT, BB_CELL_REAL };

struct bb_cell {
    enum bb_cell_kind kind;
    const char *text;
    long long integer;
    double real; /* NaN: not applicable, "-" and null */
};
#define BB_TEXT(value) ((struct bb_cell){.kind = BB_CELL_TEXT, .text = (value)})
#define BB_INT(value)  ((struct bb_cell){.kind = BB_CELL_INT, .integer = (long long)(value)})
#define BB_REAL(value) ((struct bb_cell){.kind = BB_CELL_REAL, .real = (value)})

/* Text goes to out; NULL: none. The heading is a comment of two lines. */
void bb_table_heading(FILE *out, const struct bb_column *columns, int n);
void bb_table_row(FILE *out, const struct bb_column *columns, const struct bb_cell *cells, int n);

/* bb_table_json - the row as a new object; NULL without memory. */
json_t *bb_table_json(const struct bb_column *columns, const struct bb_cell *cells, int n);

#endif
