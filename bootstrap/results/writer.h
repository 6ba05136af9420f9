/*
 * writer.h - writes the results of a run: the JSON document (document.h), the CSV table (flat_table.h) and the final
 * status. Used by the process that writes the files: an offline command (results.h), or the process that writes the
 * results of a supervised run (serve.h). A writer must be used by one thread only.
 */
#ifndef BB_BOOTSTRAP_RESULTS_WRITER_H
#define BB_BOOTSTRAP_RESULTS_WRITER_H

#include "bootstrap/results/document.h"
#include "bootstrap/results/flat_table.h"
#include "bootstrap/results/results.h"

/* Requests, and the JSON value that belongs to each of them. */
enum bb_results_request {
    BB_RESULTS_OPEN = 64, /* create the files. Value: an object with
                             path, csv: JSON file and CSV file; "-": stream `out` of the writer; null: none
                             junit, prometheus, nagios: of struct bb_results_head
                             foreign:   the document has the schema of nccl-tests, which has no key "status"
                             root:      fields of the document, with an empty list "results" if the schema has rows */
    BB_RESULTS_ROW,       /* add a row to "results" and save the row. Value: the row */
    BB_RESULTS_SET,       /* set top-level fields. Value: an object with the fields */
    BB_RESULTS_CLOSE,     /* no further rows follow: flush the JSON file to disk; the status stays "running" */
    BB_RESULTS_FINISH,    /* the end of the run; sent only by the supervisor (serve.h) */
    BB_RESULTS_RANK,      /* the rank was started again, with this socket; sent only by the supervisor (serve.h) */
    BB_RESULTS_ANSWER     /* answer to a request; sent only by the process of serve.h */
};

/* Why a run ended early. Each text may be NULL or "": unknown. */
struct bb_results_end {
    const char *ended_by; /* signal or other cause that interrupted the run */
    const char *phase;    /* what rank 0 did last, and what it waited for */
    const char *reason;   /* the error line */
    const char *nccl_ras; /* answer of NCCL's RAS after a hang */
    json_t *lost;         /* list of the ranks that were lost, or did not arrive; borrowed. NULL: unknown */
};

/* bb_results_status - return the key "status" of a run that ended with rc: 0 or a negative error code. */
const char *bb_results_status(int rc);

/* bb_results_end_json - return an object with the known members of `end`, owned by the caller (bb_json_text). */
json_t *bb_results_end_json(const struct bb_results_end *end) BB_MUST_CHECK;

/* A writer. Before OPEN, `out` is set by the caller and all other members are zero. The writer is open if document.root
 * is not NULL. */
struct bb_results_writer {
    FILE *out;                   /* stream for targets with the path "-" */
    json_t *settings;            /* value of OPEN, owned */
    const char *path, *csv;      /* members of `settings` */
    bool foreign;                /* member of `settings` */
    bool reopens;                /* the rank was started again: OPEN removes all rows, which the rank adds again */
    struct bb_document document; /* the JSON; writes the file if `path` is a regular file */
    bb_results_at_end *at_end;   /* completes a document that ends early; NULL: nothing does */
    json_t *rows;                /* list of all rows, filled only for a CSV target, Prometheus metrics or at_end */
};

/*
 * bb_results_writer_execute - execute a request.
 *   w        open after a successful OPEN; the caller then releases the writer with bb_results_writer_release
 *   value    borrowed; may be NULL
 *   Returns  0; -BB_EUSAGE if OPEN cannot write the JSON or CSV target, or -BB_EFAIL; both after an error message
 */
int bb_results_writer_execute(struct bb_results_writer *w, enum bb_results_request request,
                              json_t *value) BB_MUST_CHECK;

/* bb_results_writer_open_failed - execute OPEN for a run that failed with rc before it opened its results. opening: value
 * of OPEN, borrowed; NULL: none. Does nothing if rc is 0 or -BB_EUSAGE. Returns as bb_results_writer_execute. */
int bb_results_writer_open_failed(struct bb_results_writer *w, json_t *opening, int rc) BB_MUST_CHECK;

/*
 * bb_results_writer_finish - set the final status and write all targets for the last time.
 *   rc       status of the run: 0 or a negative error code
 *   end      why the run ended early: object with the known members of struct bb_results_end. If it has the key
 *            "ended_by", the status is "interrupted". NULL: the reason is unknown, or the run did not end early
 *   Returns  rc if rc < 0; else 0, or a negative error after an error message if a target could not be written
 */
int bb_results_writer_finish(struct bb_results_writer *w, int rc, json_t *end);

/* bb_results_rescue - complete the JSON file of the killed process `writer`: remove the temporary files of that
 * process, and set the final status from rc and `why`. The file is unchanged if it is missing, not valid JSON, last
 * written before `began` (by an earlier run), or its schema has no status. */
void bb_results_rescue(const char *path, pid_t writer, time_t began, int rc, const struct bb_results_end *why);

void bb_results_writer_release(struct bb_results_writer *w);

#endif
