/*
 * routing.h - how many tokens go from each rank of an expert-parallel group to each other: the histogram of a seeded
 * router. Pure; both sides of every message take their count from here.
 */
#ifndef BB_PROXIES_TRANSFORMER_LAYER_ROUTING_H
#define BB_PROXIES_TRANSFORMER_LAYER_ROUTING_H

#include "bootstrap/base/err.h"

#include <stdbool.h>

struct bb_routing_config {
    int tokens, top_k;  /* of a rank; experts that each token chooses                                         */
    int experts, ranks; /* experts / ranks on each                                                            */
    int layers;
    double capacity_factor; /* > 0: every rank sends ceil(factor * tokens * top_k / experts) rows to each expert */
    double imbalance;       /* z: the k-th most popular expert of a layer is chosen as 1 / k^z, and each rank has
                               preferences of its own; no expert is chosen by more than all tokens; 0: all alike */
    unsigned seed;
};

struct bb_routing {
    struct bb_routing_config config;
    int uniform_rows;  /* rows from each rank to each, when they are all equal; else -1  */
    int *rows; /* [layers][ranks][ranks], from and to; NULL when all are equal   */
};

int bb_routing_init(struct bb_routing *r, const struct bb_routing_config *config) BB_MUST_CHECK;
void bb_routing_release(struct bb_routing *r);

/* Rows from one rank's tokens to the experts of another, in places of the group; all that a rank gets. */
int bb_routing_rows(const struct bb_routing *r, int layer, int from, int to);
long bb_routing_received(const struct bb_routing *r, int layer, int to);

#endif
