/* faults.h - faults found by a check, as lines of text. The first BB_FAULTS_KEPT texts are kept; all faults are
 * counted. */
#ifndef BB_PROXIES_SIMULATE_GRAPH_FAULTS_H
#define BB_PROXIES_SIMULATE_GRAPH_FAULTS_H

#include "bootstrap/base/err.h"

#define BB_FAULTS_KEPT 16

struct bb_faults {
    char *text[BB_FAULTS_KEPT];
    int n; /* all faults, also those whose text was not kept */
};

void bb_fault(struct bb_faults *f, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
void bb_faults_release(struct bb_faults *f);

#endif
