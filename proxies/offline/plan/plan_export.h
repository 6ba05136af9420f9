/*
 * plan_export.h - the files that `busbar plan` writes. The two lists below contain one line per file format. The format
 * NAME has an option --NAME FILE, which requests the file, and a function bb_plan_write_NAME that writes it
 * (plan_json.c, plan_trace.c).
 */
#ifndef BB_PROXIES_OFFLINE_PLAN_PLAN_EXPORT_H
#define BB_PROXIES_OFFLINE_PLAN_PLAN_EXPORT_H

#include "proxies/offline/plan/training_time.h"

/* A plan, with the results of the command line options that were given. The caller owns all objects. */
struct bb_plan_report {
    const struct bb_plan *plan;
    const struct bb_prediction *prediction;  /* predicted step; NULL: without --cluster, or if the step fails its
                                                checks */
    json_t *command;                         /* the command line as typed */
    json_t *options;                         /* options given on the command line */
    json_t *profiles;                        /* bb_profile_checksums */
    json_t *best_order;                      /* result of --best-order; NULL: the option was not given */
    const struct bb_training_time *training; /* result of --tokens; NULL: the option was not given */
    const struct bb_jittered *jittered;      /* result of --jitter; NULL: the option was not given */
    FILE *text;                              /* stream of the text report; NULL: none */
    bool ops; /* --ops: include the operations of each role (ranks with the same program) */
    int rc;   /* result of the plan for the JSON's `status`: 0 or a negative error code */
};

/*
 * bb_plan_print - print the plan as text: the answer and, with `full`, the tables of roles and groups, the traffic and
 * memory of each role, and the checks.
 */
void bb_plan_print(const struct bb_plan_report *report, bool full, FILE *out);

/*
 * X(option, description of the file for messages, help of the option). The formats in the first list contain the
 * prediction: their options require --cluster, and no file is written if the checks of the step fail. For the formats
 * in the second list, the file name '-' means stdout.
 */
#define BB_PREDICTION_EXPORTS(X)                                                                                       \
    X(trace, "the trace",                                                                                              \
      "with --cluster: write the predicted timeline to FILE as Perfetto trace events, for at most 64 ranks "           \
      "including the slowest")
#define BB_PLAN_EXPORTS(X)                                                                                             \
    X(json, "the plan", "write busbar.plan/1 to FILE, '-' for stdout (instead of the text)")                           \
    X(csv, "the table",                                                                                                \
      "write the plan's values to FILE as one row of CSV, '-' for stdout: the answer in the first columns, all "       \
      "options in the last; of a busbar sweep, \"columns\" of the study selects columns" BB_CSV_HELP)

#define BB_PLAN_EXPORT_AT(name, what, help) BB_PLAN_EXPORT_##name,
enum { BB_PREDICTION_EXPORTS(BB_PLAN_EXPORT_AT) BB_PLAN_EXPORTS(BB_PLAN_EXPORT_AT) BB_N_PLAN_EXPORTS };

#define BB_PLAN_EXPORT_WRITER(name, what, help)                                                                        \
    int bb_plan_write_##name(const struct bb_plan_report *report, FILE *out) BB_MUST_CHECK;
BB_PREDICTION_EXPORTS(BB_PLAN_EXPORT_WRITER)
BB_PLAN_EXPORTS(BB_PLAN_EXPORT_WRITER)

/*
 * files: [BB_N_PLAN_EXPORTS] the file name given for each format; NULL: the file is not requested.
 *
 *   bb_plan_exports_check_writable  returns -BB_EUSAGE after printing an error line if a file cannot be written, else
 *                                   0; called before the plan is computed
 *   bb_plan_exports_write           writes all requested files, and prints their names and sizes; returns 0 or a
 *                                   negative error
 *   bb_plan_report_file             prints name, content and size of a written file. out: NULL: prints nothing
 */
int bb_plan_exports_check_writable(const char *const *files) BB_MUST_CHECK;
void bb_plan_report_file(FILE *out, const char *what, const char *path);
int bb_plan_exports_write(const char *const *files, const struct bb_plan_report *report) BB_MUST_CHECK;

#endif
