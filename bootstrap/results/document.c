/* document.c - the JSON results document. document.h defines head, rows and tail. */
#include "bootstrap/results/document.h"

#include "bootstrap/base/clock.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static const double SHARE = 20; /* save() delays changes that need not be written at once, so that writing them takes
                                   at most 1/SHARE of the time */
static const size_t FORMAT = JSON_INDENT(1) | JSON_REAL_PRECISION(12);

/* ---- JSON text ---- */

/* Generates `fields`, the text of root. Returns 0 or ENOMEM. */
static int render_fields(struct bb_document *d)
{
    static const char list[] = "\n \"results\": ["; /* strings contain no raw line breaks, so this occurs only once */
    json_t *status = json_incref(json_object_get(d->root, "status"));
    char *text, *at;
    size_t head_bytes;

    if (status && (json_object_del(d->root, "status") || json_object_set_new(d->root, "status", status)))
        return ENOMEM; /* otherwise, the status has been moved to the end */
    text = json_dumps(d->root, FORMAT);
    if (!text)
        return ENOMEM;
    at = strstr(text, list);
    head_bytes = at ? (size_t)(at - text) + strlen(list) : strlen(text);
    d->stale_head |= !d->fields || head_bytes != d->head_bytes || memcmp(text, d->fields, head_bytes) != 0;
    free(d->fields);
    d->fields = text;
    d->head_bytes = head_bytes;
    d->stale = false;
    return 0;
}

/* Returns a text that replaces a part of the file: `head` bytes of the head (0: the head is not written), the rows in
 * the given byte range, the tail, and blanks that overwrite the rest of a longer old text of `least` bytes. The caller
 * frees the text. bytes: out, length without the blanks. NULL: out of memory. */
static char *text_of(const struct bb_document *d, size_t head, off_t from, off_t to, size_t least, size_t *bytes)
{
    const char *end = to > 0 ? "\n " : "", *tail = d->fields + d->head_bytes;
    char *text;

    *bytes = head + (size_t)(to - from) + strlen(end) + strlen(tail) + 1;
    return asprintf(&text, "%.*s%.*s%s%s\n%*s", (int)head, d->fields, (int)(to - from), d->rows ? d->rows + from : "",
                    end, tail, *bytes < least ? (int)(least - *bytes) : 0, "") < 0
               ? NULL
               : text;
}

static char *whole_text(struct bb_document *d, size_t *bytes)
{
    if (d->stale && render_fields(d))
        return NULL;
    return text_of(d, d->head_bytes, 0, (off_t)d->rows_bytes, 0, bytes);
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
    size_t bytes;
    char *text = whole_text(d, &bytes);
    int error = text ? bb_outfile_create(&file, path, 0600) : ENOMEM;

    if (error)
        goto out;
    (void)fwrite(text, 1, bytes, file.out); /* bb_outfile_publish_unsynced returns the error */
    error = bb_outfile_publish_unsynced(&file);
    if (error) {
        (void)bb_outfile_close(&file, "results", -BB_EFAIL);
        goto out;
    }
    if (d->file.out)
        (void)bb_outfile_close(&d->file, "results", -BB_EFAIL);
    d->file = file;
    d->rows_at = (off_t)d->head_bytes;
    d->text_end = d->end = (off_t)bytes;
    d->saved = (off_t)d->rows_bytes;
    d->stale_head = false;
    bb_outfile_sync_folder(file.path);
out:
    free(text);
    return error;
}

/* Overwrites the old tail with the unsaved rows up to byte `to` and a new tail. If the new text is shorter than the old
 * tail, blanks fill the rest of the file, so that the document stays valid without truncation. Returns 0 or errno. */
static int write_rest(struct bb_document *d, off_t to)
{
    const off_t at = d->rows_at + d->saved;
    const size_t least = (size_t)(d->end - at);
    size_t n;
    char *text = text_of(d, 0, d->saved, to, least, &n);
    const int error = text ? write_at(fileno(d->file.out), text, n < least ? least : n, at) : ENOMEM;

    free(text);
    if (error)
        return error;
    d->text_end = at + (off_t)n;
    d->end = n < least ? d->end : d->text_end;
    d->saved = to;
    return 0;
}

/* Writes the file again after another process damaged it. Returns 0 or errno. */
static int heal_file(struct bb_document *d, const char *damage)
{
    const int error = make_file(d, d->file.path);

    if (!error && !d->healed)
        bb_warn("results: %s was %s by another process; written again", d->file.path, damage);
    d->healed |= !error;
    return error;
}

/* Writes unsaved rows and the tail, or the whole file where required. If a row cannot be written (disk full), the old
 * tail is written again, which needs no additional disk space because the file already contains blocks for it. Returns
 * 0 or errno. */
static int save_changes(struct bb_document *d)
{
    const int fd = fileno(d->file.out);
    struct stat file, named;
    int error = d->stale ? render_fields(d) : 0;

    if (error)
        return error;
    if (fstat(fd, &file) != 0 || (file.st_nlink == 0 && lstat(d->file.path, &named) != 0) || d->stale_head)
        return make_file(d, d->file.path); /* the file was removed (on NFS, fstat() fails), or its head has changed */
    if (file.st_size < d->end)
        return heal_file(d, "shortened");
    error = write_rest(d, (off_t)d->rows_bytes);
    if (error && write_rest(d, d->saved) == 0)
        (void)!ftruncate(fd, d->end); /* errors are ignored: the write error of the row is returned */
    return error;
}

