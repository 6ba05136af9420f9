/* document.c - incremental writer of the JSON results file. document.h defines head, rows and tail of the file. */
#include "bootstrap/results/document.h"

#include "bootstrap/base/clock.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static const double SHARE = 20; /* bb_document_due() delays changes that need not be written at once, so that writing
                                   them takes at most 1/SHARE of the time */

/* ---- JSON text ---- */

struct indented {
    FILE *out;
    int depth;
};

/* Callback of json_dump_callback(): writes text and indents each continuation line. JSON strings contain no raw line
 * breaks, so each line break in the text starts a new line of the document. */
static int put_indented(const char *text, size_t bytes, void *arg)
{
    const struct indented *to = arg;

    for (size_t i = 0; i < bytes; i++) {
        if (fputc(text[i], to->out) == EOF)
            return -1;
        if (text[i] == '\n' && fprintf(to->out, "%*s", to->depth, "") < 0)
            return -1;
    }
    return 0;
}

static int put_value(const json_t *value, int depth, FILE *out)
{
    struct indented to = {out, depth};

    return json_dump_callback(value, put_indented, &to, JSON_INDENT(1) | JSON_REAL_PRECISION(12) | JSON_ENCODE_ANY);
}

/* Writes a key of the top-level object. These keys are defined by busbar and need no escaping. */
static int put_key(const char *key, bool first, FILE *out)
{
    return fprintf(out, "%s\n \"%s\": ", first ? "" : ",", key) < 0 ? -1 : 0;
}

static int put_row(const json_t *row, bool first, FILE *out)
{
    return fputs(first ? "\n  " : ",\n  ", out) == EOF || put_value(row, 2, out) ? -1 : 0;
}

static int put_head(json_t *root, const json_t *rows, size_t n_head, FILE *out)
{
    const char *key;
    json_t *value;
    size_t i = 0;
    int bad = fputc('{', out) == EOF;

    json_object_foreach(root, key, value)
    {
        if (i == n_head || bad)
            break;
        bad |= put_key(key, i++ == 0, out) || (value == rows ? fputc('[', out) == EOF : put_value(value, 1, out));
    }
    return bad;
}

static int put_tail(json_t *root, const json_t *rows, size_t n_head, bool any, const char *status, FILE *out)
{
    const char *key;
    json_t *value;
    size_t i = 0;
    int bad = rows ? fputs(any ? "\n ]" : "]", out) == EOF : 0;

    json_object_foreach(root, key, value)
    {
        if (i++ < n_head || bad)
            continue;
        bad |= put_key(key, i == 1, out) || put_value(value, 1, out);
    }
    if (status)
        bad |= put_key("status", false, out) || fprintf(out, "\"%s\"", status) < 0;
    return bad || fputs("\n}\n", out) == EOF ? -1 : 0;
}

/* Returns the number of keys of `root`, the top-level object, in the head of the file, that is, up to and including
 * "results". Without "results", all keys are in the head. */
static size_t count_head(json_t *root, const json_t *rows)
{
    const char *key;
    json_t *value;
    size_t n = 0;

    json_object_foreach(root, key, value)
    {
        n++;
        if (value == rows)
            break;
    }
    return n;
}

int bb_document_print(json_t *root, const char *status, FILE *out)
{
    const json_t *rows = json_object_get(root, "results");
    size_t n_head = count_head(root, rows), n_rows = json_array_size(rows);
    int bad;

    errno = 0;
    bad = put_head(root, rows, n_head, out);
    for (size_t i = 0; i < n_rows && !bad; i++)
        bad = put_row(json_array_get(rows, i), i == 0, out);
    return bad || put_tail(root, rows, n_head, n_rows > 0, status, out) || fflush(out) != 0;
}

/* ---- take-over of a blocked writer ---- */

enum { WRITER_IDLE, WRITER_IN_IO, WRITER_TAKEN_OVER };

/* Marks the start of I/O that may block forever. The writing thread must not touch the document until end_io(),
 * because another thread may take the document over during the I/O. temporary: path of the temporary file that
 * remains if the I/O never ends; NULL: none. */
