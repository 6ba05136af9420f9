/*
 * document.h - incremental writer of the JSON results file: one object whose rows are in the list "results".
 *
 *    { "schema": .., .., "results": [ row, row, .. ], "memory_bytes": .., "status": "running" }
 *    |------------ head ------------|---- rows -----|------------------ tail ------------------|
 *
 * The file is a complete JSON document after every row. It is created under a temporary name and then renamed
 * (outfile.h). From then on, one pwrite(2) per row overwrites the old tail with the new row and a new tail. Rows are
 * stored only in the file, so the cost of a row (time, bytes written, memory) is independent of the number of rows. A
 * saved row survives the death of the process. If the process dies during a write, or if another process reads the file
 * during a write, the last row may be truncated; all earlier rows are complete.
 *
 * A write error (full disk, removed folder) is reported once; the unsaved text stays in memory and the write is retried
 * with the next change. If the file is removed, it is recreated from the descriptor that is still open. If another run
 * replaces the file, the new file is not touched until the end, when this run replaces it in turn.
 *
 * A write may never return, because the file system hangs or a library calls exit() during the write. The thread that
 * ends the run can then take the document over (bb_document_take_over), because a writer in such a call changes nothing
 * in memory. If the call returns later, the writer detects the take-over and stops.
 */
#ifndef BB_BOOTSTRAP_RESULTS_DOCUMENT_H
#define BB_BOOTSTRAP_RESULTS_DOCUMENT_H

#include "bootstrap/base/outfile.h"

#include <jansson.h>
#include <stdatomic.h>
#include <sys/types.h>

/*
 * State of the writer, shared with the thread that may take the document over.
 *   state      whether the writer is idle, in I/O that may block, or has lost the document to another thread
 *              (document.c)
 *   temporary  path of the temporary file while the file is being created; NULL: none
 *   at_end     callback at_end(rc), called when the final status is in the file; NULL: none
 *   rc         argument of at_end: result of the run, 0 or a negative error code
 */
struct bb_document_writer {
    atomic_int state;
    char *_Atomic temporary;
    void (*at_end)(int rc);
    int rc;
};

struct bb_document {
    struct bb_document_writer *writer; /* state of the writer, owned by the caller; NULL: the document cannot be
                                          taken over */
    struct bb_outfile file;            /* the JSON file; file.out is NULL if no file is open */
    /* root: fields of head and tail, borrowed from the caller; rows: the list "results" of root, always empty
     * because rows are stored only in the file, or NULL if the schema has no rows */
    json_t *root, *rows;
    size_t n_head;            /* number of keys of root in the head, that is, up to and including "results" */
    off_t rows_from, rows_to; /* range of the rows in the file, as byte offsets */
    off_t text_end, end; /* text_end: end of the JSON text; end: end of the file; line breaks fill the bytes between
                            them after the tail became shorter */
    char *unsaved;       /* JSON text of the rows that are not in the file yet; owned */
    size_t unsaved_bytes;
    double saved_s, cost_s; /* saved_s: time at which the last write ended (bb_now_s); cost_s: duration of that write
                               in seconds */
    bool stale_head, dirty; /* stale_head: a field of the head changed since the last write; dirty: a field of the
                               head or tail changed */
    bool error_reported;    /* true after a write error was reported; later errors are not reported */
};

/*
 * bb_document_open - create the file with its head and tail. d->writer must be set before the call.
 *   path     file to write
 *   root     JSON object with the fields of head and tail; borrowed until bb_document_close
 *   status   value of the key "status"; NULL: the schema has no status
 *   Returns  0; -BB_EUSAGE after an error message if the file cannot be written; -BB_EFAIL if memory is exhausted
 */
int bb_document_open(struct bb_document *d, const char *path, json_t *root, const char *status) BB_MUST_CHECK;

/* bb_document_add - queue a row, which the next bb_document_save writes. The reference to `row` is consumed, also on
 * failure. Returns 0, or -BB_EFAIL after an error message if row is invalid or memory is exhausted. */
int bb_document_add(struct bb_document *d, json_t *row) BB_MUST_CHECK;

/* bb_document_changed - mark a key of root as changed. A changed key of the head makes the next save rewrite the
 * whole file. */
void bb_document_changed(struct bb_document *d, const char *key);

/* bb_document_save - write all queued rows and changed fields, and `status`, the value of the key "status". Returns
 * 0 or -BB_EFAIL; only the first failure prints an error. */
int bb_document_save(struct bb_document *d, const char *status);

/* bb_document_due - return whether at least 20 times the duration of the last write has passed since that write.
 * Callers delay the writing of less important changes until this is true, so that writing takes at most 5 % of the
 * time. */
bool bb_document_due(const struct bb_document *d);

/* bb_document_close - save the document with this status, flush it to disk (fsync), write the file again if its path
 * no longer names it, and release the document. Returns 0 or -BB_EFAIL. Does nothing if the document is not open. */
int bb_document_close(struct bb_document *d, const char *status);

/*
 * bb_document_take_over - claim the document from a writer that is blocked in I/O.
 *   Returns  true if the writer is in a call that may not return; the writer then never touches the document again, and
 *            the calling thread saves the document with bb_document_rescue. Returns true at most once.
 * bb_document_rescue - write the queued rows and the status, and remove the temporary file. Call only after a
 * take-over.
 */
bool bb_document_take_over(struct bb_document_writer *writer);
void bb_document_rescue(struct bb_document *d, const char *status);

/* bb_document_print - write root with its rows to a stream. Returns 0; otherwise errno is the reason. */
int bb_document_print(json_t *root, const char *status, FILE *out);

#endif
