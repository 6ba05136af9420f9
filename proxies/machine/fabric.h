/*
 * fabric.h - the switches between a cluster's nodes (profiles/clusters/README.md, "fabric"): what a message and a
 * collective ask of the uplinks of leaf switches and of pods, and what those have.
 *
 * Nodes stand in order: so many consecutive ones are a leaf's area, so many a pod's. Without rails all NICs of an area
 * hang on one leaf switch; with rails each of its rails, the NICs of one number, on a leaf switch of its own. There
 * NCCL moves what goes to another rail within the node first (PXN), so that no message leaves its area for the rail's
 * sake.
 */
#ifndef BB_PROXIES_MACHINE_FABRIC_H
#define BB_PROXIES_MACHINE_FABRIC_H

#include "proxies/machine/cluster.h"

#include <jansson.h>

/* bb_fabric_read - the key of a profile of which all else is read; none: no fabric. */
int bb_fabric_read(const json_t *root, const char *word, struct bb_cluster *c) BB_MUST_CHECK;

/* bb_fabric_is_oversubscribed - whether uplinks of that tier carry less than what hangs on them; of others nobody need ask.
 * _has_scarce: of any tier. */
bool bb_fabric_is_oversubscribed(const struct bb_cluster *c, enum bb_tier tier);
bool bb_fabric_has_oversubscribed_tier(const struct bb_cluster *c);
/* bb_fabric_rails - of a node: NICs of one number are one; where a GPU has several, all of its own together. */
int bb_fabric_rails(const struct bb_cluster *c);
/* bb_fabric_switch - the number, over all nodes, of the leaf or pod whose uplinks a rank's NIC uses: with rails that of
 * the leaves' area x rails + the rail's. _uplink_gbps: what the uplinks of one place carry, each way. _leaves: how many
 * there are for so many nodes. */
int bb_fabric_switch(const struct bb_cluster *c, enum bb_tier tier, int rank);
double bb_fabric_uplink_gbps(const struct bb_cluster *c, enum bb_tier tier);
int bb_fabric_leaves(const struct bb_cluster *c, int nodes);
/* bb_fabric_max_ranks - of a job's first ranks how many are on its first place, which has most. */
int bb_fabric_max_ranks(const struct bb_cluster *c, enum bb_tier tier, int ranks);

/* bb_fabric_takes_uplinks - whether a message between two ranks takes uplinks of that tier: those of the place of the rank
 * that sends, and downwards those of the other's place. _changes_rail: whether it is moved within the node first. */
bool bb_fabric_takes_uplinks(const struct bb_cluster *c, enum bb_tier tier, int from, int to);
bool bb_fabric_changes_rail(const struct bb_cluster *c, int from, int to);

/* bb_fabric_add_message - a message that a rank sends to another, or receives from it, to the rank's load.
 * _add_crossing: of it what a fabric adds. */
void bb_fabric_add_uplink_bytes(const struct bb_cluster *c, struct bb_link_load *load, int rank, int peer, double bytes,
                            bool sends);
static inline void bb_fabric_add_message(const struct bb_cluster *c, struct bb_link_load *load, int rank, int peer,
                                         double bytes, bool sends)
{
    (sends ? load->out : load->in)[rank / c->gpus_per_node == peer / c->gpus_per_node] += bytes;
    if (c->fabric.nodes[BB_LEAF] > 0)
        bb_fabric_add_uplink_bytes(c, load, rank, peer, bytes, sends);
}
double bb_fabric_uplink_ns(const struct bb_cluster *c, const struct bb_link_load *load); /* of the uplinks alone */
/* bb_fabric_message_ns - bb_cluster_message_ns between these ranks: with the step within the node, where there is
 * one. */
static inline int64_t bb_fabric_message_ns(const struct bb_cluster *c, int from, int to, double load_ns)
{
    if (c->fabric.rails && bb_fabric_changes_rail(c, from, to))
        load_ns += c->intra.latency_us * 1e3;
    return bb_cluster_message_ns(c, from / c->gpus_per_node == to / c->gpus_per_node, load_ns);
}

/* bb_fabric_placement_of_nodes - how a communicator's nodes lie: nodes[n], each once, in the order of its ranks; NULL: 0 to n -
 * 1. */
void bb_fabric_placement_of_nodes(const struct bb_cluster *c, const int *nodes, int n, struct bb_node_placement *placement);

/* bb_fabric_add_collective_uplinks - what the uplinks need for a collective: from its uplink_bytes and pair_bytes its
 * uplink_ns, where `part` is what the protocol leaves of a rate. _member_bytes: of uplink_bytes and pair_bytes what
 * goes for each of so many members that are on one place. */
void bb_fabric_add_collective_uplinks(const struct bb_cluster *c, const struct bb_collective *call, double part,
                           struct bb_cost *cost);
double bb_fabric_member_bytes(const struct bb_cost *cost, enum bb_tier tier, int ranks, double on_place);

#endif
