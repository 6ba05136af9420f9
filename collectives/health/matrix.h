/*
 * matrix.h - the matrix of pairs of nodes that `busbar health --full` prints. A pure module.
 */
#ifndef BB_COLLECTIVES_HEALTH_MATRIX_H
#define BB_COLLECTIVES_HEALTH_MATRIX_H

#include <stdbool.h>
#include <stdio.h>

/* A zero-initialized struct is empty. */
struct bb_health_matrix {
    double *value; /* [nodes][nodes] lowest value of the GPUs of a pair in its last measurement; owned */
    double *share; /* [nodes][nodes] what shared uplinks left to the pair meanwhile; owned */
    bool *loaded;  /* [nodes][nodes] other pairs took a part of these uplinks and may hide a slow path; owned */
};

/* bb_health_matrix_add - add the value of a GPU of a pair, in the order of the GPUs. nodes: of the job; share: what
 * shared uplinks leave to the pair, 1: all; alone: likewise, while no other pair runs. */
void bb_health_matrix_add(struct bb_health_matrix *m, int nodes, int node, int partner, int gpu, double value,
                          double share, double alone);
void bb_health_matrix_release(struct bb_health_matrix *m);

/* bb_health_matrix_pairs - return the number of tested pairs: those measured while uplinks left them what they get
 * alone. */
int bb_health_matrix_pairs(const struct bb_health_matrix *m, int nodes);

/*
 * bb_health_matrix_print - print one character per pair, with at most MATRIX_NODES nodes, and the slowest pairs.
 *   reference  [nodes][nodes] the expected value, or the median of all values
 *   of         describes it
 *   hosts      [nodes] names of the nodes
 */
void bb_health_matrix_print(const struct bb_health_matrix *m, int nodes, const double *reference, const char *of,
                            const char *const *hosts, FILE *out);

#endif
