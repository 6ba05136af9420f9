/*
 * fabric.h - the switches between the nodes of a cluster (profiles/clusters/README.md, "fabric"): the bytes that
 * messages and collectives send over the uplinks of leaf switches and pods, and the rate of these uplinks.
 *
 * Nodes are numbered; consecutive nodes form the area of a leaf, consecutive areas a pod. Without rails, all NICs of an
 * area are attached to one leaf switch. With rails, the NICs with the same number in an area are attached to a leaf
 * switch of their own. NCCL then moves data for another rail within the sending node first (PXN), so that changing the
 * rail needs no uplink.
 */
#ifndef BB_PROXIES_MACHINE_FABRIC_H
#define BB_PROXIES_MACHINE_FABRIC_H

#include "proxies/machine/cluster.h"

#include <jansson.h>

/* bb_fabric_read - read the key "fabric" after all other keys of the profile; a profile without this key has no
 * fabric. */
int bb_fabric_read(const json_t *root, const char *name_or_path, struct bb_cluster *c) BB_MUST_CHECK;

/* bb_fabric_is_oversubscribed - whether the uplinks of this tier can be a bottleneck: they carry less than the
 * attached NICs, or a leaf is slow. bb_fabric_has_oversubscribed_tier: whether this is true for any tier. */
bool bb_fabric_is_oversubscribed(const struct bb_cluster *c, enum bb_tier tier);
bool bb_fabric_has_oversubscribed_tier(const struct bb_cluster *c);
/* bb_fabric_rails - rails of a node: NICs, or GPUs if a GPU has several NICs. */
int bb_fabric_rails(const struct bb_cluster *c);
/*
 * bb_fabric_switch - global index of the leaf or pod whose uplinks a rank's NIC uses. With rails the index of a leaf is
 * (index of the area) x rails + rail.
 * bb_fabric_uplink_gbps - rate of the uplinks of one switch, per direction.
 * bb_fabric_leaves - number of leaves of the first `nodes` nodes.
 */
int bb_fabric_switch(const struct bb_cluster *c, enum bb_tier tier, int rank);
double bb_fabric_uplink_gbps(const struct bb_cluster *c, enum bb_tier tier);
int bb_fabric_leaves(const struct bb_cluster *c, int nodes);
/* bb_fabric_max_ranks - how many of ranks 0 to ranks - 1 are attached to the first switch, which has the most. */
int bb_fabric_max_ranks(const struct bb_cluster *c, enum bb_tier tier, int ranks);

/*
 * bb_fabric_takes_uplinks - whether a message between two ranks uses uplinks of this tier: up at the sender's switch
 * and down at the receiver's.
 * bb_fabric_changes_rail - whether the message is moved within the sending node first (PXN).
 */
bool bb_fabric_takes_uplinks(const struct bb_cluster *c, enum bb_tier tier, int from, int to);
bool bb_fabric_changes_rail(const struct bb_cluster *c, int from, int to);

/*
 * bb_fabric_add_message - add a message to a rank's load.
 *   sends  the rank sends the message to `peer`; false: it receives the message from `peer`
 * bb_fabric_add_uplink_bytes - only the part on uplinks and on links within the node that the fabric adds.
 */
void bb_fabric_add_uplink_bytes(const struct bb_cluster *c, struct bb_link_load *load, int rank, int peer, double bytes,
                                bool sends);
static inline void bb_fabric_add_message(const struct bb_cluster *c, struct bb_link_load *load, int rank, int peer,
                                         double bytes, bool sends)
{
    (sends ? load->out : load->in)[rank / c->gpus_per_node == peer / c->gpus_per_node] += bytes;
    if (c->fabric.nodes[BB_LEAF] > 0)
        bb_fabric_add_uplink_bytes(c, load, rank, peer, bytes, sends);
}
/* time of the most loaded uplink, without other links */
double bb_fabric_uplink_ns(const struct bb_cluster *c, const struct bb_link_load *load);
/* bb_fabric_message_ns - bb_cluster_message_ns between two ranks, with one more step within the node for a change of
 * rail. */
static inline int64_t bb_fabric_message_ns(const struct bb_cluster *c, int from, int to, double load_ns)
{
    if (c->fabric.rails && bb_fabric_changes_rail(c, from, to))
        load_ns += c->intra.latency_us * 1e3;
    return bb_cluster_message_ns(c, from / c->gpus_per_node == to / c->gpus_per_node, load_ns);
}

/*
 * bb_fabric_placement_of_nodes - compute tier[] of a placement.
 *   nodes  [n] nodes of the communicator in the order of its ranks, each once; NULL: 0 to n - 1
 */
void bb_fabric_placement_of_nodes(const struct bb_cluster *c, const int *nodes, int n,
                                  struct bb_node_placement *placement);

/*
 * bb_fabric_add_collective_uplinks - compute uplink_ns of a cost from its uplink_bytes and pair_bytes.
 *   part  fraction of the uplinks' rate that the protocol leaves to data
 * bb_fabric_member_bytes - bytes over the uplinks of a switch for each of its `on_place` members.
 */
void bb_fabric_add_collective_uplinks(const struct bb_cluster *c, const struct bb_collective *call, double part,
                                      struct bb_cost *cost);
double bb_fabric_member_bytes(const struct bb_cost *cost, enum bb_tier tier, int ranks, double on_place);

#endif
