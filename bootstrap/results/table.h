/*
 * table.h - declarative description of a result row: one list of fields, ended by {0}, yields the heading, the text
 * line or sentence, and the JSON object of the row.
 *
 * A field with a width is a column of the text, a field with a heading and no width is a part of a sentence, and a
 * field with a key is a value of the JSON object; most fields are in the text and in the JSON. The value of a field is
 * a member of the row's struct (BB_SHOWS), or the result of the function `value`, which is called with the row. A field
 * without a member and without a function has the value null; such a field reserves the position of its key in the JSON
 * object, and the caller sets the value later.
 */
#ifndef BB_BOOTSTRAP_RESULTS_TABLE_H
#define BB_BOOTSTRAP_RESULTS_TABLE_H

#include "bootstrap/base/stats.h"
#include "bootstrap/base/units.h"

#include <jansson.h>
#include <stdbool.h>
#include <stdio.h>

/*
 * Type of the struct member that a field shows. The following values become null: "" and NULL, integers below 0, NaN,
 * infinity, and statistics without samples. The text column of a bb_stats member shows the median. A json_t member is
 * consumed by bb_table_json and cannot be shown as text; if it is NULL, its key is omitted. The members NS are times in
 * nanoseconds, and microseconds in text and JSON. WHOLE is a whole number that is stored as a double.
 */
enum bb_field_member {
    BB_MEMBER_NONE,
    BB_MEMBER_TEXT,
    BB_MEMBER_CHARS,
    BB_MEMBER_INT,
    BB_MEMBER_LONG,
    BB_MEMBER_LONG_LONG,
    BB_MEMBER_BOOL,
    BB_MEMBER_REAL,
    BB_MEMBER_STATS,
    BB_MEMBER_JSON,
    BB_MEMBER_NS,
    BB_MEMBER_REAL_NS,
    BB_MEMBER_WHOLE
};

/* How the text shows a value. */
enum bb_form {
    BB_FORM_PLAIN,     /* a number with bb_field.digits, or a text */
    BB_FORM_LEFT,      /* as BB_FORM_PLAIN, in a column that is aligned left */
    BB_FORM_TIME,      /* microseconds as a number in the unit bb_line.time, in a sentence followed by the unit's
                          name; without bb_line.time as "12.346 ms" */
    BB_FORM_ROUNDED,   /* a number with three significant digits (bb_format_rounded) */
    BB_FORM_BYTES,     /* bytes as "4 KiB" */
    BB_FORM_PERCENT,   /* a fraction as "72.5%" with bb_field.digits */
    BB_FORM_THOUSANDS, /* "1,234,567" */
    BB_FORM_GENERAL,   /* a number with bb_field.digits significant digits (printf's %g) */
    BB_FORM_PLURAL     /* a count in a sentence: "1 rank", "2 ranks" with the unit " rank" */
};

struct bb_field {
    const char *key;         /* JSON key, ends in the unit; NULL: not in the JSON */
    const char *head, *unit; /* the two lines of the column heading: name and unit (NULL: the name is followed by the
                                name of the unit bb_line.time). In a sentence: the text before and after the value */
    int width;               /* width of the text column in characters; 0: not in the text; -1, -2, ...: the width is
                  bb_line.widths[0], [1], ... */
    int digits;              /* digits after the decimal point, or BB_DIGITS_THAT_FIT */
    enum bb_field_member member;
    size_t offset;
    json_t *(*value)(const void *row); /* used if the field has no member: computes the value and returns a new
                                          reference */
    const char *none;                  /* text of the column for null; NULL: bb_line.none is used */
    enum bb_form form;
};
enum { BB_DIGITS_THAT_FIT = -1 }; /* as many digits as fit into the width, at most two */

