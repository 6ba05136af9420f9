/*
 * slow.h - what is slower than a profile says, in words: "rank=5:1.1,link=node3-nic2:0.5".
 *
 *   rank=R:TIMES            compute of rank R lasts so many times as long
 *   link=nodeN-nicM:PART    NIC M of node N has that part of its rate, in both directions
 *   link=leafN:PART         the uplinks of leaf switch N of a profile's "fabric" do (fabric.h says which number it has)
 *
 * Numbers begin at 0, nodes are those of consecutive ranks. TIMES may be below 1 and above it; PART is at most 1, since
 * no link does better than the profile that all the rest is reckoned by.
 */
#ifndef BB_PROXIES_MACHINE_SLOW_H
#define BB_PROXIES_MACHINE_SLOW_H

#include "proxies/machine/cluster.h"

#include <jansson.h>
#include <stdio.h>

struct bb_slow_item {
    enum bb_slow_kind { BB_SLOW_RANK, BB_SLOW_NIC, BB_SLOW_LEAF } kind;
    int number, nic; /* of the rank, node or leaf; of a node the NIC's */
    double factor;
};
#define BB_SLOW_ITEMS 64
struct bb_slow {
    int n;
    struct bb_slow_item items[BB_SLOW_ITEMS];
};

/* bb_slow_parse - adds what the text says. what: the option or variable that errors name. */
int bb_slow_parse(struct bb_slow *slow, const char *what, const char *text) BB_MUST_CHECK;
/* bb_slow_validate - refuses what a job of so many ranks on so many nodes does not have, and links of which the profile knows
 * nothing. */
int bb_slow_validate(const struct bb_slow *slow, const char *what, const struct bb_cluster *c, int ranks,
                  int nodes) BB_MUST_CHECK;

/* bb_slow_print - a line of each part, which begins with `before`. bb_slow_json: a list of texts; NULL without memory. */
void bb_slow_print(const struct bb_slow *slow, const char *before, FILE *out);
json_t *bb_slow_json(const struct bb_slow *slow);

double bb_slow_compute_factor(const struct bb_slow *slow, int rank); /* 1 where nothing is said */
/* bb_slow_nic_factor - what is left of the rate of the NICs that a GPU uses, of several their mean. gpu: on its node. */
double bb_slow_nic_factor(const struct bb_slow *slow, const struct bb_cluster *c, int node, int gpu);
/* bb_slow_nics_gbps - the rate of all NICs that a rank's GPU uses, whoever else does. Nodes are those of the
 * profile. */
double bb_slow_nics_gbps(const struct bb_slow *slow, const struct bb_cluster *c, int rank);
/* bb_slow_leaf_factor - what is left of the rate of the uplinks that a rank's NIC uses. */
double bb_slow_leaf_factor(const struct bb_slow *slow, const struct bb_cluster *c, int rank);
/* bb_slow_enable_leaf_uplinks - lets the machine look at the uplinks of its leaves if one is slow, though they carry all otherwise. */
void bb_slow_enable_leaf_uplinks(const struct bb_slow *slow, struct bb_cluster *c);

#endif
