/* table.c - see table.h. */
#include "bootstrap/results/table.h"

#include "bootstrap/results/results.h"

#include <math.h>

/* The first column makes room for the '#' of the heading. */
static void put(FILE *out, const struct bb_column *c, int i, const char *text)
{
    fprintf(out, "%s%*s", i == 0 ? "" : "  ", c->width - (i == 0), text);
}

static void heading_line(FILE *out, const struct bb_column *columns, int n, int units)
{
    fputc('#', out);
    for (int i = 0; i < n; i++)
        put(out, &columns[i], i, units ? columns[i].unit : columns[i].head);
    fputc('\n', out);
}

void bb_table_heading(FILE *out, const struct bb_column *columns, int n)
{
    if (!out)
        return;
    heading_line(out, columns, n, 0);
    heading_line(out, columns, n, 1);
}

static void cell_text(const struct bb_column *c, const struct bb_cell *cell, char *text, size_t room)
{
    if (cell->kind == BB_CELL_TEXT)
        snprintf(text, room, "%s", cell->text);
    else if (cell->kind == BB_CELL_INT)
        snprintf(text, room, "%lld", cell->integer);
    else if (isfinite(cell->real))
        snprintf(text, room, "%.*f", c->digits, cell->real);
    else
        snprintf(text, room, "-");
}

void bb_table_row(FILE *out, const struct bb_column *columns, const struct bb_cell *cells, int n)
{
    char text[64];

    if (!out)
        return;
    fputc(' ', out);
    for (int i = 0; i < n; i++) {
        cell_text(&columns[i], &cells[i], text, sizeof text);
        put(out, &columns[i], i, text);
    }
    fputc('\n', out);
    fflush(out);
}

json_t *bb_table_json(const struct bb_column *columns, const struct bb_cell *cells, int n)
{
    json_t *row = json_object();

    for (int i = 0; row && i < n; i++) {
        json_t *value = cells[i].kind == BB_CELL_TEXT  ? json_string(cells[i].text)
                        : cells[i].kind == BB_CELL_INT ? json_integer(cells[i].integer)
                                                       : bb_json_real(cells[i].real);
        if (json_object_set_new(row, columns[i].key, value) != 0) {
            json_decref(row);
            return NULL;
        }
    }
    return row;
}
