/*
 * document.h - the JSON results document: one object, whose list "results" contains the rows.
 *
 *    { "schema": .., .., "results": [ row, row, .. ], "memory_bytes": .., "status": "running" }
 *    |------------ head ------------|---- rows -----|------------------ tail ------------------|
 *
 * A document with a file is complete on disk after every row. The file is created under a temporary name and then
 * renamed (outfile.h). From then on, one pwrite(2) per row overwrites the old tail with the new row and a new tail, so
 * the time and the written bytes per row are independent of the number of rows. A saved row survives the death of the
 * process. If the process dies during a write, or if another process reads the file during a write, the last row may be
 * truncated; all earlier rows are complete.
 *
 * The text of all rows also stays in memory, so a file that another process shortens, changes or removes is written
 * again. If another run replaces the file, this run does not touch the new file until the end of this run, when this
 * run replaces the file in turn. A write error (full disk, removed folder) causes one warning, and the write is retried
 * with a later change; the run fails only if the error persists at its end.
 *
 * A document must be used by one thread only.
 */
#ifndef BB_BOOTSTRAP_RESULTS_DOCUMENT_H
#define BB_BOOTSTRAP_RESULTS_DOCUMENT_H

#include "bootstrap/base/outfile.h"

#include <jansson.h>

#define BB_KEPT_FILE "the run was interrupted before its first result: %s still has the results of an earlier run"

struct bb_document {
    json_t *root;    /* fields of head and tail, owned; its list "results" stays empty; NULL: not open */
    char *text;      /* JSON text of the document */
    size_t capacity; /* capacity of `text` in bytes */
    size_t rows_at, rows_end, bytes; /* offsets in `text` of the first row, after the last row, and after the tail */
    struct bb_outfile file;          /* the JSON file; out NULL: the document has no file, or none yet */
    char
        *replaces; /* path of an earlier file, which the first row or the end replaces; NULL: none, or it is replaced */
    size_t saved;  /* the file contains `text` up to this offset: the head and the saved rows; 0: the head in the
                           file is outdated */
    size_t end;    /* length of the file; blanks follow the JSON text if the tail has become shorter */
    double saved_s;     /* time at which the last write ended (bb_now_s) */
    double cost_s;      /* duration of the last write in seconds */
    bool failing;       /* the last write failed */
    const char *damage; /* what another process did to the file, which was then written again; NULL: nothing */
    bool warned;        /* the warning about a write error was printed */
    bool reported;      /* the error about the final write was printed */
};

/*
 * bb_document_open - start a document.
 *   d        out; must be released with bb_document_release, also after a failure
 *   root     JSON object with the fields of head and tail; consumed. Rows can be added if it has the empty list
 *            "results". The field "status" is always written last.
 *   path     file to write; NULL: the document has no file. An existing file that is not empty remains until the first row
 *            or the end; if the run is interrupted without a row, it is not replaced
 *   Returns  0; -BB_EUSAGE after an error message if the file cannot be written
 */
int bb_document_open(struct bb_document *d, json_t *root, const char *path) BB_MUST_CHECK;

/*
 * bb_document_add - add a row, and write it to the file at once.
 * bb_document_set - set a field of the head or the tail. The field is written at once, unless writing fields takes more
 * than 5 % of the run's time; then it is written with the next row or at the end. A changed field of the head makes the
 * next write rewrite the whole file.
 * Both functions: consume the JSON value; return 0, or -BB_EFAIL after an error message if the value is invalid.
 * bb_document_remove_rows - remove all rows. The next change that is written writes the file again; until then it keeps them.
 */
int bb_document_add(struct bb_document *d, json_t *row) BB_MUST_CHECK;
int bb_document_set(struct bb_document *d, const char *key, json_t *value) BB_MUST_CHECK;
void bb_document_remove_rows(struct bb_document *d);

/* bb_document_set_status - set the field "status", which becomes the last field. The file does not change yet. */
void bb_document_set_status(struct bb_document *d, const char *status);

/*
 * bb_document_sync - write all changes, compare the file with the document, write the file again if another process has
 * changed, removed or replaced it, and flush the file to disk (fsync).
 * bb_document_finish - do what bb_document_sync does, and truncate the file to the length of the document. The status
 * "ok" is written only after everything else was flushed to disk; until then the file has the status "running". If
 * another process shortened or changed the file during the run, the status is "failed", and the function fails although
 * all rows are in the file.
 * Both functions: return 0 or -BB_EFAIL; only the first failure prints an error. They do nothing without a file.
 */
int bb_document_sync(struct bb_document *d) BB_MUST_CHECK;
int bb_document_finish(struct bb_document *d) BB_MUST_CHECK;

/* bb_document_print - write the whole document to a stream. The caller checks the stream for write errors. */
void bb_document_print(const struct bb_document *d, FILE *out);

/* bb_document_release - close the file and free the document. */
void bb_document_release(struct bb_document *d);

#endif
