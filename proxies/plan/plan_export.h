/*
 * plan_export.h - the files that `busbar plan` writes. A format is a row below and a file with its writer
 * bb_plan_write_NAME (plan_json.c, plan_trace.c); --NAME FILE asks for it.
 */
#ifndef BB_PROXIES_PLAN_PLAN_EXPORT_H
#define BB_PROXIES_PLAN_PLAN_EXPORT_H

#include "proxies/plan/training_time.h"

/* What was found out about a step. Everything is borrowed. */
struct bb_plan_report {
    const struct bb_plan *plan;
    const struct bb_prediction *prediction;  /* NULL: no cluster was named, or the step is not sound */
    json_t *options;                         /* those of the command                                 */
    json_t *best_order;                      /* NULL: was not asked for                              */
    const struct bb_training_time *training; /* NULL: was not asked for                             */
    const struct bb_jittered *jittered;      /* NULL: was not asked for                             */
    bool ops;                                /* also every operation                                 */
};

/*
 * X(option, what messages call the file, whether '-' is stdout, help). Those of the first list need a prediction: they
 * stand behind --cluster, and a step that is not sound has no such file.
 */
#define BB_PREDICTION_EXPORTS(X)                                                                                       \
    X(trace, "the trace", false,                                                                                       \
      "with --cluster: write the predicted timeline to FILE, as events that Perfetto opens; the slowest and other "    \
      "ranks, at most 64")
#define BB_PLAN_EXPORTS(X)                                                                                             \
    X(json, "the plan", true, "write busbar.plan/1 to FILE, '-' for stdout (instead of the text)")                     \
    X(csv, "the table", true, "write the plan's figures to FILE as one row of CSV, '-' for stdout")

#define BB_PLAN_EXPORT_AT(name, what, to_stdout, help) BB_PLAN_EXPORT_##name,
enum { BB_PREDICTION_EXPORTS(BB_PLAN_EXPORT_AT) BB_PLAN_EXPORTS(BB_PLAN_EXPORT_AT) BB_N_PLAN_EXPORTS };

#define BB_PLAN_EXPORT_WRITER(name, what, to_stdout, help)                                                             \
    int bb_plan_write_##name(const struct bb_plan_report *report, FILE *out) BB_MUST_CHECK;
BB_PREDICTION_EXPORTS(BB_PLAN_EXPORT_WRITER)
BB_PLAN_EXPORTS(BB_PLAN_EXPORT_WRITER)

/* The files asked for in files[BB_N_PLAN_EXPORTS], NULL: none. _refuse: formats that need the cluster, without one
 * (-BB_EUSAGE, said). _check: before the work, can they be written (-BB_EUSAGE, said)? _to_stdout:
 * does one of them go there? _write: all of them. */
int bb_plan_exports_validate(const char *const *files, const char *cluster) BB_MUST_CHECK;
int bb_plan_exports_check_writable(const char *const *files) BB_MUST_CHECK;
bool bb_plan_exports_to_stdout(const char *const *files);
int bb_plan_exports_write(const char *const *files, const struct bb_plan_report *report) BB_MUST_CHECK;

#endif
