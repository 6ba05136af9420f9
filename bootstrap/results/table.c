/* table.c - see table.h. */
#include "bootstrap/results/table.h"

#include "bootstrap/results/results.h"

#include <math.h>
#include <string.h>

static bool is_end(const struct bb_field *f)
{
    return !f->key && !f->head;
}

/* ---- values ---- */

static struct bb_cell member_cell(enum bb_member member, const void *at)
{
    const struct bb_stats *stats = at;
    struct bb_cell cell = {.kind = BB_CELL_NONE};

    switch (member) {
    case BB_MEMBER_NONE:
        return cell;
    case BB_MEMBER_TEXT:
        return BB_TEXT(*(const char *const *)at);
    case BB_MEMBER_CHARS:
        return BB_TEXT(*(const char *)at ? at : NULL);
    case BB_MEMBER_INT:
        return BB_INT(*(const int *)at);
    case BB_MEMBER_LONG:
        return BB_INT(*(const long *)at);
    case BB_MEMBER_SIZE:
        return BB_INT(*(const size_t *)at);
    case BB_MEMBER_COUNT:
        return BB_INT(*(const unsigned long long *)at);
    case BB_MEMBER_KNOWN:
        return *(const long long *)at >= 0 ? BB_INT(*(const long long *)at) : cell;
    case BB_MEMBER_REAL:
        return BB_REAL(*(const double *)at);
    case BB_MEMBER_BOOL:
        return (struct bb_cell){.kind = BB_CELL_BOOL, .integer = *(const bool *)at};
    case BB_MEMBER_STATS:
        return stats->n ? (struct bb_cell){.kind = BB_CELL_STATS, .stats = stats, .real = stats->p50} : cell;
    }
    return cell;
}

static struct bb_cell cell_of(const struct bb_field *f, const void *row)
{
    return f->value ? f->value(row) : member_cell(f->member, (const char *)row + f->offset);
}

/* ---- text ---- */

static int width_of(const struct bb_line *line, const struct bb_field *f)
{
    return f->width < 0 ? line->widths[-1 - f->width] : f->width;
}

/* The first column makes room for the '#' of the heading. */
static void put_column(struct bb_line *line, const struct bb_field *f, const char *text)
{
    fprintf(line->out, "%s%*s", line->n == 0 ? "" : "  ", width_of(line, f) - (line->n == 0), text);
    line->n++;
}

void bb_line_heading(struct bb_line *line, const struct bb_field *fields, bool units)
{
    if (line->n == 0)
        fputc('#', line->out);
    for (; !is_end(fields); fields++)
        if (fields->width)
            put_column(line, fields, units ? fields->unit : fields->head);
}

static void real_text(double value, int digits, int width, char *text, size_t room)
{
    for (int d = digits < 0 ? 2 : digits; d >= 0; d--)
        if (snprintf(text, room, "%.*f", d, value) <= width || digits >= 0)
            return;
    snprintf(text, room, "%.0e", value);
}

static const char *cell_text(const struct bb_line *line, const struct bb_field *f, struct bb_cell *cell, size_t room)
{
    char *text = cell->chars;

    if (cell->kind == BB_CELL_CHARS && *text)
        return text;
    if (cell->kind == BB_CELL_INT || cell->kind == BB_CELL_BOOL)
        snprintf(text, room, "%lld", cell->integer);
    else if ((cell->kind == BB_CELL_REAL || cell->kind == BB_CELL_STATS) && isfinite(cell->real))
        real_text(cell->real, f->digits, width_of(line, f), text, room);
    else
        return cell->text ? cell->text : line->none ? line->none : "-";
    return text;
}

void bb_line_row(struct bb_line *line, const struct bb_field *fields, const void *row)
{
    if (line->n == 0)
        fputc(' ', line->out);
    for (; !is_end(fields); fields++)
        if (fields->width) {
            struct bb_cell cell = cell_of(fields, row);
            put_column(line, fields, cell_text(line, fields, &cell, sizeof cell.chars));
        }
}

void bb_line_end(struct bb_line *line)
{
    fputc('\n', line->out);
    line->n = 0;
}

int bb_line_width(const struct bb_line *line, const struct bb_field *fields)
{
    int width = 0;

    for (; !is_end(fields); fields++)
        width += fields->width ? 2 + width_of(line, fields) : 0;
    return width;
}

void bb_table_heading(FILE *out, const struct bb_field *fields)
{
    struct bb_line line = {.out = out};

    for (int units = 0; out && units <= 1; units++) {
        bb_line_heading(&line, fields, units);
        bb_line_end(&line);
    }
}

void bb_table_row(FILE *out, const struct bb_field *fields, const void *row)
{
    struct bb_line line = {.out = out};

    if (!out)
        return;
    bb_line_row(&line, fields, row);
    bb_line_end(&line);
    fflush(out);
}

/* ---- JSON ---- */

static json_t *cell_json(const struct bb_cell *cell)
{
    switch (cell->kind) {
    case BB_CELL_TEXT:
        return cell->text ? json_string(cell->text) : json_null();
    case BB_CELL_CHARS:
        return *cell->chars ? json_string(cell->chars) : json_null();
    case BB_CELL_INT:
        return json_integer(cell->integer);
    case BB_CELL_REAL:
        return bb_json_real(cell->real);
    case BB_CELL_BOOL:
        return json_boolean(cell->integer);
    case BB_CELL_STATS:
        return bb_json_stats(cell->stats);
    case BB_CELL_JSON:
        return cell->json;
    case BB_CELL_NONE:
    case BB_CELL_ABSENT:
        break;
    }
    return json_null();
}

int bb_table_json(json_t *object, const struct bb_field *fields, const void *row)
{
    for (; !is_end(fields); fields++) {
        struct bb_cell cell = {.kind = BB_CELL_ABSENT};

        if (fields->key)
            cell = cell_of(fields, row);
        if (cell.kind != BB_CELL_ABSENT && json_object_set_new(object, fields->key, cell_json(&cell)) != 0)
            return bb_err(BB_EFAIL, "no memory for a row of results");
    }
    return 0;
}
