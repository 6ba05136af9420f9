/* faults.h - what a check found, as lines for people. The first few are kept, all are counted. */
#ifndef BB_PROXIES_SIMULATE_GRAPH_FAULTS_H
#define BB_PROXIES_SIMULATE_GRAPH_FAULTS_H

#include "bootstrap/base/err.h"

#define BB_FAULTS_KEPT 16

struct bb_faults {
    char *text[BB_FAULTS_KEPT];
    int n; /* found, kept or not */
};

void bb_fault(struct bb_faults *f, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
void bb_faults_release(struct bb_faults *f);

#endif
