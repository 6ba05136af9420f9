/*
 * internode.h - inter-node traffic of one step: bytes sent from a rank to a rank of another node, with node = rank /
 * gpus_per_node. Each operation counts the bytes that it must move at least. Collectives use rings that visit all ranks
 * of a node before the next node, as NCCL builds them when it knows the topology:
 *
 *   send                              its payload, when the peer is on another node
 *   all_reduce                        2 (n-1)/n S over each of the k links between the k > 1 nodes of the group
 *   all_gather, reduce_scatter        (n-1)/n S over each of the k links; S is the whole array
 *   broadcast, reduce                 S over each of k - 1 links
 *   alltoall                          S/n for each ordered pair of ranks on different nodes; S is what one rank sends
 */
#ifndef BB_PROXIES_PLAN_INTERNODE_H
#define BB_PROXIES_PLAN_INTERNODE_H

#include "proxies/step/step.h"

struct bb_internode {
    int nodes;
    double bytes;                /* bytes sent by all nodes */
    double busiest;              /* bytes sent by the node that sends most */
    double group[BB_MAX_GROUPS]; /* bytes per group of the step's layout */
};

/* bb_internode_count - count the inter-node traffic of a step. Returns 0, or -BB_EFAIL without memory. */
int bb_internode_count(const struct bb_step *step, int gpus_per_node, struct bb_internode *internode) BB_MUST_CHECK;

#endif
