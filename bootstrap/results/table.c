/* table.c - headings, text lines and JSON objects from lists of fields. */
#include "bootstrap/results/table.h"

#include "bootstrap/base/alloc.h"
#include "bootstrap/results/results.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

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
    case BB_MEMBER_NS:
        return *(const int64_t *)at >= 0 ? json_real((double)*(const int64_t *)at / 1e3) : json_null();
    case BB_MEMBER_REAL_NS:
        return bb_json_real(*(const double *)at / 1e3);
    case BB_MEMBER_WHOLE:
        return integer_json(llround(*(const double *)at));
    }
    return f->value ? f->value(row) : json_null();
}

/* ---- text lines ---- */

enum { VALUE_TEXT = 64 }; /* at least the sizes of the texts of units.h */

static int width_of(const struct bb_line *line, const struct bb_field *f)
{
    return f->width < 0 ? line->widths[-1 - f->width] : f->width;
}

/* Prints the text of one column. Blanks at its end are printed with the next column, so that no row ends in blanks.
 * By default the line starts with '#' or a blank, and the first column is one character narrower than its width. */
static void put_column(struct bb_line *line, const struct bb_field *f, const char *text)
{
    const int width = width_of(line, f) - (line->n == 0 && !line->start);
    const char *gap = line->n++ == 0 ? "" : line->gap ? line->gap : "  ";
    char *column = bb_format("%s%*s", gap, f->form == BB_FORM_LEFT ? -width : width, text);
    int length;

    for (length = (int)strlen(column); length > 0 && column[length - 1] == ' ';)
        length--;
    if (length > 0)
        fprintf(line->out, "%*s%.*s", line->blanks, "", length, column);
    line->blanks = (length > 0 ? 0 : line->blanks) + (int)strlen(column) - length;
    free(column);
}

static void start_line(const struct bb_line *line, const char *start)
{
    if (line->n == 0)
        fputs(line->start ? line->start : start, line->out);
}

void bb_line_heading(struct bb_line *line, const struct bb_field *fields, bool units)
{
    char name[64];

    start_line(line, "#");
    for (; !is_end(fields); fields++)
        if (fields->width && units) {
            put_column(line, fields, fields->unit ? fields->unit : "");
        } else if (fields->width) {
            snprintf(name, sizeof(name), "%s%s%s", fields->head, fields->unit ? "" : " ",
                     fields->unit ? "" : line->time->name);
            put_column(line, fields, name);
        }
    fprintf(line->out, "%*s", line->blanks, "");
    line->blanks = 0;
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

static void write_number(const struct bb_line *line, const struct bb_field *f, const json_t *value, char *text,
                         size_t capacity)
{
    const double number = json_number_value(value);

    if (f->form == BB_FORM_ROUNDED || (f->form == BB_FORM_TIME && line->time && line->time->decimals < 0))
        bb_format_rounded(f->form == BB_FORM_TIME ? number / line->time->us : number, text);
    else if (f->form == BB_FORM_TIME && line->time)
        snprintf(text, capacity, "%.*f", line->time->decimals, number / line->time->us);
    else if (f->form == BB_FORM_TIME)
        bb_format_time(number, text);
    else if (f->form == BB_FORM_BYTES)
        bb_format_bytes((size_t)number, text);
    else if (f->form == BB_FORM_PERCENT)
        snprintf(text, capacity, "%.*f%%", f->digits, 100 * number);
    else if (f->form == BB_FORM_GENERAL)
        snprintf(text, capacity, "%.*g", f->digits, number);
    else if (f->form == BB_FORM_THOUSANDS)
        bb_format_thousands(number, text);
    else if (json_is_integer(value))
        snprintf(text, capacity, "%lld", json_integer_value(value));
    else
        write_real(number, f->digits, width_of(line, f), text, capacity);
}

/* text: used for numbers, [VALUE_TEXT]. Returns the text of the value; NULL for null. */
static const char *text_of(const struct bb_line *line, const struct bb_field *f, const json_t *value, char *text)
{
    const json_t *shown = json_is_object(value) ? json_object_get(value, "p50") : value;

    if (json_is_string(shown))
        return json_string_value(shown);
    if (!json_is_number(shown))
        return NULL;
    write_number(line, f, shown, text, VALUE_TEXT);
    return text;
}

void bb_line_row(struct bb_line *line, const struct bb_field *fields, const void *row)
{
    char buffer[VALUE_TEXT];

    start_line(line, " ");
    for (; !is_end(fields); fields++)
        if (fields->width) {
            json_t *value = value_of(fields, row);
            const char *text = text_of(line, fields, value, buffer);

            put_column(line, fields, text ? text : fields->none ? fields->none : line->none ? line->none : "-");
            json_decref(value);
        }
}

void bb_line_sentence(const struct bb_line *line, const struct bb_field *fields, const void *row)
{
    char buffer[VALUE_TEXT];

    for (; !is_end(fields); fields++)
        if (fields->head && !fields->width) {
            json_t *value = value_of(fields, row);
            const char *text = text_of(line, fields, value, buffer);
            const bool has_unit = fields->form == BB_FORM_TIME && line->time;

            if (text)
                fprintf(line->out, "%s%s%s%s%s%s", fields->head, text, has_unit ? " " : "",
                        has_unit ? line->time->name : "", fields->unit,
                        fields->form == BB_FORM_PLURAL && strcmp(text, "1") != 0 ? "s" : "");
            json_decref(value);
        }
}

void bb_table_sentence(FILE *out, const struct bb_field *fields, const void *row)
{
    bb_line_sentence(&(struct bb_line){.out = out}, fields, row);
}

void bb_line_end(struct bb_line *line)
{
    fputc('\n', line->out);
    line->n = line->blanks = 0;
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

json_t *bb_table_object(const struct bb_field *fields, const void *row)
{
    json_t *object = json_object();

    bb_table_json(object, fields, row);
    return object;
}

json_t *bb_table_list(const struct bb_field *fields, const void *rows, size_t n, size_t size)
{
    json_t *list = json_array();

    for (size_t i = 0; i < n; i++)
        json_array_append_new(list, bb_table_object(fields, (const char *)rows + i * size));
    return list;
}

/* ---- the fields of statistics ---- */

static json_t *interval_json(const void *stats)
{
    const double *ci95 = ((const struct bb_stats *)stats)->ci95;

    return isnan(ci95[0]) ? json_null() : json_pack("[f, f]", ci95[0], ci95[1]);
}

#define STATS(name) BB_SHOWS(struct bb_stats, name), .form = BB_FORM_TIME
const struct bb_field bb_stats_fields[] = {
    {"min", "min", "", 10, 0, STATS(min)},
    {"p50", "p50", "", 10, 0, STATS(p50)},
    {"p90", "p90", "", 10, 0, STATS(p90)},
    {"p99", "p99", "", 10, 0, STATS(p99)},
    {"max", "max", "", 10, 0, STATS(max)},
    {"mean", "mean", "", 10, 0, STATS(mean)},
    {NULL, "ci95 low", "", 10, 0, STATS(ci95[0])},
    {NULL, "ci95 high", "", 10, 0, STATS(ci95[1])},
    {"ci95", .value = interval_json},
    {0},
};
