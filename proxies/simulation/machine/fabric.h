/*
 * fabric.h - switches between the nodes of a cluster (profiles/clusters/README.md, "Leaves, pods and rails"): the bytes
 * that messages and collectives send over the uplinks of leaf switches and pods, and the rate of these uplinks.
 *
 * Consecutive nodes form an *area*, and consecutive areas form a pod. Without rails, all NICs of an area are attached
 * to one leaf switch. With rails, an area has one leaf switch per NIC of a node: NIC i of each node is attached to leaf
 * i of the area. If the receiver's NIC is on another rail than the sender's, NCCL first moves the data to another GPU
 * of the sending node (PXN), so a change of rail uses no uplink.
 */
#ifndef BB_PROXIES_SIMULATION_MACHINE_FABRIC_H
#define BB_PROXIES_SIMULATION_MACHINE_FABRIC_H

#include "proxies/simulation/machine/cluster.h"

#include <jansson.h>

/* bb_fabric_read - reads the section "fabric" of a profile; call it after all other sections are read. Without this
 * section, uplinks are not modeled. */
int bb_fabric_read(const json_t *root, const char *name_or_path, struct bb_cluster *c) BB_MUST_CHECK;

/* bb_fabric_is_oversubscribed - returns whether the uplinks of leaves (BB_LEAF) or pods (BB_POD) can be a
 * bottleneck, because their rate is lower than that of the attached NICs or because some leaf has degraded uplinks.
 * bb_fabric_has_oversubscribed_tier - returns whether this holds for leaves or for pods. */
bool bb_fabric_is_oversubscribed(const struct bb_cluster *c, enum bb_tier tier);
bool bb_fabric_has_oversubscribed_tier(const struct bb_cluster *c);
/* bb_fabric_placement_text - writes which nodes share an oversubscribed leaf; the traffic of its uplinks depends on it. Returns
 * text; "": no such leaf, or one per node. */
#define BB_PLACEMENT_TEXT 200
const char *bb_fabric_placement_text(const struct bb_cluster *c, char text[BB_PLACEMENT_TEXT]);
/* bb_fabric_rails - returns the number of rails (rail i: the i-th NIC of each node): one per NIC of a node, or one
 * per GPU if a GPU has several NICs. */
int bb_fabric_rails(const struct bb_cluster *c);
/*
 * bb_fabric_switch - returns the index, within the cluster, of the leaf or pod to which the NIC of a rank's GPU is
 * attached. With rails, the index of a leaf is (index of the area) x rails + rail.
 * bb_fabric_uplink_gbps - returns the total rate of the uplinks of one leaf or pod, per direction, in 1e9 bytes/s.
 * bb_fabric_job_oversubscription - returns the rate of the job's NICs under a leaf or pod / the rate of its uplinks; below 1 if the
 * job uses few of the NICs. 0: the profile has no such switches.
 * bb_fabric_leaves - returns the number of leaf switches to which the first `nodes` nodes are attached.
 */
int bb_fabric_switch(const struct bb_cluster *c, enum bb_tier tier, int rank);
double bb_fabric_uplink_gbps(const struct bb_cluster *c, enum bb_tier tier);
double bb_fabric_job_oversubscription(const struct bb_cluster *c, enum bb_tier tier);
int bb_fabric_leaves(const struct bb_cluster *c, int nodes);

/*
 * bb_fabric_takes_uplinks - returns whether a message between two ranks uses uplinks of this tier: up from the sender's
 * switch and down to the receiver's switch.
 * bb_fabric_changes_rail - returns whether NCCL first moves the message to another GPU of the sending node (PXN).
 */
bool bb_fabric_takes_uplinks(const struct bb_cluster *c, enum bb_tier tier, int from, int to);
/* bb_fabric_path_part - returns the remaining fraction of the rate from a node to a node; 1: the path is not slow. */
double bb_fabric_path_part(const struct bb_cluster *c, int from, int to);
/* bb_fabric_slow_member - returns 1 / this fraction for a member of a gather or scatter on this node; 0: its path is not
 * slow. */
double bb_fabric_slow_member(const struct bb_cluster *c, enum bb_coll_kind kind, int node, int root_node);
bool bb_fabric_changes_rail(const struct bb_cluster *c, int from, int to);

