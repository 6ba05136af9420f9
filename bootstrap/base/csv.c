/* csv.c - see csv.h. */
#include "bootstrap/base/csv.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

/* A spreadsheet computes a cell that begins with one of these characters as a formula. */
static bool is_formula(const char *text)
{
    char *end;

    if (!strchr("=+-@", text[0]) || !text[0] || !text[1])
        return false;
    (void)strtod(text, &end);
    return *end != '\0';
}

static void write_text(const char *text, FILE *out)
{
    const char *prefix = is_formula(text) ? "'" : "";

    if (text[strcspn(text, ",\"\r\n")] == '\0') {
        fprintf(out, "%s%s", prefix, text);
        return;
    }
    fprintf(out, "\"%s", prefix);
    for (; *text; text++) {
        if (*text == '"')
            fputc('"', out);
        fputc(*text, out);
    }
    fputc('"', out);
}

static void write_value(const json_t *value, FILE *out)
{
    if (json_is_string(value))
        write_text(json_string_value(value), out);
    else if (json_is_integer(value))
        fprintf(out, "%lld", (long long)json_integer_value(value));
    else if (json_is_real(value))
        fprintf(out, "%.12g", json_real_value(value));
    else if (json_is_boolean(value))
        fputs(json_is_true(value) ? "true" : "false", out);
}

static void write_row(const json_t *row, FILE *out)
{
    const json_t *value;
    size_t i;

    json_array_foreach(row, i, value)
    {
        fputs(i ? "," : "", out);
        write_value(value, out);
    }
    fputc('\n', out);
}

void bb_csv_write(const json_t *columns, const json_t *rows, FILE *out)
{
    const json_t *row;
    size_t i;

    write_row(columns, out);
    json_array_foreach(rows, i, row)
    {
        write_row(row, out);
    }
}
