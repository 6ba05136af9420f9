/*
 * json_read.h - reads JSON objects into C structs by tables. Each row of a table names a key, the type of its value and
 * the field of the struct that receives the value.
 *
 * Functions that return int return 0, or -BB_EUSAGE after printing one error line that begins with `where`, the name or
 * path of the file.
 *
 *   static const struct bb_json_field fields[] = {
 *       BB_FIELD("gpus_per_node", BB_JSON_WHOLE, offsetof(struct cluster, gpus_per_node), .min = 1, .max = 1e9),
 *       BB_FIELD("intra.gbps", BB_JSON_NUMBER, offsetof(struct cluster, intra.gbps)),
 *       {0}};
 */
#ifndef BB_BOOTSTRAP_BASE_JSON_READ_H
#define BB_BOOTSTRAP_BASE_JSON_READ_H

#include "bootstrap/base/err.h"

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>

/* Type of the JSON value, and type of the C field that receives the value. */
enum bb_json_kind {
    BB_JSON_WHOLE,   /* int: a whole number from min to max */
    BB_JSON_NUMBER,  /* double: at least min, and at most max if max > 0 */
    BB_JSON_TEXT,    /* const char *: owned by the JSON object */
    BB_JSON_NUMBERS, /* double[n]: a list of exactly bb_json_field.n numbers >= 0 */
    BB_JSON_TOTAL,   /* double: a total that the caller has already computed and stored in the struct's field; reading
                      only checks that the file has the same number */
    BB_JSON_COUNT_TOTAL,  /* size_t: a total that the caller has already computed; only compared with the file, like
                            BB_JSON_TOTAL */
    BB_JSON_COUNT_TOTALS, /* size_t[n]: n totals that the caller has already computed; only compared with the file,
                             like BB_JSON_TOTAL */
    BB_JSON_ANY,          /* the key is allowed, and its value is not read */
    BB_JSON_KINDS         /* proxies/form/models/model_file.h defines more kinds, numbered from this value */
};

struct bb_json_field {
    const char *key; /* path of the value from the top-level object: "gbps", or "intra.gbps" for the key "gbps" of
                        the object "intra"; NULL ends the table */
    int kind;
    size_t offset;
    double min, max; /* valid range of a number; enum bb_json_kind defines the meaning for each type */
    int n;           /* number of elements of a list (BB_JSON_NUMBERS, BB_JSON_COUNT_TOTALS) */
    bool optional;   /* without the key, the field of the struct stays as it is */
};

#define BB_FIELD(dotted, what, where, ...)                                                                             \
    {                                                                                                                  \
        .key = dotted, .kind = what, .offset = where, __VA_ARGS__                                                      \
    }

/*
 * bb_json_load - parse a file. An object that contains a key twice is an error.
 *   path     "-": stdin
 *   root     out: a new reference; NULL after an error
 *   Returns  0, -BB_EUSAGE, or -BB_EFAIL when the process runs out of memory
 */
int bb_json_load(const char *path, json_t **root) BB_MUST_CHECK;
/* bb_json_blank - replace control characters in all texts and keys of a value by blanks, in place. Texts of a file that
 * somebody else wrote could otherwise color or retitle the terminal that prints them. */
void bb_json_blank(json_t *value);

/*
 * bb_input_open - open a text file that the user names. A pipe (/dev/stdin, <(COMMAND), a FIFO) may deliver its data
 * later, but a FIFO to which no process writes within 2 s is an error, and so is a folder, or a file in UTF-16. The byte order mark
 * of UTF-8 is skipped.
 *   path     "-": stdin
 *   problem  out: the text of the error, valid until the next call of strerror(); errno is set
 *   Returns  the file, which the caller closes, or NULL
 * bb_json_load_from - parse an open file.
 *   path     path of the file, for messages
 */
FILE *bb_input_open(const char *path, const char **problem) BB_MUST_CHECK;
int bb_json_load_from(FILE *file, const char *path, json_t **root) BB_MUST_CHECK;

/*
 * bb_json_read - read all values that `fields` describes from `object`.
 * bb_json_read_field - read the value that `field` describes.
 *   into     struct that receives the values
 */
int bb_json_read(const json_t *object, const char *where, const struct bb_json_field *fields, void *into) BB_MUST_CHECK;
int bb_json_read_field(const json_t *object, const char *where, const struct bb_json_field *field,
                       void *into) BB_MUST_CHECK;

/*
 * bb_json_reject_unknown - check that every key of `object` is in the table `fields`. Prints an error for the first
 * unknown key, with the known key of the closest spelling.
 *   prefix   path of `object` in the file, "" for the top level; top-level keys that begin with '_' are comments
 */
int bb_json_reject_unknown(const json_t *object, const char *where, const struct bb_json_field *fields,
                           const char *prefix) BB_MUST_CHECK;

/*
 * Functions that read one value of an object.
 *   bb_json_find_parent  for a path such as "a.b.key": finds the object that contains the last key, and that key
 *   bb_json_number_at    a number of at least `min`
 *   bb_json_text_at      a string, owned by the JSON object
 *   bb_json_object_at    an object, borrowed reference
 *   bb_json_list_at      a list of exactly n elements (n >= 0) or of 1 to -n elements (n < 0); n_found (out) is the
 *                        number of elements and may be NULL
 *   bb_json_numbers_at   a list of exactly n numbers >= 0
 */
int bb_json_find_parent(const json_t *object, const char *where, const char *path, const json_t **parent,
                        const char **key) BB_MUST_CHECK;
int bb_json_number_at(const json_t *object, const char *key, const char *where, double min, double *out) BB_MUST_CHECK;
int bb_json_text_at(const json_t *object, const char *key, const char *where, const char **out) BB_MUST_CHECK;
int bb_json_object_at(const json_t *object, const char *key, const char *where, json_t **out) BB_MUST_CHECK;
int bb_json_list_at(const json_t *object, const char *key, const char *where, int n, const json_t **list,
                    int *n_found) BB_MUST_CHECK;
int bb_json_numbers_at(const json_t *object, const char *key, const char *where, int n, double *numbers) BB_MUST_CHECK;

/*
 * bb_json_check_total - check that a total in a file equals the sum computed from the file's other values.
 *   what      names the total in the message
 *   given     the total in the file
 *   computed  the computed sum
 */
int bb_json_check_total(const char *where, const char *what, double given, double computed) BB_MUST_CHECK;

#endif