/*
 * bb_fabric_add_message - adds one message to the load (bytes sent and received) of a rank.
 *   sends  true: the rank sends the message to `peer`; false: the rank receives the message from `peer`
 * bb_fabric_add_slow_bytes - adds only the message's bytes over a slow path.
 * bb_fabric_add_uplink_bytes - adds only the message's bytes over uplinks, and the bytes that PXN moves within the
 * sending node to the GPU whose NIC is on the receiver's rail.
 */
void bb_fabric_add_slow_bytes(const struct bb_cluster *c, struct bb_link_load *load, int rank, int peer, double bytes,
                              bool sends);
void bb_fabric_add_uplink_bytes(const struct bb_cluster *c, struct bb_link_load *load, int rank, int peer, double bytes,
                                bool sends);
static inline void bb_fabric_add_message(const struct bb_cluster *c, struct bb_link_load *load, int rank, int peer,
                                         double bytes, bool sends)
{
    const bool one_node = rank / c->gpus_per_node == peer / c->gpus_per_node;

    (sends ? load->out : load->in)[one_node] += bytes;
    (sends ? load->sends : load->receives)[one_node] += bytes > 0;
    if (c->fabric.n_slow_paths > 0)
        bb_fabric_add_slow_bytes(c, load, rank, peer, bytes, sends);
    if (c->fabric.nodes[BB_LEAF] > 0)
        bb_fabric_add_uplink_bytes(c, load, rank, peer, bytes, sends);
}
/* bb_fabric_uplink_ns - returns the ns that the uplinks need for this load: the maximum of the times of leaf and pod
 * uplinks, which transfer concurrently. */
double bb_fabric_uplink_ns(const struct bb_cluster *c, const struct bb_link_load *load);
/* bb_fabric_message_ns - returns the duration of a message between two ranks: bb_cluster_message_ns, plus the
 * latency of a link within the node if PXN first moves the message to another GPU of the sending node. */
static inline int64_t bb_fabric_message_ns(const struct bb_cluster *c, int from, int to, double load_ns)
{
    if (c->fabric.rails && bb_fabric_changes_rail(c, from, to))
        load_ns += c->intra.latency_us * 1e3;
    return bb_cluster_message_ns(c, from / c->gpus_per_node == to / c->gpus_per_node, load_ns);
}

/* bb_fabric_find_slow_paths - computes the field slow of a placement from its field max_nic_pairs. ranks: [n] in ascending
 * order. NCCL's rings and trees connect the nodes in this order. */
void bb_fabric_find_slow_paths(const struct bb_cluster *c, const int *ranks, int n,
                               struct bb_node_placement *placement);

/*
 * bb_fabric_placement_of_nodes - computes the fields tier[] of a placement.
 *   nodes  [n] the nodes of the communicator's ranks in rank order, each node once; NULL: nodes 0 to n - 1
 */
void bb_fabric_placement_of_nodes(const struct bb_cluster *c, const int *nodes, int n,
                                  struct bb_node_placement *placement);

/*
 * bb_fabric_add_collective_uplinks - computes the uplink_ns of a collective's cost from its uplink_bytes and
 * pair_bytes.
 *   part      fraction of the uplinks' rate that is available for data (bb_nccl_variant.nic)
 * bb_fabric_member_bytes - returns the bytes that one member of the communicator sends over the uplinks of its leaf or
 * pod.
 *   ranks     number of members of the communicator
 *   on_place  number of members on this member's leaf or pod, including this member
 *   part      bytes of this member of a ring or tree / mean of its node's members (bb_uplink_part)
 * bb_uplink_part - returns this part: the NICs of a node transfer the same number of bytes.
 */
void bb_fabric_add_collective_uplinks(const struct bb_cluster *c, const struct bb_collective *call, double part,
                                      struct bb_cost *cost);
double bb_fabric_member_bytes(const struct bb_cost *cost, enum bb_tier tier, int ranks, double on_place, double part);
static inline double bb_uplink_part(const struct bb_nic_members *of)
{
    return (double)of->on_node / (of->nics * of->on_nic);
}

#endif
