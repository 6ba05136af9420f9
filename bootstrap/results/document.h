/*
 * document.h - incremental writer of the JSON results file: one object whose rows are in the list "results".
 *
 *    { "schema": .., .., "results": [ row, row, .. ], "memory_bytes": .., "status": "running" }
 *    |------------ head ------------|---- rows -----|------------------ tail ------------------|
 *
 * The file is a complete JSON document after every row. It is created under a temporary name and then renamed
 * (outfile.h).
 * From then on one pwrite(2) per row overwrites the old tail with the new row and a new tail. The cost of a row (time,
 * bytes written, memory) is therefore independent of the number of rows, which are kept only in the file. A saved row
 * survives the death of the process. A reader that reads during that write, or a writer that is killed during it, may
 * see the last row truncated; all earlier rows are complete.
 *
 * A write error (full disk, removed folder) is reported once; the unsaved text is kept and the write is retried with
 * the next change. A file that was removed is recreated from the descriptor that is still open. A file that another run
 * has replaced is left alone until the end, when this run replaces it.
 *
 * A write may never return: the file system hangs, or a library calls exit() during it. A thread that ends the run
 * meanwhile can take the document over (bb_document_take_over) while the writer is in such a call, when the writer
 * changes nothing in memory. A writer that returns later finds the document taken over and stops.
 */
#ifndef BB_BOOTSTRAP_RESULTS_DOCUMENT_H
#define BB_BOOTSTRAP_RESULTS_DOCUMENT_H

#include "bootstrap/base/outfile.h"

#include <jansson.h>
#include <stdatomic.h>
#include <sys/types.h>

/* Writer state, shared with the thread that may take over: state (idle, blocked in I/O or taken over), temporary
 * name of the file being created (NULL: none), and the callback at_end(rc), called when the final status is in the
 * file (NULL: no callback). */
struct bb_document_seat {
    atomic_int state;
    char *_Atomic temporary;
    void (*at_end)(int rc);
    int rc;
};

struct bb_document {
    struct bb_document_seat *seat; /* owned by the caller; NULL: no take-over */
    struct bb_outfile file;        /* path NULL: no file is open */
    json_t *root, *rows; /* borrowed from the caller; rows: root's "results", stays empty because rows are kept only
                            in the file; NULL: the schema has no rows */
    size_t n_head;       /* number of keys of root before the rows */
    off_t rows_from, rows_to; /* byte range of the rows in the file */
    off_t text_end, end;      /* end of the document, and of the file: line breaks fill the rest when the tail became
                            shorter */
    char *unsaved;            /* rows that are not in the file yet, as JSON text; owned */
    size_t unsaved_bytes;
    double saved_s, cost_s; /* seconds: end and duration of the last write */
    bool stale_head, dirty; /* the head, or any field, changed since the last write */
    bool told;              /* a write error was reported */
};

/*
 * bb_document_open - create the file with its head and tail. d->seat must be set before the call.
 *   path     file to write
 *   root     JSON object with the fields of head and tail; borrowed until bb_document_close
 *   status   value of the key "status"; NULL: the schema has no status
 *   Returns  0; -BB_EUSAGE after an error message if the file cannot be written; -BB_EFAIL if memory is exhausted
 */
int bb_document_open(struct bb_document *d, const char *path, json_t *root, const char *status) BB_MUST_CHECK;

/* bb_document_add - queue a row for the next bb_document_save. The function releases row. Returns 0, or -BB_EFAIL
 * after an error message if row is invalid or memory is exhausted. */
int bb_document_add(struct bb_document *d, json_t *row) BB_MUST_CHECK;

/* bb_document_changed - mark a key of root as changed. A changed key of the head makes the next save rewrite the
 * whole file. */
void bb_document_changed(struct bb_document *d, const char *key);

/* bb_document_save - write all queued rows and changed fields. Returns 0 or -BB_EFAIL; only the first failure is
 * reported. */
int bb_document_save(struct bb_document *d, const char *status);

/* bb_document_due - returns whether at least 20 times the duration of the last write has passed since that write.
 * Changes that may wait are saved only then, so writing takes at most 5 % of the time. */
bool bb_document_due(const struct bb_document *d);

/* bb_document_close - save, flush to disk (fsync), put the file in place and release the document. Returns 0 or
 * -BB_EFAIL. A document that is not open is allowed. */
int bb_document_close(struct bb_document *d, const char *status);

/*
 * bb_document_take_over - claim the document from a writer that is blocked in I/O.
 *   Returns  true if the writer is in a call that may not return; the writer then never touches the document again, and
 *            the calling thread saves the document with bb_document_rescue. True at most once.
 * bb_document_rescue - write the queued rows and the status, and remove the temporary file. Only after a take-over.
 */
bool bb_document_take_over(struct bb_document_seat *seat);
void bb_document_rescue(struct bb_document *d, const char *status);

/* bb_document_print - write root with its rows to a stream. Returns 0; otherwise errno is the reason. */
int bb_document_print(json_t *root, const char *status, FILE *out);

#endif
