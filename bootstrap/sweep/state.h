/*
 * state.h - what is on disk of a study: for each combination, under its id,
 *
 *   ID.json       what busbar wrote (--json)
 *   ID.out .err   its output
 *   ID.run.json   how the run ended: {"schema": "busbar.sweep.run/1", "exit_status": 2, "seconds": 3.5}; written last,
 *                 by the sweep or by a task of the array job
 *
 * A combination is complete when its result is whole: JSON with a schema whose status is "ok" (or that has none, as a
 * plan). Nothing else is asked, so that it does not matter where a sweep was stopped; a result that a run is still
 * writing has the status "running". It has failed when its run has ended and its result is not whole.
 */
#ifndef BB_BOOTSTRAP_SWEEP_STATE_H
#define BB_BOOTSTRAP_SWEEP_STATE_H

#include "bootstrap/sweep/expand.h"

enum bb_sweep_state { BB_SWEEP_TO_DO, BB_SWEEP_COMPLETE, BB_SWEEP_FAILED };
extern const char *const bb_sweep_state_names[];

/* A combination's files, read. */
struct bb_sweep_found {
    enum bb_sweep_state state;
    json_t *result;  /* NULL: none that can be read; of a failed one as far as it came */
    int exit_status; /* -1: not known; 124: its time was up; 128 + n: ended by signal n */
    double seconds;  /* NaN: not known                                                  */
};

/* bb_sweep_file - dir/ID and an ending (".json"), owned by the caller; NULL without memory (said). */
char *bb_sweep_file(const char *dir, const struct bb_sweep_run *c, const char *ending);

/* bb_sweep_load_state - read what is there. found is to be released; files that are missing or broken are no error,
 * but no memory for them is (said): a run that is complete would be taken for one that is to do. */
int bb_sweep_load_state(const char *dir, const struct bb_sweep_run *c, struct bb_sweep_found *found) BB_MUST_CHECK;
void bb_sweep_found_release(struct bb_sweep_found *found);

/* bb_sweep_last_lines - the last lines of what a combination said on stderr, at most 5, as a JSON list: busbar's own
 * errors, or, without any, whatever there is; without a file an empty list. Bytes that are no UTF-8 become '?'. */
json_t *bb_sweep_last_lines(const char *dir, const struct bb_sweep_run *c);

/* bb_sweep_remove_files - remove a combination's files before it runs again. */
int bb_sweep_remove_files(const char *dir, const struct bb_sweep_run *c) BB_MUST_CHECK;

/* bb_sweep_record - write ID.run.json. */
int bb_sweep_record(const char *dir, const struct bb_sweep_run *c, int exit_status, double seconds) BB_MUST_CHECK;

/* bb_sweep_lock_folder - make the folder if it is not there, and keep other sweeps out of it while *lock is open (lock NULL:
 * only look). */
int bb_sweep_lock_folder(const char *dir, int *lock) BB_MUST_CHECK;

#endif
