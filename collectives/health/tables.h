/*
 * tables.h - the tables of `busbar bench rails` and `busbar bench p2p --nodes`: the values of the rails, and of pairs of nodes.
 */
#ifndef BB_COLLECTIVES_HEALTH_TABLES_H
#define BB_COLLECTIVES_HEALTH_TABLES_H

#include "collectives/health/verdict.h"

#include <stdio.h>

/* An all-zero struct is empty. */
struct bb_health_tables {
    double *rail[2]; /* [gpus] bus bandwidth of each rail alone, and of all at once; NULL: not measured */
    double *pair;    /* [nodes][nodes] sum of the bus bandwidths of the GPUs of two nodes; NULL: not measured */
};

/* bb_health_tables_keep - keep the values of the first measurement of a test (see bb_health_measure). */
void bb_health_tables_keep(struct bb_health_tables *t, const struct bb_health *h, enum bb_health_test test,
                           const int *partner, const double *values);
/* bb_health_tables_print - print the tables, without `full` of at most 12 rails or nodes. */
void bb_health_tables_print(const struct bb_health_tables *t, const struct bb_health *h, bool full, FILE *out);
void bb_health_tables_release(struct bb_health_tables *t);

#endif
