/*
 * checks.h - the checks of a run: what a command judges, such as a bus bandwidth with its limit, a row of a comparison or
 * a node. A command puts its checks into the results as the list "checks" (bb_checks_add, bb_results_set). This module
 * writes them in the formats of other programs: JUnit XML (CI), Prometheus metrics (textfile collector) and the line of a
 * Nagios plugin. All formats add how the run itself ended, from "status" and "reason".
 *
 * A check with the status "fail" makes the command end with an exit status other than 0.
 */
#ifndef BB_BOOTSTRAP_RESULTS_CHECKS_H
#define BB_BOOTSTRAP_RESULTS_CHECKS_H

#include "bootstrap/base/err.h"

#include <jansson.h>
#include <stdio.h>

/* The values are those of Nagios' plugin guidelines. */
enum bb_check_status { BB_CHECK_OK, BB_CHECK_WARN, BB_CHECK_FAIL, BB_CHECK_UNKNOWN, BB_CHECK_STATUSES };
extern const char *const bb_check_names[BB_CHECK_STATUSES]; /* "ok", "warn", "fail", "unknown" */

struct bb_check {
    const char *check; /* what is judged */
    const char *host;  /* the host that the check is about; NULL: none, or several */
    enum bb_check_status status;
    double measured, expected; /* expected: the value or limit to compare with; NaN: not known */
    const char *unit;          /* "GB/s", "TFLOP/s", "us", "ratio", "links" or "ranks"; NULL: no value */
    const char *reason;        /* NULL or "": none */
    int nodes;                 /* number of nodes that took part in the measurement; 0: unknown, or does not apply */
};

/* bb_checks_add - append a check to the list. Texts are copied. */
void bb_checks_add(json_t *list, const struct bb_check *check);

/* bb_checks_validate - check --junit and --prometheus before the run starts: not stdout, and valid UTF-8. Returns 0, or
 * -BB_EUSAGE after an error message. */
int bb_checks_validate(const char *junit, const char *prometheus) BB_MUST_CHECK;

/*
 * bb_checks_save - write the checks of a complete results document atomically (outfile.h).
 *   rows        rows of the document, of which the metrics have the bus bandwidths; NULL: none
 *   junit       file for JUnit XML; NULL: none
 *   prometheus  file for Prometheus metrics; NULL: none
 *   Returns     0, or -BB_EFAIL after an error message
 */
int bb_checks_save(const json_t *root, const json_t *rows, const char *junit, const char *prometheus) BB_MUST_CHECK;

/* bb_checks_print_nagios - print the line of a Nagios plugin: state, number of checks, the worst ones, and as performance
 * data the values of the checks without host. */
void bb_checks_print_nagios(const json_t *root, FILE *out);

#endif
