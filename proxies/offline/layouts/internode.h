/*
 * internode.h - inter-node traffic of one step: the bytes that ranks send to ranks on other nodes, where node = rank /
 * gpus_per_node. For each operation the minimum number of bytes is counted. Ring and chain collectives are assumed to
 * visit all ranks of a node before the next node, as NCCL does if it knows the topology. For a communicator of n ranks
 * on k > 1 nodes and a payload of S bytes:
 *
 *   send                              S if the peer is on another node
 *   all_reduce                        2 (n-1)/n S on each of the k links between nodes
 *   all_gather, reduce_scatter        (n-1)/n S on each of the k links; S is the whole array
 *   broadcast, reduce                 S on each of k - 1 links
 *   alltoall                          S/n for each ordered pair of ranks on different nodes; S is what one rank sends
 */
#ifndef BB_PROXIES_OFFLINE_LAYOUTS_INTERNODE_H
#define BB_PROXIES_OFFLINE_LAYOUTS_INTERNODE_H

#include "proxies/form/step/step.h"

struct bb_internode {
    int nodes;
    double bytes;                /* bytes sent by all nodes together */
    double busiest;              /* bytes sent to other nodes by the node that sends most */
    double group[BB_MAX_GROUPS]; /* bytes sent between nodes in each group of the step's layout (for example "tp") */
};

/* bb_internode_count - count the inter-node traffic of a step. */
void bb_internode_count(const struct bb_step *step, int gpus_per_node, struct bb_internode *internode);

#endif
