/*
 * slow.h - parts of a machine that are slower than its profile, as text: "rank=5:1.1,link=node3-nic2:0.5".
 *
 *   rank=R:TIMES            kernels of rank R take TIMES as long (0.001 to 1000)
 *   link=nodeN-nicM:PART    NIC M of node N has the fraction PART of its rate in both directions (0.001 to 1)
 *   link=leafN:PART         the uplinks of leaf switch N of the profile's "fabric" have the fraction PART of their rate
 *                           (N: see bb_fabric_switch)
 *
 * All indices begin at 0. Ranks are placed on nodes in order.
 */
#ifndef BB_PROXIES_MACHINE_SLOW_H
#define BB_PROXIES_MACHINE_SLOW_H

#include "proxies/machine/cluster.h"

#include <jansson.h>
#include <stdio.h>

struct bb_slow_item {
    enum bb_slow_kind { BB_SLOW_RANK, BB_SLOW_NIC, BB_SLOW_LEAF } kind;
    int number, nic; /* number: rank, node or leaf; nic: index of the NIC on the node */
    double factor;
};
#define BB_SLOW_ITEMS 64
struct bb_slow {
    int n;
    struct bb_slow_item items[BB_SLOW_ITEMS];
};

/*
 * bb_slow_parse - parses a text and appends its items to `slow`.
 *   what     name of the option or variable, for error messages
 *   Returns  0, or -BB_EUSAGE after printing an error message
 */
int bb_slow_parse(struct bb_slow *slow, const char *what, const char *text) BB_MUST_CHECK;
/* bb_slow_validate - rejects indices of ranks, nodes, NICs and leaves outside the job or the profile. Returns 0, or
 * -BB_EUSAGE after printing an error message. */
int bb_slow_validate(const struct bb_slow *slow, const char *what, const struct bb_cluster *c, int ranks,
                     int nodes) BB_MUST_CHECK;

/* bb_slow_print - prints one line per item, each after `prefix`. bb_slow_json - returns a list of texts, one per
 * item, which the caller releases; NULL if memory is exhausted. */
void bb_slow_print(const struct bb_slow *slow, const char *prefix, FILE *out);
json_t *bb_slow_json(const struct bb_slow *slow);

double bb_slow_compute_factor(const struct bb_slow *slow, int rank); /* factor of the rank's kernel times; 1: not
                                                                        slow */
/* bb_slow_nic_factor - fraction of the profile's rate that a GPU's NICs have; the mean if the GPU has several NICs.
 * gpu: index on its node. */
double bb_slow_nic_factor(const struct bb_slow *slow, const struct bb_cluster *c, int node, int gpu);
/* bb_slow_nics_gbps - total rate of the NICs that a rank's GPU uses, without sharing by other GPUs. Ranks are placed
 * on nodes by gpus_per_node of the profile. */
double bb_slow_nics_gbps(const struct bb_slow *slow, const struct bb_cluster *c, int rank);
/* bb_slow_leaf_factor - fraction of the profile's rate that the leaf uplinks of a rank's NIC have. */
double bb_slow_leaf_factor(const struct bb_slow *slow, const struct bb_cluster *c, int rank);
/* bb_slow_enable_leaf_uplinks - if a leaf is slow, sets fabric.slow_leaf, so that the cost model includes leaf
 * uplinks even if they are not oversubscribed. */
void bb_slow_enable_leaf_uplinks(const struct bb_slow *slow, struct bb_cluster *c);

#endif
