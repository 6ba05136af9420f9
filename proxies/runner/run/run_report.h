/*
 * run_report.h - prints the results of a proxy run and writes them as JSON. The values come from step_measure.h.
 */
#ifndef BB_PROXIES_RUNNER_RUN_RUN_REPORT_H
#define BB_PROXIES_RUNNER_RUN_RUN_REPORT_H

#include "bootstrap/results/results.h"
#include "collectives/session/session.h"
#include "proxies/form/step/step.h"
#include "proxies/runner/run/run_forecast.h"
#include "proxies/runner/run/step_measure.h"
#include "proxies/simulation/timeline/critical_path.h"
#include "proxies/simulation/timeline/waiting.h"

/* Input of the reports. The caller owns all pointers. */
struct bb_run_report {
    const struct bb_step *step;
    const struct bb_session *session;
    int argc; /* argc, argv: the command line */
    char **argv;
    const struct bb_measure_plan *plan;
    const struct bb_measured *measured;
    const struct bb_run_forecast *forecast;
    int compute_sms;    /* number of SMs that timed kernels (kernels that run for a given time) occupy */
    double peak_tflops; /* peak TFLOP/s of one GPU; 0: unknown */
    bool check;         /* true: --check was given */
    bool full;          /* true: --full was given: print all tables */
    bool scaled;        /* true: --scale-counts is below 1 */
    bool checked;       /* true: the data check compared data, and `wrong` is valid */
    char compute[160];  /* what the compute times rest on; "": the kernels of the layers on these GPUs */
    char memory[160];   /* the GPU memory that real training needs */
    int nearest_ranks;  /* for a proxy that cannot run on this number of ranks: the nearest number of ranks on which
                           it can run; 0: unknown */
    const struct bb_wait_table *waiting;     /* waiting times of all roles and groups */
    const struct bb_critical_path *critical; /* critical path of the traced step; NULL: no trace was requested */
    unsigned long long wrong; /* number of wrong elements found by the data check, summed over all ranks */
    char first_wrong[BB_RANK_TEXT + BB_OP_NAME]; /* the first rank with wrong elements, and the operation */
};

/*
 * Ranks that delay the others (slow_ranks.c).
 * bb_run_waiting       - adds the rows of all roles and groups to the table of waiting times; none without traced steps.
 *                        Its late_rank waits less than the other ranks of its role; BB_NONE: none.
 * bb_run_slow_json     - returns a list of the ranks whose kernels (transfers: whose transfers in a group) take longer
 *                        than those of other ranks of their role.
 * bb_run_culprit_print - prints the ranks with slow kernels and the groups with slow transfers, or else the late rank, or
 *                        that communication takes longer than predicted, or without a prediction that NICs cannot be
 *                        judged; of ranks whose role no other rank has, those with longer kernels or idle time, with
 *                        both possible causes.
 * bb_run_longest_print - prints the role that computes longest, if longer than the slowest rank of the step.
 */
void bb_run_waiting(const struct bb_measured *m, const struct bb_step *step, struct bb_wait_table *w);
json_t *bb_run_slow_json(const struct bb_run_report *r, bool transfers);
void bb_run_culprit_print(const struct bb_run_report *r, FILE *out);
void bb_run_longest_print(const struct bb_run_report *r, int slowest, FILE *out);

/*
 * bb_run_report_begin  - prints what is known before the run: command line, machine, job.
 * bb_run_report_text   - prints the results of the run.
 */
void bb_run_report_begin(const struct bb_run_report *r, FILE *out);
void bb_run_report_text(const struct bb_run_report *r, FILE *out);

/*
 * `busbar proxy all` reports all proxies in one table. r->measured contains the results of one proxy; r->step is NULL
 * if the proxy cannot run on this number of ranks.
 * bb_run_report_head  - prints the heading of the table.
 * bb_run_report_line  - prints the table row of one proxy.
 * bb_run_report_row   - returns the table row of one proxy as JSON.
 */
void bb_run_report_head(const struct bb_run_report *r, FILE *out);
void bb_run_report_line(const struct bb_run_report *r, const char *proxy, FILE *out);
json_t *bb_run_report_row(const struct bb_run_report *r, const char *proxy);

/* bb_run_report_json - returns an object with the fields of the results (format busbar.proxy/1) that a run adds to
 * those of the plan. groups: the plan's array of groups; the function takes ownership and adds the results of the
 * slowest rank to its objects. */
json_t *bb_run_report_json(const struct bb_run_report *r, json_t *groups);

/* bb_run_timeline_gather (run_trace.c) - collects in t the operation times of the final traced step (in m) of the
 * ranks that t selects. All ranks call this together. The caller releases t, also after an error. */
int bb_run_timeline_gather(struct bb_runner *r, const struct bb_step *step, const struct bb_measured *m,
                           struct bb_timeline *t) BB_MUST_CHECK;

/*
 * bb_run_trace_save (run_trace.c) - collects on rank 0 the operation times of the final traced step (in m), in messages
 * of at most 16 MiB per rank, and writes them to the trace file `path` (timeline.h). All ranks call this together.
 *   devices   [world.size] GPU of each rank
 *   critical  out, rank 0: the critical path of the step; released by the caller
 *   unsaved   out: -BB_EFAIL if the file cannot be written, else 0; the caller can still print the report
 *   Returns   0, or -BB_EFAIL on every rank after printing an error
 */
int bb_run_trace_save(struct bb_runner *r, const struct bb_step *step, const struct bb_measured *m,
                      const struct bb_device_info *devices, const char *path, struct bb_critical_path *critical,
                      int *unsaved) BB_MUST_CHECK;

#endif
