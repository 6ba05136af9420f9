/*
 * slow.h - parts of a machine that are slower than its profile, as text: "rank=5:1.1,link=node3-nic2:0.5".
 *
 *   rank=R:TIMES            kernels of rank R take TIMES as long, 0.001 to 1000
 *   link=nodeN-nicM:PART    NIC M of node N has PART of its rate in both directions, 0.001 to 1
 *   link=leafN:PART         the uplinks of leaf switch N of the profile's "fabric" have PART of their rate (index:
 *                           fabric.h)
 *
 * All indices begin at 0. Node N holds consecutive ranks.
 */
#ifndef BB_PROXIES_MACHINE_SLOW_H
#define BB_PROXIES_MACHINE_SLOW_H

#include "proxies/machine/cluster.h"

#include <jansson.h>
#include <stdio.h>

struct bb_slow_item {
    enum bb_slow_kind { BB_SLOW_RANK, BB_SLOW_NIC, BB_SLOW_LEAF } kind;
    int number, nic; /* rank, node or leaf; for a NIC: its index on the node */
    double factor;
};
#define BB_SLOW_ITEMS 64
struct bb_slow {
    int n;
    struct bb_slow_item items[BB_SLOW_ITEMS];
};

/*
 * bb_slow_parse - parse a text and append its items.
 *   what     name of the option or variable, for error messages
 *   Returns  0, or -BB_EUSAGE after printing one line
 */
int bb_slow_parse(struct bb_slow *slow, const char *what, const char *text) BB_MUST_CHECK;
/* bb_slow_validate - reject ranks, nodes, NICs and leaves that the job or the profile does not have. Returns 0, or
 * -BB_EUSAGE after printing one line. */
int bb_slow_validate(const struct bb_slow *slow, const char *what, const struct bb_cluster *c, int ranks,
                     int nodes) BB_MUST_CHECK;

/* bb_slow_print - print one line per item, each with the prefix `before`. bb_slow_json - list of texts; the caller
 * releases it; NULL without memory. */
void bb_slow_print(const struct bb_slow *slow, const char *prefix, FILE *out);
json_t *bb_slow_json(const struct bb_slow *slow);

double bb_slow_compute_factor(const struct bb_slow *slow, int rank); /* factor of the rank's kernel times, 1 without
                                                                        an item */
/* bb_slow_nic_factor - remaining fraction of the rate of a GPU's NICs; the mean if the GPU has several. gpu: index
 * on its node. */
double bb_slow_nic_factor(const struct bb_slow *slow, const struct bb_cluster *c, int node, int gpu);
/* bb_slow_nics_gbps - rate of all NICs that a rank's GPU uses, without regard to other GPUs on them. The profile
 * defines the nodes. */
double bb_slow_nics_gbps(const struct bb_slow *slow, const struct bb_cluster *c, int rank);
/* bb_slow_leaf_factor - remaining fraction of the rate of the leaf uplinks that a rank's NIC uses. */
double bb_slow_leaf_factor(const struct bb_slow *slow, const struct bb_cluster *c, int rank);
/* bb_slow_enable_leaf_uplinks - mark the fabric if a leaf is slow, so that the cost model considers leaf uplinks
 * even where they are not oversubscribed. */
void bb_slow_enable_leaf_uplinks(const struct bb_slow *slow, struct bb_cluster *c);

#endif
