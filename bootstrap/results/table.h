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

enum bb_cell_kind {
    BB_CELL_NONE,   /* null; in the text `text`, or what the line has for it            */
    BB_CELL_ABSENT, /* the same, but not in the JSON                                    */
    BB_CELL_TEXT,   /* NULL is none                                                     */
    BB_CELL_CHARS,  /* text of its own; "" is none                                      */
    BB_CELL_INT,
    BB_CELL_REAL, /* NaN and infinity are none                                        */
    BB_CELL_BOOL,
    BB_CELL_STATS, /* the text has the median                                          */
    BB_CELL_JSON,  /* a value that is taken over; not for the text                     */
};

/* The value of one field. */
struct bb_cell {
    enum bb_cell_kind kind;
    const char *text;
    char chars[40];
    long long integer;
    double real;
    const struct bb_stats *stats;
    json_t *json;
};
#define BB_NONE_AS(shown) ((struct bb_cell){.kind = BB_CELL_NONE, .text = (shown)})
#define BB_TEXT(value)    ((struct bb_cell){.kind = BB_CELL_TEXT, .text = (value)})
#define BB_INT(value)     ((struct bb_cell){.kind = BB_CELL_INT, .integer = (long long)(value)})
#define BB_REAL(value)    ((struct bb_cell){.kind = BB_CELL_REAL, .real = (value)})
#define BB_JSON(value)    ((struct bb_cell){.kind = BB_CELL_JSON, .json = (value)})

/* Types of the members that a field can show. */
enum bb_member {
    BB_MEMBER_NONE,
    BB_MEMBER_TEXT,  /* const char *                  */
    BB_MEMBER_CHARS, /* char []                       */
    BB_MEMBER_INT,
    BB_MEMBER_LONG,
    BB_MEMBER_SIZE,
    BB_MEMBER_COUNT, /* unsigned long long            */
    BB_MEMBER_KNOWN, /* long long; below 0 is none    */
    BB_MEMBER_REAL,
    BB_MEMBER_BOOL,
    BB_MEMBER_STATS, /* of no samples is none         */
};

struct bb_field {
    const char *key;         /* in JSON, with its unit; NULL: not there                              */
    const char *head, *unit; /* in the heading                                                        */
    int width;               /* 0: not in the text; below 0: -1 - width is the place in the line's widths */
    int digits;              /* behind the point, or BB_DIGITS_THAT_FIT                                  */
    enum bb_member member;
    size_t offset;
    struct bb_cell (*value)(const void *row);
};
enum { BB_DIGITS_THAT_FIT = -1 }; /* two at most */

#define BB_SHOWS(type, name)                                                                                           \
    .member = _Generic(((type *)0)->name,                                                                              \
        const char *: BB_MEMBER_TEXT,                                                                                  \
        char *: BB_MEMBER_CHARS,                                                                                       \
        int: BB_MEMBER_INT,                                                                                            \
        long: BB_MEMBER_LONG,                                                                                          \
        unsigned long: BB_MEMBER_SIZE,                                                                                 \
        unsigned long long: BB_MEMBER_COUNT,                                                                           \
        long long: BB_MEMBER_KNOWN,                                                                                    \
        double: BB_MEMBER_REAL,                                                                                        \
        bool: BB_MEMBER_BOOL,                                                                                          \
        struct bb_stats: BB_MEMBER_STATS),                                                                             \
    .offset = offsetof(type, name)

/* Text goes to out; NULL: none. The heading is a comment of two lines. */
void bb_table_heading(FILE *out, const struct bb_field *fields);
void bb_table_row(FILE *out, const struct bb_field *fields, const void *row);

/* bb_table_json - the fields into an object. Returns 0 or -BB_EFAIL (no memory, also when object is NULL). */
int bb_table_json(json_t *object, const struct bb_field *fields, const void *row) BB_MUST_CHECK;

/* A line of text that shows several lists of fields, one behind the other. Zeroed but for out it is empty. */
struct bb_line {
    FILE *out;
    const int *widths; /* that fields name                         */
    const char *none;  /* for values that are none; NULL: "-"      */
    int n;             /* columns so far                           */
};
void bb_line_heading(struct bb_line *line, const struct bb_field *fields, bool units);
void bb_line_row(struct bb_line *line, const struct bb_field *fields, const void *row);
void bb_line_end(struct bb_line *line);

/* bb_line_width - columns of text that a list of fields takes. */
int bb_line_width(const struct bb_line *line, const struct bb_field *fields);

#endif
