/*
 * json_read.h - fields of JSON files, by tables: a row is a key, what stands there and where it goes. Whatever is
 * missing or wrong is said in one line that begins with `where`, the name or path of the file, and is -BB_EUSAGE.
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
#include <stddef.h>
#include <stdio.h>

/* What the field at `offset` is. */
enum bb_json_kind {
    BB_JSON_WHOLE,        /* int, a whole number from min to max                */
    BB_JSON_NUMBER,       /* double, from min, to max where that is above 0     */
    BB_JSON_TEXT,         /* const char *, lives as long as the JSON            */
    BB_JSON_NUMBERS,      /* double[n], a list of exactly n numbers from 0      */
    BB_JSON_TOTAL,        /* double, found before: the file must state the same */
    BB_JSON_COUNT_TOTAL,  /* size_t, likewise                                   */
    BB_JSON_COUNT_TOTALS, /* size_t[n], likewise, as a list                     */
    BB_JSON_ANY,          /* none: the key is known, and that is all            */
    BB_JSON_KINDS         /* proxies/models/model_file.h goes on from here      */
};

struct bb_json_field {
    const char *key; /* "gbps", or "intra.gbps" in the object "intra"; NULL ends a table */
    int kind;
    size_t offset;
    double min, max; /* of numbers                                                       */
    int n;           /* of lists                                                         */
};

#define BB_FIELD(dotted, what, where, ...)                                                                             \
    {                                                                                                                  \
        .key = dotted, .kind = what, .offset = where, __VA_ARGS__                                                      \
    }

/* bb_json_load - a whole file, parsed with jansson's flags: *root is new, NULL after an error. */
int bb_json_load(const char *path, size_t flags, json_t **root) BB_MUST_CHECK;
/* Its two steps. _open: *file is to be closed, NULL after an error; _load_from: the rest of an open file, path for
 * messages. */
int bb_json_open(const char *path, FILE **file) BB_MUST_CHECK;
int bb_json_load_from(FILE *file, const char *path, size_t flags, json_t **root) BB_MUST_CHECK;

/* bb_json_read - fills the struct at `into`, row by row. _read_field: one row. */
int bb_json_read(const json_t *object, const char *where, const struct bb_json_field *fields, void *into) BB_MUST_CHECK;
int bb_json_read_field(const json_t *object, const char *where, const struct bb_json_field *field,
                       void *into) BB_MUST_CHECK;

/* bb_json_reject_unknown - keys that are no row's, with the nearest that is. prefix: the object's own key, "" at the
 * top, where keys that begin with '_' are comments. */
int bb_json_reject_unknown(const json_t *object, const char *where, const struct bb_json_field *fields,
                           const char *prefix) BB_MUST_CHECK;

/* Single values. _holder: the object and the last part of a key with dots. _list_at: of exactly n elements (n < 0: of 1
 * to -n); n_found may be NULL. */
int bb_json_find_parent(const json_t *object, const char *where, const char *path, const json_t **parent,
                   const char **key) BB_MUST_CHECK;
int bb_json_number_at(const json_t *object, const char *key, const char *where, double min, double *out) BB_MUST_CHECK;
int bb_json_text_at(const json_t *object, const char *key, const char *where, const char **out) BB_MUST_CHECK;
int bb_json_object_at(const json_t *object, const char *key, const char *where, json_t **out) BB_MUST_CHECK;
int bb_json_list_at(const json_t *object, const char *key, const char *where, int n, const json_t **list,
                    int *n_found) BB_MUST_CHECK;
int bb_json_numbers_at(const json_t *object, const char *key, const char *where, int n, double *numbers) BB_MUST_CHECK;

/* bb_json_check_total - the total `what` is given as `given` and must be `made`. */
int bb_json_check_total(const char *where, const char *what, double given, double computed) BB_MUST_CHECK;

#endif
