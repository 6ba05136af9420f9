/*
 * best_order.h - find the order of the grid's axes that keeps most traffic inside the nodes (--best-order). Every
 * permutation of the axes with more than one rank (at most 120) is built, and its inter-node bytes are counted
 * (plan/internode.h).
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
    char order[BB_GRID_ORDER_SIZE];
    double bytes, busiest;       /* inter-node bytes per step: of all nodes, and of the busiest node (outgoing) */
    double group[BB_MAX_GROUPS]; /* inter-node bytes per step of each group in bb_best_order.groups */
    bool requested;              /* true: the order of the plan itself */
    int number;                  /* index of the permutation, 0: the default order */
};

struct bb_best_order {
    int gpus_per_node, nodes;
    struct bb_order_row *rows; /* sorted by bytes, then busiest, then number */
    int n, invalid; /* invalid: number of orders in which the pipelines of the dense grid and of the experts' grid
                       differ */
    char groups[BB_MAX_GROUPS][16];
    int n_groups; /* groups with inter-node traffic in some order */
};

/*
 * bb_best_order - build and count every order of the axes.
 *   proxy          a proxy with BB_FEATURE_TRANSFORMER
 *   config         resolved, with a valid layout
 *   gpus_per_node  above 0
 *   best           out; the caller releases it with bb_best_order_release, which accepts a zeroed struct
 *   Returns        0 or a negative error
 */
int bb_best_order(const struct bb_proxy *proxy, const struct bb_proxy_config *config, int gpus_per_node,
                  struct bb_best_order *best) BB_MUST_CHECK;
void bb_best_order_release(struct bb_best_order *best);

void bb_best_order_print(const struct bb_best_order *best, FILE *out);
json_t *bb_best_order_json(const struct bb_best_order *best); /* NULL when out of memory */

#endif
