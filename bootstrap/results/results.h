/*
 * results.h - the JSON of a run (design: schemas busbar.bench/1, busbar.proxy/1, busbar.plan/1). Typed values, units in
 * the names, null for not applicable.
 *
 * The file is whole after every row (document.h): a row is in it when bb_results_row returns, before the next is
 * measured, and no later death of the process takes it away. Other fields follow with the next row, or at the end,
 * where writing them at once would cost more than 5 % of the time. A killed run leaves its rows and the status
 * "running"; one that ends early, but by itself, leaves its status. "-", a pipe or a device is written once, at the
 * end.
 *
 * A file that cannot be written while the run goes on (a full disk, a removed folder) does not end it: that is said
 * once, tried again with what comes next, and fails bb_results_close if it still holds then.
 *
 * Only rank 0 holds anything; on other ranks, and without a file, all calls succeed and do nothing but release what
 * they are given, so callers need no branches. json_t arguments are taken over (also on failure).
 */
#ifndef BB_BOOTSTRAP_RESULTS_RESULTS_H
#define BB_BOOTSTRAP_RESULTS_RESULTS_H

#include "bootstrap/base/stats.h"
#include "bootstrap/cli/opts.h"
#include "bootstrap/world/world.h"

#include <jansson.h>
#include <stdio.h>

/* One GPU as the results name it; plain data, so that it can be gathered with bb_world_allgather. */
struct bb_results_device {
    int rank;
    char host[BB_HOST_TEXT], name[96], uuid[48], pci[24];
};

struct bb_results_head {
    const char *schema; /* "busbar.bench/1"                                        */
    const char *path;   /* NULL: no JSON is wanted; "-": to `out`                  */
    const char *csv;    /* the rows as a table (flat_table.h), written at the end; as path */
    FILE *out;          /* stdout of the program                                   */
    int argc;           /* the command as it was typed                             */
    char **argv;
    int nccl_header, nccl_runtime;           /* codes as 22809; 0: null                         */
    int cuda_runtime, cuda_driver;           /* codes as 13000; 0: null                         */
    const struct bb_results_device *devices; /* [n_devices], one per rank; may be NULL */
    int n_devices;
    bool emulated;
    bool shared_gpu;
    json_t *root; /* of another program's schema, results[] in it; taken over by rank 0's. NULL: busbar's  */
    bool fresh;   /* no file is replaced: FILE.0, FILE.1 .. are taken instead of one that exists              */
    bool no_rows; /* the schema has no results[] (proxy, plan) */
};

struct bb_results; /* opaque: holds a lock */

/*
 * bb_results_open - *res = the results of this run, with the head written (a path that cannot be written fails here,
 * not after an hour). world may be NULL (plan). The head's texts are copied. Returns 0, -BB_EUSAGE (path) or -BB_EFAIL.
 */
int bb_results_open(struct bb_results **res, const struct bb_results_head *head, struct bb_world *world) BB_MUST_CHECK;

/* bb_results_validate - --json and --csv, before anything starts: both cannot go to stdout (-BB_EUSAGE, said).
 * bb_results_on_stdout: one of them goes there, so nothing else may. */
int bb_results_validate(const char *json, const char *csv) BB_MUST_CHECK;
bool bb_results_on_stdout(const char *json, const char *csv);

/* bb_results_path - the file that is written; NULL: none. */
const char *bb_results_path(const struct bb_results *res);

/* bb_results_row - append to "results". */
int bb_results_row(struct bb_results *res, json_t *row) BB_MUST_CHECK;

/* bb_results_set - set a field of the top level ("groups", "step_us"); keys keep the order in which they were set
 * first. */
int bb_results_set(struct bb_results *res, const char *key, json_t *value) BB_MUST_CHECK;

/* bb_results_at_end - fn is called when what became of the run stands in its file, with that: the close of it is over
 * then but for its length. NULL is fine. */
void bb_results_at_end(struct bb_results *res, void (*fn)(int rc));

/*
 * bb_results_close - set "status" by rc, write the last time, free. NULL is fine. Returns rc if it is < 0, else 0 or
 * -BB_EFAIL: a full disk, or a stdout that cannot be written, is a failed run. Of a run that went well called last,
 * when its ranks have ended (bb_session_release): world may be released by then.
 * Status: ok (0) | failed (1, 2) | interrupted (by a signal or a library's exit(), with ended_by and phase) |
 * wrong data (3) | timeout (4) | below threshold (5) | running (never closed, or not to its end).
 */
int bb_results_close(struct bb_results *res, int rc);

/* bb_json_real - a number, or null when it is NaN or infinite. */
json_t *bb_json_real(double value);

/* bb_json_stats - {min, p50, p90, p99, max, mean, ci95: [low, high] | null}; the unit is in the key it is stored under.
 */
json_t *bb_json_stats(const struct bb_stats *stats);

/* bb_json_options - the effective options of a run as an object, by long name with _ for -: `options{}` of the schemas.
 */
json_t *bb_json_options(const struct bb_opts *set, const void *cfg);

/* bb_json_save - a document, taken over, to a file that is whole or not there; path "-": to stdout. what: as of
 * bb_outfile_open. root NULL: there was no memory for it. decimals: digits of its numbers, 0: all. -BB_EFAIL, said. */
int bb_json_save(const char *path, const char *what, json_t *root, int decimals) BB_MUST_CHECK;

/* bb_json_environment - of the environment what files may tell (environment.h), never the whole of it. */
json_t *bb_json_environment(void);

#endif
