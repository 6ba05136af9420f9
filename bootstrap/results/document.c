/* document.c - writes the JSON results document, whose text consists of head, rows and tail (document.h). */
#include "bootstrap/results/document.h"

#include "bootstrap/base/alloc.h"
#include "bootstrap/base/clock.h"
#include "bootstrap/results/results.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static const double SHARE = 20; /* save() delays changes other than rows, so that writing them takes at most 1/SHARE of
                                   the run's time */
static const size_t FORMAT = JSON_INDENT(1) | JSON_REAL_PRECISION(12);
#define WRITE_ERROR "cannot write the results: %s: %s"

/* ---- JSON text ---- */

static void reserve_text(struct bb_document *d, size_t bytes)
{
    if (bytes <= d->capacity)
        return;
    d->capacity = 2 * bytes;
    d->text = bb_resize(d->text, d->capacity, 1);
}

/* Replaces `old` bytes of the text at offset `at` by the n bytes at `by`. */
static void replace_text(struct bb_document *d, size_t at, size_t old, const char *by, size_t n)
{
    reserve_text(d, d->bytes + n);
    memmove(d->text + at + n, d->text + at + old, d->bytes - at - old);
    memcpy(d->text + at, by, n);
    d->bytes = d->bytes - old + n;
}

/* Returns the offset of the tail in the text. If there are rows, "\n " is between the last row and the tail. */
static size_t tail_at(const struct bb_document *d)
{
    return d->rows_end > d->rows_at ? d->rows_end + strlen("\n ") : d->rows_end;
}

/* Generates the JSON text of head and tail from root, and replaces the old head and tail in the document's text. */
static void render_fields(struct bb_document *d)
{
    static const char list[] = "\n \"results\": ["; /* strings contain no raw line breaks, so this occurs only once */
    json_t *status = json_incref(json_object_get(d->root, "status"));
    char *text, *at;
    size_t head_bytes, bytes;

    if (json_object_del(d->root, "status") == 0)
        (void)!json_object_set_new(d->root, "status", status); /* moves the status to the end */
    text = json_dumps(d->root, FORMAT);
    bytes = strlen(text);
    at = strstr(text, list);
    head_bytes = at ? (size_t)(at - text) + strlen(list) : bytes;
    text[bytes++] = '\n'; /* replaces the terminating zero */
    replace_text(d, tail_at(d), d->bytes - tail_at(d), text + head_bytes, bytes - head_bytes);
    if (head_bytes != d->rows_at || memcmp(text, d->text, head_bytes) != 0) {
        replace_text(d, 0, d->rows_at, text, head_bytes);
        d->rows_end = d->rows_end - d->rows_at + head_bytes;
        d->rows_at = head_bytes;
        d->saved = 0;
    }
    free(text);
}

/* ---- writing the file ---- */

static int write_at(int fd, const char *text, size_t bytes, off_t at)
{
    while (bytes > 0) {
        ssize_t n = pwrite(fd, text, bytes, at);

        if (n < 0 && errno == EINTR)
            continue;
        if (n <= 0)
            return n < 0 ? errno : EIO;
        text += n;
        bytes -= (size_t)n;
        at += n;
    }
    return 0;
}

/* Writes the whole document to a new file, which replaces the previous one. Returns 0 or errno; on failure the previous
 * file remains in use. */
static int make_file(struct bb_document *d, const char *path)
{
    struct bb_outfile file;
    int error = bb_outfile_create(&file, path, 0600);

    if (error)
        return error;
    (void)fwrite(d->text, 1, d->bytes, file.out); /* bb_outfile_publish returns the error */
    error = bb_outfile_publish(&file);
    if (error) {
        (void)bb_outfile_close(&file, "results", -BB_EFAIL);
        return error;
    }
    if (d->file.out)
        (void)bb_outfile_close(&d->file, "results", -BB_EFAIL);
    d->file = file;
    d->saved = d->rows_end;
    d->end = d->bytes;
    return 0;
}

/* Replaces the earlier file by the document, if that has not been done yet. Returns 0 or errno. */
static int replace_earlier(struct bb_document *d)
{
    const int error = d->replaces ? make_file(d, d->replaces) : 0;

    if (!error) {
        free(d->replaces);
        d->replaces = NULL;
    }
    return error;
}

/* Overwrites the old tail with the text from offset `from`. If the new text is shorter than the old tail, blanks fill
 * the rest of the file, so that the document stays valid without truncation. Returns 0 or errno. */
static int overwrite_tail(struct bb_document *d, size_t from)
{
    const size_t n = d->bytes - from, old = d->end - d->saved, all = n > old ? n : old;
    int error;

    reserve_text(d, from + all);
    memset(d->text + d->bytes, ' ', all - n);
    error = write_at(fileno(d->file.out), d->text + from, all, (off_t)d->saved);
    if (!error)
        d->end = d->saved + all;
    return error;
}

static const char *path_of(const struct bb_document *d)
{
    return d->replaces ? d->replaces : d->file.path;
}

