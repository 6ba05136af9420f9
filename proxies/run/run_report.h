/*
 * run_report.h - prints and writes the results of a run of a proxy. Formats only: the values come from step_measure.h.
 */
#ifndef BB_PROXIES_RUN_RUN_REPORT_H
#define BB_PROXIES_RUN_RUN_REPORT_H

#include "bootstrap/results/results.h"
#include "collectives/session/session.h"
#include "proxies/run/run_forecast.h"
#include "proxies/run/step_measure.h"
#include "proxies/step/step.h"
#include "proxies/timeline/critical_path.h"

/* The contents of a report. All pointers are owned by the caller. */
struct bb_run_report {
    const struct bb_step *step;
    const struct bb_session *session;
    int argc; /* the command line */
    char **argv;
    const struct bb_measure_plan *plan;
    const struct bb_measured *measured;
    const struct bb_run_forecast *forecast;
    int compute_sms;    /* SMs that timed kernels occupy */
    double peak_tflops; /* peak of one GPU; 0: unknown */
    bool checked;       /* the data were verified; see `wrong` */
    int nearest_ranks;  /* for a proxy that cannot run on these ranks: the nearest number of ranks; 0: unknown */
    const struct bb_critical_path *critical; /* path of the traced step; NULL: no trace */
    unsigned long long wrong;                /* wrong elements over all ranks */
};

/*
 * bb_run_report_begin - prints what is known before the run: command line, machine, job.
 * bb_run_report_text - prints the rest of the report.
 */
void bb_run_report_begin(const struct bb_run_report *r, FILE *out);
void bb_run_report_text(const struct bb_run_report *r, FILE *out);

/* Print the head of the table of `busbar proxy all`, and one line per proxy. measured is that of the proxy; step is
 * NULL for a proxy that cannot run on these ranks. */
void bb_run_report_head(const struct bb_run_report *r, FILE *out);
void bb_run_report_line(const struct bb_run_report *r, const char *proxy, FILE *out);
json_t *bb_run_report_row(const struct bb_run_report *r, const char *proxy);

/* bb_run_report_json - sets the fields of busbar.proxy/1 that a run adds to those of the plan. groups: the plan's
 * array of groups, taken over; its objects get the results of the slowest rank. */
int bb_run_report_json(const struct bb_run_report *r, struct bb_results *res, json_t *groups) BB_MUST_CHECK;

/* bb_run_timeline_gather (run_trace.c) - gathers the times of the newest traced step of m for the ranks that t
 * shows. Collective over the world. The caller releases t, also after an error. */
int bb_run_timeline_gather(struct bb_runner *r, const struct bb_step *step, const struct bb_measured *m,
                           struct bb_timeline *t) BB_MUST_CHECK;

/*
 * bb_run_trace_save (run_trace.c) - gathers the newest traced step of m on rank 0, in chunks of at most 16 MiB per
 * rank, and writes its timeline (timeline.h) to path. Collective over the world.
 *   devices   [world.size]
 *   critical  out, rank 0: the critical path of the step; released by the caller
 *   unsaved   out: -BB_EFAIL if the file cannot be written; the run may still print its report
 *   Returns   0 or, after printing an error, -BB_EFAIL on every rank
 */
int bb_run_trace_save(struct bb_runner *r, const struct bb_step *step, const struct bb_measured *m,
                      const struct bb_device_info *devices, const char *path, struct bb_critical_path *critical,
                      int *unsaved) BB_MUST_CHECK;

#endif
