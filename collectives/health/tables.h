/*
 * tables.h - the tables of `busbar bench rails` and `busbar bench p2p --nodes`: the values of the rails, and of pairs
 * of nodes.
 */
#ifndef BB_COLLECTIVES_HEALTH_TABLES_H
#define BB_COLLECTIVES_HEALTH_TABLES_H

#include "collectives/health/verdict/verdict.h"

#include <stdio.h>

/* The caller sets nodes and gpus; all other members are zero in an empty table. */
struct bb_health_tables {
    int nodes, gpus; /* gpus: number of GPUs per node */
    double *rail[2]; /* [gpus] bus bandwidth of each rail alone, and of all at once; 0: not measured. NULL: none is */
    struct bb_health_cell {
        double sum; /* of the bus bandwidths of the GPUs */
        int n;      /* number of GPUs in the sum */
    } * pair;       /* [nodes][nodes]; NULL: no pair is measured */
};

/* bb_health_tables_add - add a value of a GPU in the order of measurement; the first measurement of a rail or pair
 * counts. partner: the other node of a pair; -1: it has none */
void bb_health_tables_add(struct bb_health_tables *t, enum bb_health_test test, int node, int gpu, int partner,
                          double value);
/* bb_health_tables_print - print the tables, without `full` of at most 12 rails or nodes, and the slowest of all
 *   rails. */
void bb_health_tables_print(const struct bb_health_tables *t, bool full, FILE *out);
void bb_health_tables_release(struct bb_health_tables *t);

#endif
