/*
 * state.h - the files of a study. Each combination has, under its id:
 *
 *   ID.json         result that busbar wrote (--json), or that another program wrote to {json}
 *   ID.out, ID.err  stdout and stderr
 *   ID.run.json     how the run ended: {"schema": "busbar.sweep.run/1", "exit_status": 2, "seconds": 3.5}; written
 *                   last, by the sweep or by the task of an array job, with the inputs of the run: "files" that the
 *                   command names, with a hash of their contents, and "environment", with hashes of the variables
 *                   NCCL_* and EMU_* of the shell (array jobs: at the time when the script was written). The inputs
 *                   are written before the run, too
 *
 * A combination is complete if its result is a JSON document with a schema and the status "ok" (or without a status, or
 * "does not fit", as from plan), and its exit status is 0 or not recorded. The state depends on these files only, so a sweep can be
 * interrupted at any point; a result that a run is still writing has the status "running". A combination has failed if
 * its run ended and its result is not complete; it is below its threshold if a run of busbar ended with the exit status
 * 5 (BB_EBELOW), for example because of --min-busbw. A combination whose input files have changed is to do.
 *
 * The result of a program other than busbar consists of its metrics (study.h). It is complete if the exit status is 0
 * and every metric was found.
 */
#ifndef BB_BOOTSTRAP_SWEEP_STATE_H
#define BB_BOOTSTRAP_SWEEP_STATE_H

#include "bootstrap/sweep/expand.h"

enum bb_sweep_state { BB_SWEEP_TO_DO, BB_SWEEP_COMPLETE, BB_SWEEP_FAILED, BB_SWEEP_BELOW, BB_SWEEP_STATES };
extern const char *const bb_sweep_state_names[];
extern const char bb_sweep_misfit[]; /* status in the result of a plan, and state in the table */

/* State of a combination, read from its files. */
struct bb_sweep_found {
    enum bb_sweep_state state;
    bool
        misfit; /* the plan of the combination does not fit in GPU memory; with --must-fit its run is below threshold */
    json_t *result;     /* parsed ID.json, also of a failed run; NULL: missing or not valid JSON. Programs other than
                        busbar: see bb_sweep_read_metrics; NULL: not complete */
    int exit_status;    /* exit status of the run; -1: unknown; 124: timeout; 128 + n: killed by signal n */
    double seconds;     /* duration of the run in seconds; NaN: unknown */
    char *changed_file; /* an input file that has changed since the run; NULL: none, or not recorded */
    char *changed_variable; /* a variable of the shell that has changed since the run; NULL: none, or not recorded */
    json_t *errors; /* for a program that exited with 0: which metric is missing. Else the last lines of a failed run's
                        stderr, at most 5, as a JSON list. If stderr contains error
                        messages of busbar, only these; otherwise, lines of any origin. Bytes that are not UTF-8 become
                        '?'. NULL if the run is not failed or below its threshold */
};

/* bb_sweep_file - return the path dir/ID + ending (for example ".json"), owned by the caller. */
char *bb_sweep_file(const char *dir, const struct bb_sweep_run *c, const char *ending);

/* bb_sweep_load_state - read the files of a combination. A combination with a missing or invalid file is not complete.
 * The caller releases found with bb_sweep_found_release. */
void bb_sweep_load_state(const char *dir, const struct bb_sweep_run *c, struct bb_sweep_found *found);
void bb_sweep_found_release(struct bb_sweep_found *found);
/* bb_sweep_has_error - return whether one of the first n errors is this line, except for numbers, such as those of the rank.
 * bb_sweep_is_same_failure - return whether two runs failed with the same exit status and the same errors, of any number of
 * ranks, except for numbers: other sizes of a layout that is not possible. Runs without an error differ. */
bool bb_sweep_has_error(const json_t *errors, size_t n, const char *line);
bool bb_sweep_is_same_failure(const struct bb_sweep_found *a, const struct bb_sweep_found *b);

/*
 * bb_sweep_read_metrics - read the metrics of a program other than busbar from the files of its run (metrics.c).
 *   problem  out: what is missing or invalid, one line, owned by the caller; NULL: nothing
 *   Returns  the result, owned by the caller; NULL if there is a problem
 *
 * Patterns are matched with each line of stdout, and with stderr if no line of stdout matches. The result is
 * {"results": [{"bytes": 1024, "time_us": 7.5}, ...]} with one element per matching line; a metric with one line, in
 * a result of several lines, is at the top level. With {json}, the result is the program's file, to which the value at
 * the path of each metric is added under the name of the metric.
 */
json_t *bb_sweep_read_metrics(const char *dir, const struct bb_sweep_run *c, char **problem) BB_MUST_CHECK;

/* bb_sweep_follow - return the value at a path such as "step_us.p50" or "groups.0.bytes", borrowed; NULL if the path
 * does not exist. A number is its own median: "time_us.p50" finds {"time_us": 7.5}. */
json_t *bb_sweep_follow(const json_t *from, const char *path);

/* bb_sweep_replaces - return whether writing the file `path` would replace a file of a combination. */
bool bb_sweep_replaces(const char *dir, const struct bb_sweep_run *c, const char *path);

/* bb_sweep_await_previous - wait until the previous run of a combination has ended, which may take seconds after its
 * sweep was killed and would then replace the result of a new run. A run holds a lock (flock) of its ID.out. Returns 0,
 * or -BB_EFAIL after 30 seconds. */
int bb_sweep_await_previous(const char *dir, const struct bb_sweep_run *c) BB_MUST_CHECK;

/* bb_sweep_remove_files - remove the files of a combination before the combination runs again. Returns 0 or
 * -BB_EFAIL. */
int bb_sweep_remove_files(const char *dir, const struct bb_sweep_run *c) BB_MUST_CHECK;

/* bb_sweep_inputs - return the inputs of a run that starts now, for its record, owned by the caller. */
json_t *bb_sweep_inputs(const struct bb_sweep_run *c);

/*
 * bb_sweep_record - write ID.run.json.
 *   inputs       bb_sweep_inputs before the run. After the run, files that it has changed are removed: they are outputs
 *   exit_status  exit status of the run; -1: the run has not ended
 *   Returns      0 or -BB_EFAIL
 */
int bb_sweep_record(const char *dir, const struct bb_sweep_run *c, json_t *inputs, int exit_status,
                    double seconds) BB_MUST_CHECK;

/*
 * bb_sweep_lock_folder - create the folder `dir` if needed, and lock it against other sweeps.
 *   lock     out: descriptor of the lock file; closing it releases the lock. NULL: do not lock, for a sweep that only
 *            reads
 *   Returns  0; -BB_EUSAGE or -BB_EFAIL after an error message
 */
int bb_sweep_lock_folder(const char *dir, int *lock) BB_MUST_CHECK;

#endif
