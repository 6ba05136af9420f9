/*
 * internode.h - what leaves a node in one step: the bytes that go from a rank to one of another node, when node = rank
 * / gpus_per_node. Counted by what each operation must move at least, over rings that visit all ranks of a node before
 * the next one (which NCCL does when it sees the machine):
 *
 *   send                              its payload, when the peer is elsewhere
 *   all_reduce                        2 (n-1)/n S over each of the k links between the k > 1 nodes that the group spans
 *   all_gather, reduce_scatter        (n-1)/n S over each of them; S is the whole array
 *   broadcast, reduce                 S over k - 1 links
 *   alltoall                          S/n for each ordered pair of ranks on different nodes; S is what one rank sends
 */
#ifndef BB_PROXIES_PLAN_INTERNODE_H
#define BB_PROXIES_PLAN_INTERNODE_H

#include "proxies/step/step.h"

struct bb_internode {
    int nodes;
    double bytes;                /* out of all nodes together                                */
    double busiest;              /* out of the node with the most                            */
    double group[BB_MAX_GROUPS]; /* bytes, by the groups of the step's layout                */
};

/* bb_internode_count - returns 0 or -BB_EFAIL (no memory). */
int bb_internode_count(const struct bb_step *step, int gpus_per_node, struct bb_internode *internode) BB_MUST_CHECK;

#endif
