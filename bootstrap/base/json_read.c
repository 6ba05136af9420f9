/* json_read.c - see json_read.h. */
#include "bootstrap/base/json_read.h"

#include "bootstrap/base/alloc.h"
#include "bootstrap/base/units.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <math.h>
#include <poll.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define KEY_TEXT  96
#define MAX_NAMES 64

int bb_json_load_from(FILE *file, const char *path, json_t **root)
{
    json_error_t error;

    *root = json_loadf(file, JSON_REJECT_DUPLICATES, &error);
    return *root ? 0 : bb_err(BB_EUSAGE, "%s: not JSON: line %d: %s", path, error.line, error.text);
}

/* Returns whether a pipe has data, or a process that writes to it. fd: non-blocking. */
static bool has_writer(int fd, char *first, ssize_t *n)
{
    struct pollfd p = {.fd = fd, .events = POLLIN};

    if (poll(&p, 1, 0) > 0)
        return true;
    *n = read(fd, first, 1); /* 0: no process has opened it for writing; EAGAIN: a writer without data yet */
    return *n != 0;
}

/* Waits until a pipe has a writer, at most WRITER_MS. The data that arrives in between is pushed back to `file`. */
static bool await_writer(int fd, FILE *file)
{
    enum { WRITER_MS = 2000, POLL_MS = 10 };
    ssize_t n = -1;
    char first;

    for (int ms = 0; ms < WRITER_MS; ms += POLL_MS) {
        if (has_writer(fd, &first, &n))
            return n < 1 || ungetc(first, file) >= 0;
        (void)poll(NULL, 0, POLL_MS);
    }
    return false;
}

/* Skips the byte order mark of UTF-8, which Windows tools write. Returns false if the file begins with that of UTF-16. */
static bool skip_byte_order_mark(FILE *file)
{
    static const int mark[] = {0xef, 0xbb, 0xbf};
    int byte = 0, n = 0;

    while (n < 3 && (byte = getc(file)) == mark[n])
        n++;
    if (n < 3 && byte != EOF)
        (void)ungetc(byte, file);
    while (n < 3 && n-- > 0) /* another text that begins like the mark */
        (void)ungetc(mark[n], file);
    return byte != 0xfe && byte != 0xff;
}

FILE *bb_input_open(const char *path, const char **problem)
{
    const bool is_stdin = strcmp(path, "-") == 0;
    /* O_NONBLOCK: opening a FIFO would otherwise wait for a writer, without end if there is none */
    const int fd = is_stdin ? dup(STDIN_FILENO) : open(path, O_RDONLY | O_NONBLOCK | O_CLOEXEC);
    FILE *file = fd < 0 ? NULL : fdopen(fd, "r");
    struct stat found = {0};

    *problem = NULL;
    if (!file || fstat(fd, &found) != 0)
        *problem = strerror(errno);
    else if (S_ISDIR(found.st_mode))
        *problem = "is a folder, expected a file";
    else if (!is_stdin && S_ISFIFO(found.st_mode) && !await_writer(fd, file))
        *problem = "is a pipe to which no process writes";
    else if (!is_stdin && fcntl(fd, F_SETFL, 0) != 0)
        *problem = strerror(errno);
    else if (!skip_byte_order_mark(file)) {
        *problem = "is UTF-16, expected UTF-8; to convert it: iconv -f UTF-16 -t UTF-8";
        errno = EILSEQ;
    }
    if (!*problem)
        return file;
    if (file)
        fclose(file);
    else if (fd >= 0)
        close(fd);
    return NULL;
}

int bb_json_load(const char *path, json_t **root)
{
    const char *problem;
    FILE *file = bb_input_open(path, &problem);
    int rc;

    *root = NULL;
    if (!file)
        return bb_err(errno == ENOMEM ? BB_EFAIL : BB_EUSAGE, "%s: %s", path, problem);
    rc = bb_json_load_from(file, path, root);
    fclose(file);
    return rc;
}

static void blank_member(json_t *object, const char *key, json_t *value)
{
    char *name = bb_copy_text(key);

    bb_json_blank(value);
    if (bb_blank_controls(name)) {
        json_object_set(object, name, value);
        json_object_del(object, key);
    }
    free(name);
}

void bb_json_blank(json_t *value)
{
    const char *key;
    json_t *member;
    void *next;
    size_t i;

    json_array_foreach(value, i, member)
    {
        bb_json_blank(member);
    }
    json_object_foreach_safe(value, next, key, member)
    {
        blank_member(value, key, member);
    }
    if (json_is_string(value)) {
        char *text = bb_copy_text(json_string_value(value));

        if (bb_blank_controls(text))
            json_string_set(value, text);
        free(text);
    }
}

/* ---- functions that read a single value ---- */

