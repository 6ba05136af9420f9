/*
 * best_order.h - which order of the axes keeps most of a step inside the nodes: every order string over the axes that
 * have ranks (at most 120) is built and its bytes between nodes are counted (internode.h).
 */
#ifndef BB_PROXIES_REGISTRY_BEST_ORDER_H
#define BB_PROXIES_REGISTRY_BEST_ORDER_H

#include "proxies/author/proxy.h"
#include "proxies/plan/internode.h"
#include "proxies/transformer/grid/grid.h"

#include <jansson.h>
#include <stdio.h>

#define BB_ORDERS 120

struct bb_order_row {
    char order[BB_GRID_LETTERS];
    double bytes, busiest;       /* between all nodes, and out of the node with the most; per step   */
    double group[BB_MAX_GROUPS]; /* bytes by the groups of struct bb_best_order                      */
    bool requested;                  /* the order of the plan itself                                     */
    int number;                  /* its place in the usual order                                     */
};

struct bb_best_order {
    int gpus_per_node, nodes;
    struct bb_order_row *rows; /* the fewest bytes first, then the least busy node, then the usual order */
    int n, invalid;           /* left_out: orders that cannot be, since the pipelines of both grids differ */
    char groups[BB_MAX_GROUPS][16];
    int n_groups; /* groups that cross nodes in some order                                             */
};

/* bb_best_order - for a proxy that takes the transformer's options; config is settled and its layout is known to be
 * valid. gpus_per_node > 0. Returns 0 or a negative error. release is fine on a zeroed one. */
int bb_best_order(const struct bb_proxy *proxy, const struct bb_proxy_config *config, int gpus_per_node,
                  struct bb_best_order *best) BB_MUST_CHECK;
void bb_best_order_release(struct bb_best_order *best);

void bb_best_order_print(const struct bb_best_order *best, FILE *out);
json_t *bb_best_order_json(const struct bb_best_order *best); /* NULL without memory */

#endif
