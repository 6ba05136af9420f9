/* faults.h - list of the errors (mismatched operations, invalid peers, deadlocks) that a check finds in a step, one
 * text per error. Only the first BB_FAULTS_KEPT texts are stored, but all errors are counted. */
#ifndef BB_PROXIES_SIMULATION_SIMULATE_GRAPH_FAULTS_H
#define BB_PROXIES_SIMULATION_SIMULATE_GRAPH_FAULTS_H

#include "bootstrap/base/err.h"

#define BB_FAULTS_KEPT 16

struct bb_faults {
    char *text[BB_FAULTS_KEPT];
    int n; /* number of errors found; may exceed BB_FAULTS_KEPT, the maximum number of stored texts */
};

void bb_fault(struct bb_faults *f, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
void bb_faults_release(struct bb_faults *f);

#endif