int bb_json_number_at(const json_t *object, const char *key, const char *where, double min, double *out)
{
    const json_t *value = json_object_get(object, key);

    if (json_is_string(value))
        return bb_err(BB_EUSAGE, "%s: '%s' is '%.60s', expected a number", where, key, json_string_value(value));
    if (!json_is_number(value))
        return bb_err(BB_EUSAGE, "%s: '%s' is missing or not a number", where, key);
    *out = json_number_value(value);
    if (*out < min)
        return bb_err(BB_EUSAGE, "%s: '%s' is %g, expected %g or more", where, key, *out, min);
    return 0;
}

int bb_json_text_at(const json_t *object, const char *key, const char *where, const char **out)
{
    *out = json_string_value(json_object_get(object, key));
    return *out ? 0 : bb_err(BB_EUSAGE, "%s: '%s' is missing or not a string", where, key);
}

int bb_json_object_at(const json_t *object, const char *key, const char *where, json_t **out)
{
    *out = json_object_get(object, key);
    return json_is_object(*out) ? 0 : bb_err(BB_EUSAGE, "%s: '%s' is missing or not an object", where, key);
}

int bb_json_list_at(const json_t *object, const char *key, const char *where, int n, const json_t **list, int *n_found)
{
    int found;

    *list = json_object_get(object, key);
    if (!json_is_array(*list))
        return bb_err(BB_EUSAGE, "%s: '%s' is missing or not a list", where, key);
    found = (int)json_array_size(*list);
    if (n >= 0 ? found != n : found < 1 || found > -n)
        return bb_err(BB_EUSAGE, "%s: '%s' has %d element%s, expected %s%d", where, key, found, bb_plural(found),
                      n < 0 ? "1 to " : "", n < 0 ? -n : n);
    if (n_found)
        *n_found = found;
    return 0;
}

int bb_json_numbers_at(const json_t *object, const char *key, const char *where, int n, double *numbers)
{
    const json_t *list;
    int rc = bb_json_list_at(object, key, where, n, &list, NULL);

    for (int i = 0; rc == 0 && i < n; i++) {
        const json_t *value = json_array_get(list, (size_t)i);

        numbers[i] = json_number_value(value);
        if (!json_is_number(value) || numbers[i] < 0)
            rc = bb_err(BB_EUSAGE, "%s: element %d of '%s' is not a number >= 0", where, i, key);
    }
    return rc;
}

int bb_json_check_total(const char *where, const char *what, double given, double computed)
{
    if (given == computed)
        return 0;
    return bb_err(BB_EUSAGE, "%s: the total '%s' is %.0f, but its parts add up to %.0f", where, what, given, computed);
}

int bb_json_find_parent(const json_t *object, const char *where, const char *path, const json_t **parent,
                        const char **key)
{
    char name[KEY_TEXT];
    const char *dot;
    int rc = 0;

    *parent = object;
    for (*key = path; (dot = strchr(*key, '.')); *key = dot + 1) {
        json_t *inner;

        snprintf(name, sizeof(name), "%.*s", (int)(dot - *key), *key);
        TRY(bb_json_object_at(*parent, name, where, &inner));
        *parent = inner;
    }
out:
    return rc;
}

/* ---- values described by a table of struct bb_json_field ---- */

/* Reads a number and checks the upper limit f->max. A whole number always has a limit; for other numbers, max 0
 * means no limit. */
static int read_number(const json_t *object, const char *key, const char *where, const struct bb_json_field *f,
                       double *out)
{
    const bool is_whole = f->kind == BB_JSON_WHOLE;
    int rc = bb_json_number_at(object, key, where, f->min, out);

    if (rc)
        return rc;
    if (is_whole && (*out > f->max || *out != floor(*out)))
        return bb_err(BB_EUSAGE, "%s: '%s' is %g, expected a whole number up to %.0f", where, key, *out, f->max);
    if (!is_whole && f->max > 0 && *out > f->max)
        return bb_err(BB_EUSAGE, "%s: '%s' is %g, expected at most %g", where, key, *out, f->max);
    return 0;
}

static int check_total(const json_t *object, const char *key, const char *where, double computed)
{
    double given;
    int rc = bb_json_number_at(object, key, where, 0, &given);

    return rc ? rc : bb_json_check_total(where, key, given, computed);
}

static int check_totals(const json_t *object, const char *key, const char *where, int n, const size_t *computed)
{
    const json_t *list;
    int rc = bb_json_list_at(object, key, where, n, &list, NULL);

    for (int i = 0; rc == 0 && i < n; i++)
        rc = bb_json_check_total(where, key, json_number_value(json_array_get(list, (size_t)i)), (double)computed[i]);
    return rc;
}