/* Returns whether the file contains the document; also true if there is no memory for the comparison. */
static bool is_intact(struct bb_document *d)
{
    size_t n = 0, have = 0;
    char *text = whole_text(d, &n), *found = text ? malloc(n) : NULL;
    ssize_t more;
    bool same;

    while (found && have < n && (more = pread(fileno(d->file.out), found + have, n - have, (off_t)have)) > 0)
        have += (size_t)more;
    same = !found || (have == n && memcmp(found, text, n) == 0);
    free(found);
    free(text);
    return same;
}

/* Saves the document, compares the file with it, and flushes the file. After a write error, and if the path names
 * another file, a new file replaces the old one. Returns 0 or errno. */
static int sync_file(struct bb_document *d)
{
    int error = save_changes(d);

    if (error || !bb_outfile_is_current(&d->file))
        error = make_file(d, d->file.path);
    else if (!is_intact(d))
        error = heal_file(d, "changed");
    return error ? error : bb_outfile_sync(fileno(d->file.out));
}

/* Writes a change to the file: a row at once, unless the last write failed; any other change only if at least SHARE
 * times the duration of the last write has passed since that write. A failed write is retried with a later change. */
static void save(struct bb_document *d, bool row)
{
    const double start_s = bb_now_s();
    int error;

    if (!d->file.out || ((!row || d->failing) && start_s < d->saved_s + SHARE * d->cost_s))
        return;
    error = save_changes(d);
    d->saved_s = bb_now_s();
    d->cost_s = d->saved_s - start_s;
    d->failing = error != 0;
    if (error && !d->warned)
        bb_warn("results: %s: %s; retrying", d->file.path, strerror(error));
    d->warned |= d->failing;
}

static int report_once(struct bb_document *d, int error)
{
    if (error && !d->reported)
        bb_err(BB_EFAIL, "cannot write the results: %s: %s", d->file.path, strerror(error));
    d->reported |= error != 0;
    return error ? -BB_EFAIL : 0;
}

/* ---- public functions ---- */

/* Makes sure that `rows` has space for this number of bytes. Returns false if memory is exhausted. */
static bool reserve_rows(struct bb_document *d, size_t bytes)
{
    char *more = bytes > d->capacity ? realloc(d->rows, 2 * bytes) : d->rows;

    if (!more)
        return false;
    d->capacity = bytes > d->capacity ? 2 * bytes : d->capacity;
    d->rows = more;
    return true;
}

int bb_document_open(struct bb_document *d, json_t *root, const char *path)
{
    int error;

    *d = (struct bb_document){.root = root, .stale = true};
    error = path ? make_file(d, path) : 0;
    return error ? bb_err(error == ENOMEM ? BB_EFAIL : BB_EUSAGE, "cannot write the results: %s: %s", path,
                          strerror(error))
                 : 0;
}

int bb_document_add(struct bb_document *d, json_t *row)
{
    static const char begin[] = "{\n \"\": [", end[] = "\n ]\n}"; /* text before and after the row in `list` */
    json_t *list = json_object_get(d->root, "results") ? json_pack("{s:[O]}", "", row) : NULL;
    char *text = list ? json_dumps(list, FORMAT) : NULL;
    const int n = text ? (int)(strlen(text) - strlen(begin) - strlen(end)) : 0;
    const bool good = text && reserve_rows(d, d->rows_bytes + (size_t)n + sizeof(","));

    if (good)
        d->rows_bytes +=
            (size_t)sprintf(d->rows + d->rows_bytes, "%s%.*s", d->rows_bytes > 0 ? "," : "", n, text + strlen(begin));
    free(text);
    json_decref(list);
    json_decref(row);
    if (!good)
        return bb_err(BB_EFAIL, "cannot add a row to the results (out of memory or invalid value)");
    save(d, true);
    return 0;
}

/* Unchanged values are skipped, because changing a field of the head rewrites the whole file. */
int bb_document_set(struct bb_document *d, const char *key, json_t *value)
{
    if (json_equal(json_object_get(d->root, key), value)) {
        json_decref(value);
        return 0;
    }
    d->stale = true;
    if (json_object_set_new(d->root, key, value))
        return bb_err(BB_EFAIL, "results: cannot set '%s' (out of memory or invalid value)", key);
    save(d, false);
    return 0;
}

void bb_document_set_status(struct bb_document *d, const char *status)
{
    d->stale = true;
    (void)json_object_del(d->root, "status");
    (void)!json_object_set_new(d->root, "status", json_string(status));
}

int bb_document_sync(struct bb_document *d)
{
    return d->file.out ? report_once(d, sync_file(d)) : 0;
}

int bb_document_finish(struct bb_document *d)
{
    const char *status = json_string_value(json_object_get(d->root, "status"));
    const bool ok = status && strcmp(status, "ok") == 0;
    int error;

    if (!d->file.out)
        return 0;
    if (ok)
        bb_document_set_status(d, "running");
    error = sync_file(d);
    if (ok && !error) {
        bb_document_set_status(d, "ok");
        error = save_changes(d);
    }
    if (!error && ftruncate(fileno(d->file.out), d->text_end) != 0)
        error = errno;
    if (ok && error) { /* makes the status match the exit status, if the file can still be written */
        bb_document_set_status(d, "failed");
        (void)save_changes(d);
    }
    return report_once(d, error);
}

int bb_document_print(struct bb_document *d, FILE *out)
{
    size_t bytes;
    char *text = whole_text(d, &bytes);

    if (!text)
        return bb_err(BB_EFAIL, "out of memory for the results");
    (void)fwrite(text, 1, bytes, out);
    free(text);
    return 0;
}

void bb_document_release(struct bb_document *d)
{
    if (d->file.out)
        (void)bb_outfile_close(&d->file, "results", -BB_EFAIL);
    free(d->rows);
    free(d->fields);
    json_decref(d->root);
    *d = (struct bb_document){0};
}
