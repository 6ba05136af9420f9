/*
 * document.h - the file of results while it grows: a JSON object with rows in "results".
 *
 *    { "schema": .., .., "results": [ row, row, .. ], "memory_bytes": .., "status": "running" }
 *    |------------ head ------------|---- rows -----|------------------ tail ------------------|
 *
 * The file is a whole JSON document after every row. It is made under another name and takes its place (outfile.h);
 * from then on a row and a new tail are written over the old tail, with one pwrite. So a row costs the same however
 * many there are, in time, in bytes written and in memory (rows are kept nowhere but in the file), and a row that was
 * saved outlives the process. Whoever reads in the very microseconds of that write, or kills the writer in them, may
 * find the last row cut; the rows before it are there.
 *
 * What cannot be written (a full disk, a removed folder) is said once, kept, and tried again with what comes next. A
 * file that was removed is made anew from what is still open; one that another run has replaced is left to it until
 * the end, when this one takes its place.
 *
 * A write may never return: a file system hangs, or a library calls exit() in it. Whoever ends the run meanwhile takes the
 * document over (bb_document_take_over) while its writer is in such a call, and touches nothing; the writer that comes
 * back finds it so, and does not go on.
 */
#ifndef BB_BOOTSTRAP_RESULTS_DOCUMENT_H
#define BB_BOOTSTRAP_RESULTS_DOCUMENT_H

#include "bootstrap/base/outfile.h"

#include <jansson.h>
#include <stdatomic.h>
#include <sys/types.h>

/* The writer's seat: where it is, the other name of the file that it makes (NULL without), and what is to be called when
 * the last status is in the file (NULL: nothing), with what. */
struct bb_document_seat {
    atomic_int state;
    char *_Atomic temporary;
    void (*at_end)(int rc);
    int rc;
};

struct bb_document {
    struct bb_document_seat *seat; /* the caller's; NULL: nobody takes over */
    struct bb_outfile file;        /* path NULL: none is open           */
    json_t *root, *rows;           /* the caller's; rows of the file are not in it; rows NULL: the schema has none */
    size_t n_head;                 /* keys of root in front of the rows */
    off_t rows_from, rows_to;      /* of the rows that are in the file        */
    off_t text_end, end;           /* line breaks between, where a tail became shorter */
    char *unsaved;                 /* rows that are not in the file yet, as text */
    size_t unsaved_bytes;
    double saved_s, cost_s; /* end and duration of the last write */
    bool stale_head, dirty; /* what has changed since             */
    bool told;              /* that the file cannot be written    */
};

/* bb_document_open - the file, with head and tail, and d->seat as it is. status NULL: the schema has none. -BB_EUSAGE: it
 * cannot be written; -BB_EFAIL: no memory. */
int bb_document_open(struct bb_document *d, const char *path, json_t *root, const char *status) BB_MUST_CHECK;

/* bb_document_add - a row, not yet in the file; released. -BB_EFAIL: it is no JSON, or no memory (said). */
int bb_document_add(struct bb_document *d, json_t *row) BB_MUST_CHECK;

/* bb_document_changed - key of root was set. */
void bb_document_changed(struct bb_document *d, const char *key);

/* bb_document_save - all that was added is in the file: 0 or -BB_EFAIL (said, the first time). */
int bb_document_save(struct bb_document *d, const char *status);

/* bb_document_due - the last write is at least 20 times its own duration ago: for what may wait, so that writing takes
 * at most 5 % of the time. */
bool bb_document_due(const struct bb_document *d);

/* bb_document_close - saved, on the disk, and in its place; 0 or -BB_EFAIL. Fine on one that is not open. */
int bb_document_close(struct bb_document *d, const char *status);

/* bb_document_take_over - whether the writer is in a call that may not return, and never comes back to the document: then
 * this thread saves it by bb_document_rescue, which leaves no other name of the file. Once. */
bool bb_document_take_over(struct bb_document_seat *seat);
void bb_document_rescue(struct bb_document *d, const char *status);

/* bb_document_print - root, its rows in it, to a stream. Not 0: errno tells why. */
int bb_document_print(json_t *root, const char *status, FILE *out);

#endif
