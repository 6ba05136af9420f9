/* table.c - headings, text lines and JSON objects from lists of fields. */
#include "bootstrap/results/table.h"

#include "bootstrap/results/results.h"

static bool is_end(const struct bb_field *f)
{
    return !f->key && !f->head;
}

/* ---- values of fields ---- */

static json_t *text_json(const char *text)
{
    return text && *text ? json_string(text) : json_null();
}

static json_t *integer_json(long long value)
{
    return value >= 0 ? json_integer(value) : json_null();
}

static json_t *value_of(const struct bb_field *f, const void *row)
{
    const void *at = (const char *)row + f->offset;

    switch (f->member) {
    case BB_MEMBER_NONE:
        break;
    case BB_MEMBER_TEXT:
        return text_json(*(const char *const *)at);
    case BB_MEMBER_CHARS:
        return text_json(at);
    case BB_MEMBER_INT:
        return integer_json(*(const int *)at);
    case BB_MEMBER_LONG:
        return integer_json(*(const long *)at);
    case BB_MEMBER_LONG_LONG:
        return integer_json(*(const long long *)at);
    case BB_MEMBER_BOOL:
        return json_boolean(*(const bool *)at);
    case BB_MEMBER_REAL:
        return bb_json_real(*(const double *)at);
    case BB_MEMBER_STATS:
        return ((const struct bb_stats *)at)->n ? bb_json_stats(at) : json_null();
    case BB_MEMBER_JSON:
        return *(json_t *const *)at;
    }
    return f->value ? f->value(row) : json_null();
}

/* ---- text lines ---- */

static int width_of(const struct bb_line *line, const struct bb_field *f)
{
    return f->width < 0 ? line->widths[-1 - f->width] : f->width;
}

/* Prints the text of one column. The first column is one character narrower than its width, because the line starts
 * with '#' or a blank. */
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

/* Formats a number in at most `width` characters with at most two digits after the decimal point, or, if digits >= 0,
 * with exactly that many. text: out, [capacity]. */
static void write_real(double value, int digits, int width, char *text, size_t capacity)
{
    for (int d = digits < 0 ? 2 : digits; d >= 0; d--)
        if (snprintf(text, capacity, "%.*f", d, value) <= width || digits >= 0)
            return;
    snprintf(text, capacity, "%.0e", value);
}

static void write_value(const struct bb_line *line, const struct bb_field *f, json_t *value, char *text,
                        size_t capacity)
{
    const json_t *shown = json_is_object(value) ? json_object_get(value, "p50") : value;

    if (json_is_string(shown))
        snprintf(text, capacity, "%s", json_string_value(shown));
    else if (json_is_integer(shown))
        snprintf(text, capacity, "%lld", json_integer_value(shown));
    else if (json_is_real(shown))
        write_real(json_real_value(shown), f->digits, width_of(line, f), text, capacity);
    else
        snprintf(text, capacity, "%s", f->none ? f->none : line->none ? line->none : "-");
}

void bb_line_row(struct bb_line *line, const struct bb_field *fields, const void *row)
{
    char text[64];

    if (line->n == 0)
        fputc(' ', line->out);
    for (; !is_end(fields); fields++)
        if (fields->width) {
            json_t *value = value_of(fields, row);

            write_value(line, fields, value, text, sizeof text);
            put_column(line, fields, text);
            json_decref(value);
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

/* ---- JSON objects ---- */

void bb_table_json(json_t *object, const struct bb_field *fields, const void *row)
{
    for (; !is_end(fields); fields++)
        if (fields->key)
            (void)!json_object_set_new(object, fields->key, value_of(fields, row)); /* a NULL value adds no key */
}