#define BB_SHOWS(type, name)                                                                                           \
    .member = _Generic(((type *)0)->name,                                                                              \
        const char *: BB_MEMBER_TEXT,                                                                                  \
        char *: BB_MEMBER_CHARS,                                                                                       \
        int: BB_MEMBER_INT,                                                                                            \
        long: BB_MEMBER_LONG,                                                                                          \
        unsigned long: BB_MEMBER_LONG,                                                                                 \
        long long: BB_MEMBER_LONG_LONG,                                                                                \
        bool: BB_MEMBER_BOOL,                                                                                          \
        double: BB_MEMBER_REAL,                                                                                        \
        struct bb_stats: BB_MEMBER_STATS,                                                                              \
        json_t *: BB_MEMBER_JSON),                                                                                     \
    .offset = offsetof(type, name)
#define BB_SHOWS_NS(type, name)                                                                                        \
    .member = _Generic(((type *)0)->name, int64_t                                                                      \
                       : BB_MEMBER_NS, double                                                                          \
                       : BB_MEMBER_REAL_NS),                                                                           \
    .offset = offsetof(type, name), .form = BB_FORM_TIME
#define BB_SHOWS_WHOLE(type, name) .member = BB_MEMBER_WHOLE, .offset = offsetof(type, name)

/* BB_NAMED - define a field that is only in the JSON, under the name of its struct member. */
#define BB_NAMED(type, name)                                                                                           \
    {                                                                                                                  \
        .key = #name, BB_SHOWS(type, name)                                                                             \
    }

/*
 * bb_table_heading - print the two comment lines above the table: names and units of the columns.
 * bb_table_row - print one row of the table.
 * Both functions: print nothing if `out` is NULL.
 */
void bb_table_heading(FILE *out, const struct bb_field *fields);
void bb_table_row(FILE *out, const struct bb_field *fields, const void *row);

/* bb_table_sentence - print the parts of a sentence: head, value and unit of each field that has a head and no width. A
 * part whose value is null is omitted.
 * bb_line_sentence - the same for a line (struct bb_line below), whose unit bb_line.time all times have. */
void bb_table_sentence(FILE *out, const struct bb_field *fields, const void *row);
struct bb_line;
void bb_line_sentence(const struct bb_line *line, const struct bb_field *fields, const void *row);

/* bb_table_json - add the fields of a row to a JSON object.
 * bb_table_object - return a new JSON object with the fields of a row.
 * bb_table_list - return a new JSON list with one object per row. rows: array of n structs of `size` bytes each. */
void bb_table_json(json_t *object, const struct bb_field *fields, const void *row);
json_t *bb_table_object(const struct bb_field *fields, const void *row);
json_t *bb_table_list(const struct bb_field *fields, const void *rows, size_t n, size_t size);

/* bb_stats_fields - fields of a struct bb_stats whose values are times in us: its JSON (bb_json_stats) and the columns
 * of a table of times. */
extern const struct bb_field bb_stats_fields[];

/* A text line that is printed from several lists of fields, one after the other. A struct that is zero except for `out`
 * is an empty line. */
struct bb_line {
    FILE *out;
    const int *widths; /* widths of the columns whose bb_field.width is negative; may be NULL */
    const char *none;  /* text printed for null; NULL: "-" */
    /* start: text before the first column; NULL: '#' or a blank, and the first column is one character narrower. gap:
     * text between two columns; NULL: two blanks */
    const char *start, *gap;
    const struct bb_time_unit *time; /* unit of BB_FORM_TIME; NULL: every time has its own unit */
    int n;                           /* number of columns printed so far in this line */
    int blanks;                      /* blanks at the end of the last column, printed with the next column */
};

/* bb_line_heading - print the headings of a list of fields; units: false: the names, true: the units.
 * bb_line_row - print the values of a list of fields. bb_line_end - end the line; the struct is then an empty line. */
void bb_line_heading(struct bb_line *line, const struct bb_field *fields, bool units);
void bb_line_row(struct bb_line *line, const struct bb_field *fields, const void *row);
void bb_line_end(struct bb_line *line);

/* bb_line_width - return the total width of the columns of a list of fields, in characters. */
int bb_line_width(const struct bb_line *line, const struct bb_field *fields);

#endif