/* Returns the text of a tail that only has the status and, of a failed run, the reason: that of the run, or that the file could not
 * be written; owned by the caller. error: errno of the write that failed; 0: without the reason */
static char *short_tail(const struct bb_document *d, int error)
{
    static const char key[] = "\n \"reason\": ";
    const char *status = json_string_value(json_object_get(d->root, "status"));
    const bool failed = status && strcmp(status, "running") != 0;
    json_t *fields = json_object(), *known = json_object_get(d->root, "reason");
    char *text, *tail;

    if (failed && error && !memmem(d->text, d->rows_at, key, strlen(key))) { /* the head has none */
        char *reason = bb_format(WRITE_ERROR, path_of(d), strerror(error));

        json_object_set_new(fields, "reason", json_is_string(known) ? json_incref(known) : bb_json_text(reason));
        free(reason);
    }
    if (status)
        json_object_set_new(fields, "status", json_string(failed ? "failed" : status));
    text = json_dumps(fields, FORMAT);
    tail = bb_format("\n ]%s%s\n", status ? "," : "\n", text + 1);
    free(text);
    json_decref(fields);
    return tail;
}

/* Writes a short tail after the saved rows: with the reason, or, if that needs another block of the disk, without it, so that it is
 * not longer than the old tail. Returns 0 or errno. */
static int write_short_tail(struct bb_document *d, int error)
{
    int rc = ENOSPC;

    for (int try = 0; try < 2 && rc; try++) {
        char *tail = short_tail(d, try == 0 ? error : 0);

        rc = write_at(fileno(d->file.out), tail, strlen(tail), (off_t)d->saved);
        if (!rc)
            d->end = d->saved + strlen(tail);
        free(tail);
    }
    return rc;
}

/* Writes the file again after another process damaged it. damage: "shortened" or "changed", for the message at the end
 * (report_damage). Returns 0 or errno. */
static int heal_file(struct bb_document *d, const char *damage)
{
    const int error = make_file(d, d->file.path);

    if (!error && !d->damage)
        d->damage = damage;
    return error;
}

/* Reports at the end that another process damaged the file during the run. This is an error, because that process may
 * damage the file again after the end of the run. If the run has failed anyway (ok is false), only a warning is
 * printed. Returns 0 or -BB_EFAIL. */
static int report_damage(const struct bb_document *d, bool ok)
{
    static const char format[] = "results: %s was %s by another process during the run; all rows were written again";

    if (!d->damage)
        return 0;
    if (ok)
        return bb_err(BB_EFAIL, format, d->file.path, d->damage);
    bb_warn(format, d->file.path, d->damage);
    return 0;
}

/* Writes the unsaved rows and the tail, or the whole file if it was removed or shortened or its head has changed. If they
 * cannot be written (disk full), the tail is written after the last saved row, or a short one if the tail has grown: it needs
 * no disk space beyond the blocks of the old tail. Returns 0 or errno. */
static int save_changes(struct bb_document *d)
{
    const int fd = fileno(d->file.out);
    struct stat file, named;
    int error;

    if (fstat(fd, &file) != 0 || (file.st_nlink == 0 && lstat(d->file.path, &named) != 0) || d->saved == 0)
        return make_file(d, d->file.path); /* the file was removed (on NFS, fstat() fails), or its head has changed */
    if (file.st_size < (off_t)d->end)
        return heal_file(d, "shortened");
    error = overwrite_tail(d, d->saved);
    if (!error)
        d->saved = d->rows_end;
    else if (overwrite_tail(d, d->rows_end) == 0 || write_short_tail(d, error) == 0)
        (void)!ftruncate(fd, (off_t)d->end); /* errors are ignored: the write error of the row is returned */
    return error;
}

/* Returns whether the file contains the document. */
static bool is_intact(const struct bb_document *d)
{
    size_t have = 0;
    char *found;
    ssize_t more;
    bool same;

    BB_NEW(found, d->bytes);
    while (have < d->bytes && (more = pread(fileno(d->file.out), found + have, d->bytes - have, (off_t)have)) > 0)
        have += (size_t)more;
    same = have == d->bytes && memcmp(found, d->text, have) == 0;
    free(found);
    return same;
}

/* Writes all changes, compares the file with the document, and flushes the file to disk. After a write error, or if the
 * path names another file, a new file replaces the old one. Returns 0 or errno. */
static int sync_file(struct bb_document *d)
{
    int error = replace_earlier(d);

    if (error)
        return error;
    error = save_changes(d);
    if (error || !bb_outfile_is_current(&d->file))
        error = make_file(d, d->file.path);
    else if (!is_intact(d))
        error = heal_file(d, "changed");
    return error ? error : bb_outfile_sync(fileno(d->file.out));
}

/* Writes a change to the file. A row is written at once, unless the last write failed. Any other change, and a row
 * after a failed write, is written only if at least SHARE times the duration of the last write has passed since that
 * write; otherwise a later change writes it. */