int bb_json_read_field(const json_t *object, const char *where, const struct bb_json_field *f, void *into)
{
    void *at = (char *)into + f->offset;
    char location[PATH_MAX + KEY_TEXT];
    const char *key;
    double number;
    int rc;

    if (f->kind == BB_JSON_ANY)
        return 0;
    rc = bb_json_find_parent(object, where, f->key, &object, &key);
    if (rc || (f->optional && !json_object_get(object, key)))
        return rc;
    if (key != f->key) { /* f->key is a dotted path such as "intra.gbps", and key is its last part "gbps"; error
                            messages then also contain the path of the inner object ("intra") */
        snprintf(location, sizeof(location), "%s: %.*s", where, (int)(key - f->key - 1), f->key);
        where = location;
    }
    switch (f->kind) {
    case BB_JSON_WHOLE:
        rc = read_number(object, key, where, f, &number);
        if (rc == 0)
            *(int *)at = (int)number;
        return rc;
    case BB_JSON_NUMBER:
        return read_number(object, key, where, f, at);
    case BB_JSON_TEXT:
        return bb_json_text_at(object, key, where, at);
    case BB_JSON_NUMBERS:
        return bb_json_numbers_at(object, key, where, f->n, at);
    case BB_JSON_TOTAL:
        return check_total(object, key, where, *(const double *)at);
    case BB_JSON_COUNT_TOTAL:
        return check_total(object, key, where, (double)*(const size_t *)at);
    default: /* BB_JSON_COUNT_TOTALS */
        return check_totals(object, key, where, f->n, at);
    }
}

int bb_json_read(const json_t *object, const char *where, const struct bb_json_field *fields, void *into)
{
    int rc = 0;

    for (; fields->key && rc == 0; fields++)
        rc = bb_json_read_field(object, where, fields, into);
    return rc;
}

/* ---- rejection of unknown keys ---- */

/* Returns the length of the beginning of `key` that has as many components (separated by dots) as `path`. */
static size_t length_at_depth(const char *key, const char *path)
{
    size_t n = strcspn(key, ".");

    for (; (path = strchr(path, '.')) && key[n]; path++)
        n += 1 + strcspn(key + n + 1, ".");
    return n;
}

/* Returns the key in the same object as `path` that contains the letters of the last key of `path` in their order:
 * tflops.bfloat16 for tflops.bf16; NULL: none, or several. */
static const char *find_ending(const char *path, const char *const *keys, size_t n)
{
    const char *dot = strrchr(path, '.'), *found = NULL;
    const size_t parent = dot ? (size_t)(dot + 1 - path) : 0;

    for (size_t i = 0; i < n; i++) {
        const char *letter = path + parent, *at = keys[i] + parent;

        if (strlen(keys[i]) <= parent || strncmp(keys[i], path, parent) != 0 || *letter != *at)
            continue;
        for (; *at; at++)
            letter += *letter && *letter == *at;
        if (*letter == '\0' && found && strcmp(found, keys[i]) != 0)
            return NULL;
        found = *letter == '\0' ? keys[i] : found;
    }
    return found;
}

static int reject_key(const char *where, const char *path, const struct bb_json_field *fields)
{
    enum { MOST_LISTED = 8 };
    char names[MAX_NAMES][KEY_TEXT], list[MOST_LISTED * (KEY_TEXT + 1) + 1] = "";
    const char *candidates[MAX_NAMES] = {0}, *near;
    size_t n = 0, used = 0;

    for (; fields->key && n < MAX_NAMES; fields++, n++) {
        snprintf(names[n], KEY_TEXT, "%.*s", (int)length_at_depth(fields->key, path), fields->key);
        candidates[n] = names[n];
    }
    near = bb_nearest_word(path, candidates, n);
    near = near ? near : find_ending(path, candidates, n);
    for (size_t i = 0; n <= MOST_LISTED && i < n; i++)
        used += (size_t)snprintf(list + used, sizeof(list) - used, " %s", candidates[i]);
    return near ? bb_err(BB_EUSAGE, "%s: unknown key '%s', did you mean '%s'?", where, path, near)
                : bb_err(BB_EUSAGE, "%s: unknown key '%s'%s%s", where, path, used ? ", expected one of:" : "", list);
}

int bb_json_reject_unknown(const json_t *object, const char *where, const struct bb_json_field *fields,
                           const char *prefix)
{
    const struct bb_json_field *row;
    char path[KEY_TEXT];
    const char *key;
    json_t *value;
    size_t n;
    int rc = 0;

    json_object_foreach((json_t *)object, key, value)
    {
        if (!*prefix && key[0] == '_')
            continue;
        snprintf(path, sizeof(path), "%s%s%s", prefix, *prefix ? "." : "", key);
        n = strlen(path);
        for (row = fields; row->key; row++) /* a row for the value, or for a value inside the object */
            if (strncmp(row->key, path, n) == 0 && (row->key[n] == '\0' || row->key[n] == '.'))
                break;
        if (!row->key)
            return reject_key(where, path, fields);
        if (json_is_object(value) && row->key[n])
            TRY(bb_json_reject_unknown(value, where, fields, path));
    }
out:
    return rc;
}
