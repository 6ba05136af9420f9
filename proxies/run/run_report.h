/*
 * run_report.h - what a run of a proxy prints and writes. Only formats: all figures come from step_measure.h.
 */
#ifndef BB_PROXIES_RUN_RUN_REPORT_H
#define BB_PROXIES_RUN_RUN_REPORT_H

#include "bootstrap/results/results.h"
#include "collectives/session/session.h"
#include "proxies/run/run_forecast.h"
#include "proxies/run/step_measure.h"
#include "proxies/step/step.h"
#include "proxies/timeline/critical_path.h"

/* Everything that a report speaks of. Pointers are borrowed. */
struct bb_run_report {
    const struct bb_step *step;
    const struct bb_session *session;
    int argc; /* the command                                                */
    char **argv;
    const struct bb_measure_plan *plan;
    const struct bb_measured *measured;
    const struct bb_run_forecast *forecast;
    int compute_sms;                         /* multiprocessors that timed kernels hold, if the step has any   */
    double peak_tflops;                      /* of one GPU, 0: unknown                                     */
    bool checked;                            /* the data were checked:                                     */
    int nearest_ranks;                       /* of a proxy that has no form for these; 0: unknown          */
    const struct bb_critical_path *critical; /* of the traced step; NULL: there is no trace */
    unsigned long long wrong;                /* elements that differ, over all ranks                       */
};

/* bb_run_report_begin - what is known before the run: the command, the machine, the job. bb_run_report_text - the rest
 * of the report for people. */
void bb_run_report_begin(const struct bb_run_report *r, FILE *out);
void bb_run_report_text(const struct bb_run_report *r, FILE *out);

/* One line of `busbar proxy all` for each proxy, under the head of the table. measured is of that proxy; a proxy
 * without a form for these ranks (step NULL) says so. */
void bb_run_report_head(const struct bb_run_report *r, FILE *out);
void bb_run_report_line(const struct bb_run_report *r, const char *proxy, FILE *out);
json_t *bb_run_report_row(const struct bb_run_report *r, const char *proxy);

/* bb_run_report_json - the fields of busbar.proxy/1 that a run adds to those of the plan. groups: the plan's array of
 * groups, taken over, whose objects get the figures of the slowest rank. */
int bb_run_report_json(const struct bb_run_report *r, struct bb_results *res, json_t *groups) BB_MUST_CHECK;

/* bb_run_timeline_gather (run_trace.c) - the newest traced step of m on every rank, times of the ranks that t shows;
 * collective over the world. t is to be released, also after an error. */
int bb_run_timeline_gather(struct bb_runner *r, const struct bb_step *step, const struct bb_measured *m,
                           struct bb_timeline *t) BB_MUST_CHECK;

/*
 * bb_run_trace_save (run_trace.c) - from the events of a traced step on every rank to one timeline (timeline.h).
 * Collective over the world: rank 0 gathers the newest traced step of m, in pieces that take at most 16 MiB on each
 * rank, and writes it to path. devices[world.size]. -BB_EFAIL, said, on every rank. *unsaved: the same of a file that
 * cannot be written, which need not end the run before its report. critical: of that step, on rank 0; to be released.
 */
int bb_run_trace_save(struct bb_runner *r, const struct bb_step *step, const struct bb_measured *m,
                      const struct bb_device_info *devices, const char *path, struct bb_critical_path *critical,
                      int *unsaved) BB_MUST_CHECK;

#endif
