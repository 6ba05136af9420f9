/*
 * table.h - a row of results, described once: a list of fields, ended by {0}, makes the heading, the text and the JSON.
 *
 * A field with a width is a column of the text, one with a key is a value of the JSON object; most are both. It shows
 * a member of the row's struct (BB_SHOWS), or what a function makes of the row (value), or, with neither, null: a place
 * kept for what is set later.
 */
#ifndef BB_BOOTSTRAP_RESULTS_TABLE_H
#define BB_BOOTSTRAP_RESULTS_TABLE_H

#include "bootstrap/base/stats.h"

#include <jansson.h>
#include <stdbool.h>
#include <stdio.h>

/*
 * Members that a field can show. Null are "" and NULL, integers below 0, NaN, infinity, and statistics of no samples.
 * The text has the median of statistics. A json_t is taken over and not for the text; NULL: the key is left out.
 */
enum bb_member {
    BB_MEMBER_NONE,
    BB_MEMBER_TEXT,
    BB_MEMBER_CHARS,
    BB_MEMBER_INT,
    BB_MEMBER_LONG,
    BB_MEMBER_LONG_LONG,
    BB_MEMBER_BOOL,
    BB_MEMBER_REAL,
    BB_MEMBER_STATS,
    BB_MEMBER_JSON
};

struct bb_field {
    const char *key;         /* in JSON, with its unit; NULL: not there                                       */
    const char *head, *unit; /* in the heading                                                                */
    int width;               /* 0: not in the text; below 0: -1 - width is the place in the line's widths     */
    int digits;              /* behind the point, or BB_DIGITS_THAT_FIT                                       */
    enum bb_member member;
    size_t offset;
    json_t *(*value)(const void *row); /* new                                                             */
    const char *none; /* the text of null; NULL: the line's                                                   */
};
enum { BB_DIGITS_THAT_FIT = -1 }; /* two at most */

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

/* BB_NAMED - a field of the JSON alone, called as its member. */
#define BB_NAMED(type, name)                                                                                           \
    {                                                                                                                  \
        .key = #name, BB_SHOWS(type, name)                                                                             \
    }

/* Text goes to out; NULL: none. The heading is a comment of two lines. */
void bb_table_heading(FILE *out, const struct bb_field *fields);
void bb_table_row(FILE *out, const struct bb_field *fields, const void *row);

/* bb_table_json - the fields into an object. Returns 0 or -BB_EFAIL (no memory, also when object is NULL). */
int bb_table_json(json_t *object, const struct bb_field *fields, const void *row) BB_MUST_CHECK;

/* A line of text that shows several lists of fields, one behind the other. Zeroed but for out it is empty. */
struct bb_line {
    FILE *out;
    const int *widths; /* that fields name                         */
    const char *none;  /* the text of null; NULL: "-"              */
    int n;             /* columns so far                           */
};
void bb_line_heading(struct bb_line *line, const struct bb_field *fields, bool units);
void bb_line_row(struct bb_line *line, const struct bb_field *fields, const void *row);
void bb_line_end(struct bb_line *line);

/* bb_line_width - columns of text that a list of fields takes. */
int bb_line_width(const struct bb_line *line, const struct bb_field *fields);

#endif