static void save(struct bb_document *d, bool row)
{
    const double start_s = bb_now_s();
    int error;

    if ((d->replaces && !row) || (!d->replaces && !d->file.out) ||
        ((!row || d->failing) && start_s < d->saved_s + SHARE * d->cost_s))
        return;
    error = d->replaces ? replace_earlier(d) : save_changes(d);
    d->saved_s = bb_now_s();
    d->cost_s = d->saved_s - start_s;
    d->failing = error != 0;
    if (error && !d->warned)
        bb_warn("results: %s: %s; retrying", path_of(d), strerror(error));
    d->warned |= d->failing;
}

/* Prints the error of the final write, unless one was printed before. error: 0 or errno. Returns 0 or -BB_EFAIL. */
static int report_once(struct bb_document *d, int error)
{
    if (error && !d->reported)
        bb_err(BB_EFAIL, WRITE_ERROR, path_of(d), strerror(error));
    d->reported |= error != 0;
    return error ? -BB_EFAIL : 0;
}

/* ---- public functions ---- */

int bb_document_open(struct bb_document *d, json_t *root, const char *path)
{
    struct stat earlier;
    int error;

    *d = (struct bb_document){.root = root};
    render_fields(d);
    if (path && stat(path, &earlier) == 0 && S_ISREG(earlier.st_mode) && earlier.st_size > 0) {
        d->replaces = bb_copy_text(path);
        return bb_outfile_check(path, "the results");
    }
    error = path ? make_file(d, path) : 0;
    return error ? bb_err(BB_EUSAGE, WRITE_ERROR, path, strerror(error)) : 0;
}

/* Adds the text of a row to the document's text. list: JSON text of {"": [row]}, so that the row is indented. */
static void add_row_text(struct bb_document *d, const char *list)
{
    static const char begin[] = "{\n \"\": [", end[] = "\n ]\n}"; /* text before and after the row in `list` */
    const size_t n = strlen(list) - strlen(begin) - strlen(end);

    if (d->rows_end > d->rows_at)
        replace_text(d, d->rows_end++, 0, ",", 1);
    else
        replace_text(d, d->rows_end, 0, "\n ", strlen("\n "));
    replace_text(d, d->rows_end, 0, list + strlen(begin), n);
    d->rows_end += n;
}

int bb_document_add(struct bb_document *d, json_t *row)
{
    json_t *list = json_object_get(d->root, "results") ? json_pack("{s:[O]}", "", row) : NULL;
    char *text = list ? json_dumps(list, FORMAT) : NULL;

    json_decref(list);
    json_decref(row);
    if (!text)
        return bb_err(BB_EFAIL, "cannot add a row to the results (invalid value)");
    add_row_text(d, text);
    free(text);
    save(d, true);
    return 0;
}

void bb_document_remove_rows(struct bb_document *d)
{
    replace_text(d, d->rows_at, tail_at(d) - d->rows_at, "", 0);
    d->rows_end = d->rows_at;
    d->saved = 0;
}

/* Skips unchanged values, because changing a field of the head rewrites the whole file. */
int bb_document_set(struct bb_document *d, const char *key, json_t *value)
{
    if (json_equal(json_object_get(d->root, key), value)) {
        json_decref(value);
        return 0;
    }
    if (json_object_set_new(d->root, key, value))
        return bb_err(BB_EFAIL, "results: cannot set '%s' (invalid value)", key);
    render_fields(d);
    save(d, false);
    return 0;
}

void bb_document_set_status(struct bb_document *d, const char *status)
{
    (void)!json_object_set_new(d->root, "status", json_string(status));
    render_fields(d);
}

int bb_document_sync(struct bb_document *d)
{
    return d->file.out || d->replaces ? report_once(d, sync_file(d)) : 0;
}

int bb_document_finish(struct bb_document *d)
{
    const char *status = json_string_value(json_object_get(d->root, "status"));
    const bool ok = status && strcmp(status, "ok") == 0;
    int error, damaged = 0;

    if (d->replaces && status && strcmp(status, "interrupted") == 0)
        bb_warn(BB_KEPT_FILE, d->replaces);
    else if ((error = replace_earlier(d)) != 0)
        return report_once(d, error);
    if (!d->file.out)
        return 0;
    if (ok)
        bb_document_set_status(d, "running");
    error = sync_file(d);
    if (!error)
        damaged = report_damage(d, ok);
    if (ok && !error) {
        bb_document_set_status(d, damaged ? "failed" : "ok");
        error = save_changes(d);
    }
    if (!error && ftruncate(fileno(d->file.out), (off_t)d->bytes) != 0)
        error = errno;
    if (ok && error && !damaged) { /* makes the status match the exit status, if the file can still be written */
        bb_document_set_status(d, "failed");
        (void)save_changes(d);
    }
    return damaged ? damaged : report_once(d, error);
}

void bb_document_print(const struct bb_document *d, FILE *out)
{
    (void)fwrite(d->text, 1, d->bytes, out);
}

void bb_document_release(struct bb_document *d)
{
    if (d->file.out)
        (void)bb_outfile_close(&d->file, "results", -BB_EFAIL);
    free(d->replaces);
    free(d->text);
    json_decref(d->root);
    *d = (struct bb_document){0};
}