static struct bb_document_writer *begin_io(const struct bb_document *d, const char *temporary)
{
    if (!d->writer)
        return NULL;
    d->writer->temporary = temporary ? strdup(temporary) : NULL; /* if strdup fails, bb_document_rescue cannot remove
                                                                    the temporary file */
    d->writer->state = WRITER_IN_IO;
    return d->writer;
}

/* Marks the end of the I/O. If another thread has taken over the document meanwhile, this function never returns but
 * waits for the end of the process. The loop is needed because pause() returns after every signal handler. */
static void end_io(struct bb_document_writer *writer)
{
    if (!writer)
        return;
    for (int away = WRITER_IN_IO; !atomic_compare_exchange_strong(&writer->state, &away, WRITER_IDLE);
         away = WRITER_IN_IO)
        pause();
    free(writer->temporary);
    writer->temporary = NULL;
}

bool bb_document_take_over(struct bb_document_writer *writer)
{
    int away = WRITER_IN_IO;

    return atomic_compare_exchange_strong(&writer->state, &away, WRITER_TAKEN_OVER);
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

static int copy_rows(const struct bb_document *d, int from, FILE *out)
{
    char piece[1 << 16];
    off_t at = d->rows_from;

    while (at < d->rows_to) {
        size_t left = (size_t)(d->rows_to - at);
        ssize_t n = pread(from, piece, left < sizeof(piece) ? left : sizeof(piece), at);

        if (n <= 0)
            return n < 0 ? errno : EIO;
        if (fwrite(piece, 1, (size_t)n, out) != (size_t)n)
            return errno ? errno : EIO;
        at += n;
    }
    return 0;
}

/* Writes the whole document to the new file, except for the unsaved rows. The saved rows are copied from `old`, the
 * previous file; old->out is NULL if there is no previous file. Returns 0 or errno. */
static int put_all(struct bb_document *d, const struct bb_outfile *old, const char *status)
{
    const off_t bytes = d->rows_to - d->rows_from;
    FILE *out = d->file.out;
    int error = 0;

    errno = 0;
    if (put_head(d->root, d->rows, d->n_head, out))
        return errno ? errno : EIO;
    if (old->out)
        error = copy_rows(d, fileno(old->out), out);
    d->rows_from = ftello(out) - bytes;
    d->rows_to = d->rows_from + bytes;
    if (!error && put_tail(d->root, d->rows, d->n_head, bytes > 0, status, out))
        error = errno ? errno : EIO;
    d->text_end = d->end = ftello(out);
    return error;
}

/* Renames the temporary file to its final name. Returns 0 or errno; on failure the file has no final name. */
static int name_file(struct bb_document *d)
{
    struct bb_document_writer *writer = begin_io(d, d->file.temporary);
    int error = bb_outfile_publish_unsynced(&d->file);

    end_io(writer);
    return error;
}

static void sync_folder(const struct bb_document *d)
{
    struct bb_document_writer *writer = begin_io(d, NULL);

    bb_outfile_sync_folder(d->file.path);
    end_io(writer);
}

/* Replaces the file by a newly written one. Returns 0 or errno; on failure the old file remains in use. */
static int make_file(struct bb_document *d, const char *path, const char *status)
{
    struct bb_document made = *d;
    int error = bb_outfile_create(&made.file, path, 0600);

    if (error)
        return error;
    error = put_all(&made, &d->file, status);
    error = error ? error : name_file(&made);
    if (error) {
        (void)bb_outfile_close(&made.file, "results", -BB_EFAIL);
        return error;
    }
    if (d->file.out)
        (void)bb_outfile_close(&d->file, "results", -BB_EFAIL);
    *d = made;
    d->stale_head = false;
    sync_folder(d);
    return 0;
}

static bool was_removed(const struct bb_document *d)
{
    struct stat open_one, named;

    return fstat(fileno(d->file.out), &open_one) == 0 && open_one.st_nlink == 0 && lstat(d->file.path, &named) != 0;
}

/* Returns the text of the new rows, rows[bytes], followed by the tail; the caller frees the text. NULL: out of
 * memory. */
static char *tail_text(const struct bb_document *d, const char *rows, size_t bytes, const char *status, size_t *size)
{
    char *text = NULL;
    FILE *out = open_memstream(&text, size);
    int bad;

    if (!out)
        return NULL;
    bad = bytes && fwrite(rows, 1, bytes, out) != bytes;
    bad |= put_tail(d->root, d->rows, d->n_head, bytes > 0 || d->rows_to > d->rows_from, status, out) != 0;
    bad |= fclose(out) != 0;
    if (!bad)
        return text;
    free(text);
    return NULL;
}

/* Overwrites the old tail with the text of the new rows, rows[bytes], and a new tail. If the new text is shorter
 * than the old tail, line breaks fill the rest of the file, so that the document stays valid without truncation.
 * Returns 0 or errno. */
static int write_tail(struct bb_document *d, const char *rows, size_t bytes, const char *status)
{
    size_t n = 0, least = (size_t)(d->end - d->rows_to);
    char *text = tail_text(d, rows, bytes, status, &n), *longer = text;
    struct bb_document_writer *writer;
    int error = ENOMEM;

    if (text && n < least && (longer = realloc(text, least)) != NULL)
        memset(longer + n, '\n', least - n);
    writer = begin_io(d, NULL);
    if (longer)
        error = write_at(fileno(d->file.out), longer, n < least ? least : n, d->rows_to);
    end_io(writer);
    free(longer ? longer : text);
    if (error)
        return error;
    d->text_end = d->rows_to + (off_t)n;
    d->end = n < least ? d->end : d->text_end;
    d->rows_to += (off_t)bytes;
    return 0;
}

/* Truncates the file to `end` bytes. Returns 0 or errno. */
static int truncate_file(const struct bb_document *d, off_t end)
{
    return ftruncate(fileno(d->file.out), end) == 0 ? 0 : errno;
}

/* Writes the old tail again after a row could not be written (disk full). This needs no additional disk space,
 * because the file already contains blocks for the old tail. */
static void restore_tail(struct bb_document *d, const char *status)
{
    if (write_tail(d, NULL, 0, status) == 0)
        (void)truncate_file(d, d->end); /* errors are ignored: the caller reports the write error of the row */
}

/* Writes unsaved rows and the tail; rewrites the whole file if its head changed or the file was removed. Returns 0
 * or errno. */
static int save_rows(struct bb_document *d, const char *status)
{
    int error = d->stale_head || was_removed(d) ? make_file(d, d->file.path, status) : 0;

    error = error ? error : write_tail(d, d->unsaved, d->unsaved_bytes, status);
    if (error) {
        restore_tail(d, status);
        return error;
    }
    free(d->unsaved);
    d->unsaved = NULL;
    d->unsaved_bytes = 0;
    d->dirty = false;
    return 0;
}

static int report_once(struct bb_document *d, int error)
{
    if (error && !d->error_reported)
        bb_err(BB_EFAIL, "cannot write the results: %s: %s", d->file.path, strerror(error));
    d->error_reported |= error != 0;
    return error ? -BB_EFAIL : 0;
}

/* ---- public functions ---- */

int bb_document_open(struct bb_document *d, const char *path, json_t *root, const char *status)
{
    json_t *rows = json_object_get(root, "results");
    int error;

    *d = (struct bb_document){.writer = d->writer, .root = root, .rows = rows, .n_head = count_head(root, rows)};
    error = make_file(d, path, status);
    return error ? bb_err(error == ENOMEM ? BB_EFAIL : BB_EUSAGE, "cannot write the results: %s: %s", path,
                          strerror(error))
                 : 0;
}

int bb_document_add(struct bb_document *d, json_t *row)
{
    bool first = d->rows_to == d->rows_from && d->unsaved_bytes == 0;
    size_t n = 0;
    char *text = NULL, *longer = NULL;
    FILE *out = row ? open_memstream(&text, &n) : NULL;
    int bad = out ? put_row(row, first, out) : -1;

    bad |= out && fclose(out) != 0;
    longer = bad ? NULL : realloc(d->unsaved, d->unsaved_bytes + n);
    if (longer) {
        memcpy(longer + d->unsaved_bytes, text, n);
        d->unsaved = longer;
        d->unsaved_bytes += n;
    }
    free(text);
    json_decref(row);
    return longer ? 0 : bb_err(BB_EFAIL, "cannot add a row to the results (out of memory or invalid value)");
}

/* Writes the queued rows and the final status after this thread has taken the document over from a writer that is
 * blocked in I/O. The blocked writer may still be writing the same rows. The function therefore writes them at the
 * same offset, and cuts off any bytes that the blocked writer wrote beyond the end of the document. */
void bb_document_rescue(struct bb_document *d, const char *status)
{
    struct bb_document_writer *writer = d->writer;

    d->writer = NULL;
    if (d->file.out && write_tail(d, d->unsaved, d->unsaved_bytes, status) == 0)
        (void)truncate_file(d, d->text_end); /* if this fails, text of the blocked writer remains at the end of the
                                                file */
    if (writer->temporary)
        unlink(writer->temporary);
}

void bb_document_changed(struct bb_document *d, const char *key)
{
    const char *name;
    json_t *value;
    size_t i = 0;

    json_object_foreach(d->root, name, value)
    {
        if (i++ == d->n_head)
            break;
        d->stale_head |= strcmp(name, key) == 0;
    }
    d->dirty = true;
}

bool bb_document_due(const struct bb_document *d)
{
    return bb_now_s() >= d->saved_s + SHARE * d->cost_s;
}

int bb_document_save(struct bb_document *d, const char *status)
{
    double start_s = bb_now_s();
    int rc;

    if (d->error_reported &&
        !bb_document_due(d)) /* bb_document_due() also limits the rate of retries after a write error, because each
                                retry writes all unsaved rows */
        return -BB_EFAIL;
    rc = report_once(d, save_rows(d, status));
    d->saved_s = bb_now_s();
    d->cost_s = d->saved_s - start_s;
    return rc;
}

/* Flushes the file to disk. Returns 0 or errno. */
static int sync_file(const struct bb_document *d)
{
    struct bb_document_writer *writer = begin_io(d, NULL);
    int error = bb_outfile_sync(fileno(d->file.out));

    end_io(writer);
    return error;
}

/* Returns whether the status is "ok"; false if the schema has no status (NULL), because a failure cannot be recorded
 * in such a file. */
static bool is_ok(const char *status)
{
    return status && strcmp(status, "ok") == 0;
}

/* Writes the final status only after the file was flushed to disk, so that the file of a run whose disk hangs never
 * contains "ok". If the path no longer names the file, the file is written again. Finally truncates the file to the
 * length of the document. Returns 0 or errno. */
static int finish_file(struct bb_document *d, const char *status)
{
    const bool ok = is_ok(status);
    const char *before = ok ? "running" : status;
    int error = save_rows(d, before);

    if (!error && !bb_outfile_is_current(&d->file))
        error = make_file(d, d->file.path, before);
    error = error ? error : sync_file(d);
    if (!error && ok)
        error = save_rows(d, status);
    if (!error && d->writer && d->writer->at_end)
        d->writer->at_end(d->writer->rc);
    return error ? error : truncate_file(d, d->text_end);
}

int bb_document_close(struct bb_document *d, const char *status)
{
    int rc;

    if (!d->file.out)
        return 0;
    rc = report_once(d, finish_file(d, status));
    if (rc && is_ok(status))
        (void)save_rows(d, "failed"); /* makes the status match the exit status, if the file can still be written */
    (void)bb_outfile_close(&d->file, "results", -BB_EFAIL);
    free(d->unsaved);
    *d = (struct bb_document){0};
    return rc;
}
