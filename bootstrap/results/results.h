/*
 * results.h - JSON and CSV results of a run (schemas busbar.bench/1, busbar.proxy/1, busbar.plan/1). Values are typed,
 * keys end in their unit, and null means "not applicable".
 *
 * The results of a supervised run are written by another process (serve.h), which also writes the final status when the
 * supervisor reports how the job ended. Without a supervisor, for example in an offline command, this process writes
 * the results.
 *
 * The JSON file is complete after every row (document.h): a row is in the file when bb_results_row returns, before the
 * next measurement, and survives the death of the process. Other fields are written with the next row or at the end if
 * writing them at once would take more than 5 % of the time. If the run is killed together with the process that writes
 * the results, the file contains its rows and the status "running". Stdout ("-"), a pipe or a device is written once,
 * at the end.
 *
 * A write error during the run (full disk, removed folder) does not end the run. One warning is printed, the write is
 * retried with a later change, and the run fails if the error persists at its end.
 *
 * Only rank 0 writes results. On other ranks, and without a file, every call succeeds and only releases its arguments,
 * so callers need no branches. Every json_t argument is consumed, also on failure.
 */
#ifndef BB_BOOTSTRAP_RESULTS_RESULTS_H
#define BB_BOOTSTRAP_RESULTS_RESULTS_H

#include "bootstrap/base/stats.h"
#include "bootstrap/cli/opts.h"
#include "bootstrap/world/world.h"

#include <jansson.h>
#include <stdio.h>

/* bb_results_at_end - complete the document of a run that has ended early, in the process that writes the results, before
 * the other ranks and the launcher know of the end. root: the document without the rows. */
typedef void bb_results_at_end(json_t *root, const json_t *rows);

struct bb_results_head {
    const char *schema; /* for example "busbar.bench/1" */
    const char *path;   /* JSON file; "-": the JSON is written to stdout; NULL: no JSON */
    const char *csv;    /* CSV file with the rows (flat_table.h), written at the end; "-": the CSV is written to stdout;
                        NULL: no CSV */
    const char *junit, *prometheus; /* files for the checks (checks.h), written at the end; NULL: none */
    bool nagios;                    /* print the checks to stdout as the line of a Nagios plugin */
    FILE *out;                      /* stdout of this process; used if this process writes the results */
    int argc;                       /* argc, argv: the command line as typed */
    char **argv;
    int nccl_header, nccl_runtime; /* NCCL version codes, such as 22809, of the header at compile time and of the
                                      loaded library; 0: null in the JSON */
    int cuda_runtime, cuda_driver; /* CUDA version codes, such as 13000, of the runtime and of the driver; 0: null in
                                      the JSON */
    const char *nvidia_driver;     /* version of NVIDIA's driver; NULL, "": null in the JSON */
    json_t *devices;               /* list of the ranks with their GPUs, as in the document; borrowed. NULL: empty */
    bool emulated;                 /* the GPUs are emulated, so all times come from a model */
    bool shared_gpu;               /* several ranks share a GPU, so times are meaningless */
    json_t *root; /* the complete document, including results[], if its schema is that of nccl-tests; consumed. NULL:
                     the document has a busbar schema and is built by the functions below */
    bool fresh;   /* true: an existing file is not replaced; the results go to the first unused name of FILE.0, FILE.1,
                   ... */
    bool no_rows; /* the schema has no results[] (proxy, plan) */
    bool always;  /* the document is built without any target, too, for at_end */
    bb_results_at_end *at_end; /* only of bb_supervise; may be NULL */
};

struct bb_results; /* opaque */

/* bb_results_set_targets - set the members json to nagios of the head, in which the results are written. */
void bb_results_set_targets(struct bb_results_head *head, const struct bb_common *common);

/*
 * bb_results_open - start the results of this run and write the head. Fails if a path cannot be written, so that such a
 * run ends before its measurements.
 *   res      out: the results; NULL on other ranks than 0, and if neither JSON nor CSV is requested
 *   head     settings of the results and contents of their head; strings are copied
 *   world    ranks of the run; must exist until bb_results_close. NULL: one rank, not supervised (plan)
 *   Returns  0; -BB_EUSAGE if a path cannot be written, or -BB_EFAIL; both after an error message
 *   Owner    the caller releases res with bb_results_close
 */
int bb_results_open(struct bb_results **res, const struct bb_results_head *head, struct bb_world *world) BB_MUST_CHECK;

/*
 * bb_results_opening - return the request that opens the results of a supervised run which fails before its rank 0 opens
 * them (bb_results_serve). GPUs and versions of libraries are not known then.
 *   ranks, nodes  of the job, as far as known
 *   Owner         the caller; NULL if neither JSON nor CSV is requested
 * bb_results_write_failure - write the results of a run that failed with rc before it was supervised. opening: consumed.
 */
