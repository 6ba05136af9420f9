/*
 * best_order.h - plan --best-order: compare the orders of the parallelism axes (tp, cp, ep, dp, pp) by their inter-node
 * traffic. For every permutation of the axes with more than one rank (at most 120 permutations), build a step and count
 * its inter-node bytes (plan/internode.h).
 */
#ifndef BB_PROXIES_OFFLINE_LAYOUTS_BEST_ORDER_H
#define BB_PROXIES_OFFLINE_LAYOUTS_BEST_ORDER_H

#include "proxies/form/author/proxy.h"
#include "proxies/offline/layouts/internode.h"
#include "proxies/workloads/transformer/grid/grid.h"

#include <jansson.h>
#include <stdio.h>

#define BB_ORDERS 120

struct bb_order_row {
    char order[BB_GRID_ORDER_SIZE];
    double bytes, busiest; /* inter-node bytes per training step: sent by all nodes together (bytes), and by the node
                              that sends most (busiest) */
    double group[BB_MAX_GROUPS]; /* inter-node bytes per training step of the operations of each group, for example
                                    "dp"; indexed like bb_best_order.groups */
    bool requested;              /* true: this is the order of the plan itself (--order or the default) */
    int number; /* index of the order among all permutations of the axes, sorted lexicographically; 0: the default
                   order */
};

struct bb_best_order {
    int gpus_per_node, nodes;
    struct bb_order_row *rows; /* [n] valid orders, sorted by bytes, then by busiest, then by number */
    int n, invalid; /* n: number of valid orders; invalid: number of invalid orders, for example because the ranks of a
                       pipeline differ between the dense grid (attention, MLPs) and the expert grid (experts) */
    char invalid_order[BB_GRID_ORDER_SIZE]; /* the first of them */
    char groups[BB_MAX_GROUPS][16];
    int n_groups; /* number of groups (tp, dp, ...) that have inter-node traffic in at least one order */
};

/*
 * bb_best_order - build a step for every order of the axes and count its inter-node bytes.
 *   proxy          a proxy with BB_FEATURE_TRANSFORMER
 *   config         resolved options with a valid layout
 *   gpus_per_node  number of GPUs per node, above 0
 *   best           out: the sorted orders; the caller releases them with bb_best_order_release, which accepts a zeroed
 *                  struct
 *   Returns        0 or a negative error
 */
int bb_best_order(const struct bb_proxy *proxy, const struct bb_proxy_config *config, int gpus_per_node,
                  struct bb_best_order *best) BB_MUST_CHECK;
void bb_best_order_release(struct bb_best_order *best);

void bb_best_order_print(const struct bb_best_order *best, FILE *out);
json_t *bb_best_order_json(const struct bb_best_order *best);

#endif