json_t *bb_results_opening(const struct bb_results_head *head, int ranks, int nodes) BB_MUST_CHECK;
void bb_results_write_failure(json_t *opening, int rc);

/*
 * bb_results_validate - check --json and --csv before the run starts: at most one of them may be "-" (stdout), and file
 *     names must be valid UTF-8.
 *   Returns  0, or -BB_EUSAGE after an error message
 * bb_results_on_stdout - return whether --json or --csv is "-", so that nothing else may be printed to stdout.
 */
int bb_results_validate(const char *json, const char *csv) BB_MUST_CHECK;
bool bb_results_on_stdout(const char *json, const char *csv);

/* bb_results_path - return the path of the JSON file; NULL: no file. */
const char *bb_results_path(const struct bb_results *res);

/* bb_results_row - append a row to "results". */
int bb_results_row(struct bb_results *res, json_t *row) BB_MUST_CHECK;

/* bb_results_set - set a top-level field (such as "groups" or "step_us"). Fields appear in the order in which they
 * were first set.
 * bb_results_set_all - set the top-level fields that the object `fields` contains. */
int bb_results_set(struct bb_results *res, const char *key, json_t *value) BB_MUST_CHECK;
int bb_results_set_all(struct bb_results *res, json_t *fields) BB_MUST_CHECK;

/*
 * bb_results_close - write and free the results. If this process writes the results, "status" is set from rc; otherwise
 * the rows are flushed to disk, and the status is set at the end of the job.
 *   res      may be NULL
 *   rc       status of the run: 0 or a negative error code
 *   Returns  rc if rc < 0; else 0, or a negative error if a file or stdout could not be written (the run then has
 *            failed)
 *
 * "status" is one of:
 *   ok               the run succeeded
 *   failed           BB_EFAIL or BB_EUSAGE
 *   interrupted      ended by a signal, the loss of the launcher or of the supervisor, or a library's call of exit();
 *                    adds the key ended_by
 *   wrong data       BB_EDATA
 *   timeout          BB_ETIMEOUT: a wait timed out, or a rank was lost
 *   below threshold  BB_EBELOW
 *   running          the run has not ended, or was killed before another status could be written
 * With every status except ok and running, the key "reason" contains the error line that explains it. If the run ended
 * early, "phase" contains the last step of rank 0 and what rank 0 waited for.
 */
int bb_results_close(struct bb_results *res, int rc);

/* bb_results_set_end - set the keys "status" and "reason" of a document that does not use struct bb_results (plan,
 * calibrate, sweep), as bb_results_close does. rc: 0 or a negative error code; reason: its error line, NULL: the error
 * that this process has printed. */
void bb_results_set_end(json_t *root, int rc, const char *reason);

/* bb_json_real - return a JSON number, or null for NaN and infinity. */
json_t *bb_json_real(double value);

/* bb_json_stats - return {min, p50, p90, p99, max, mean, ci95: [low, high] | null}. The caller stores the object
 * under a key that names the unit. */
json_t *bb_json_stats(const struct bb_stats *stats);

/* bb_json_text - return a text as a JSON string. JSON requires UTF-8: in other texts, bytes from 0x80 on become '?'. */
json_t *bb_json_text(const char *text);

/* bb_json_words - return a list of the texts in words[n], such as a command line (bb_json_text). */
json_t *bb_json_words(int n, char **words);

/* bb_json_options - return the effective options of a run as a JSON object, for the key "options" of the results. Its
 * keys are the long names of the options with '_' for '-'. An option without default that
 * was not given is null. set: table of the options; cfg: struct with their values. */
json_t *bb_json_options(const struct bb_opts *set, const void *cfg);

/*
 * bb_json_save - write a document to a file atomically (outfile.h).
 *   path      "-": stdout
 *   what      name of the document in error messages, as for bb_outfile_open
 *   root      consumed; NULL is an error: json_pack returns NULL for a text that is not valid UTF-8
 *   decimals  significant digits of numbers; 0: all
 *   Returns   0, or -BB_EFAIL after an error message
 */
int bb_json_save(const char *path, const char *what, json_t *root, int decimals) BB_MUST_CHECK;

/* bb_json_environment - return the environment variables that result files record (environment.h). */
json_t *bb_json_environment(void);
/* bb_json_restrictions - return the variables of an environment that can lower the bandwidth, "$NCCL_ALGO=Tree,
 * $NCCL_P2P_DISABLE=1", which the caller frees; NULL: there is none. Names busbar if it set variables for ranks that share a
 * GPU or use MIG instances. environment: as recorded; NULL: that of this process.
 * operation: only those that restrict the choice of algorithm and protocol of this operation, all_reduce for example. */
char *bb_json_restrictions(const json_t *environment, const char *operation);

#endif
