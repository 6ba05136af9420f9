/* fabric.c - computes the bytes over leaf and pod uplinks, and the rates of these uplinks (see fabric.h). */
#include "proxies/simulation/machine/fabric.h"

#include "bootstrap/base/alloc.h"
#include "bootstrap/base/json_read.h"

#include <math.h>
#include <stdlib.h>

/* ---- reading the section "fabric" ---- */

#define AT(member) offsetof(struct bb_cluster, fabric.member)
#define TIER(name, tier)                                                                                               \
    BB_FIELD("fabric.nodes_per_" name, BB_JSON_WHOLE, AT(nodes[tier]), .min = 1, .max = 1e9),                          \
        BB_FIELD("fabric." name "_oversubscription", BB_JSON_NUMBER, AT(oversubscription[tier]), .min = 1)

static const struct bb_json_field leaf_fields[] = {TIER("leaf", BB_LEAF), {0}},
                                  pod_fields[] = {TIER("pod", BB_POD), {0}},
                                  all_fields[] = {TIER("leaf", BB_LEAF),
                                                  TIER("pod", BB_POD),
                                                  BB_FIELD("fabric.rails", BB_JSON_ANY, 0),
                                                  {0}};

static int read_rails(const json_t *fabric, const char *name_or_path, struct bb_cluster *c)
{
    const json_t *rails = json_object_get(fabric, "rails");

    c->fabric.rails = json_is_true(rails);
    return !rails || json_is_boolean(rails)
               ? 0
               : bb_err(BB_EUSAGE, "%s: 'fabric.rails' is not a boolean, expected true or false", name_or_path);
}

int bb_fabric_read(const json_t *root, const char *name_or_path, struct bb_cluster *c)
{
    const json_t *fabric = json_object_get(root, "fabric");
    const json_t *nodes_of_leaf = json_object_get(fabric, "nodes_per_leaf"),
                 *oversubscription = json_object_get(fabric, "leaf_oversubscription");
    const int *nodes = c->fabric.nodes;
    int rc;

    if (!fabric)
        return 0;
    if (c->n_variants == 0 || !c->has_sharing)
        return bb_err(BB_EUSAGE, "%s: 'fabric' requires '%s'", name_or_path, c->has_sharing ? "nccl" : "sharing");
    TRY(bb_json_reject_unknown(fabric, name_or_path, all_fields, "fabric"));
    if (!nodes_of_leaf || !oversubscription)
        return bb_err(
            BB_EUSAGE, "%s: 'fabric' requires 'nodes_per_leaf' and 'leaf_oversubscription' (for example %s%s%s)",
            name_or_path, nodes_of_leaf ? "" : "fabric.nodes_per_leaf=32",
            nodes_of_leaf || oversubscription ? "" : ", ", oversubscription ? "" : "fabric.leaf_oversubscription=1");
    TRY(bb_json_read(root, name_or_path, leaf_fields, c));
    TRY(read_rails(fabric, name_or_path, c));
    if (!json_object_get(fabric, "nodes_per_pod") && !json_object_get(fabric, "pod_oversubscription"))
        return 0;
    TRY(bb_json_read(root, name_or_path, pod_fields, c));
    if (nodes[BB_POD] % nodes[BB_LEAF] != 0)
        return bb_err(BB_EUSAGE, "%s: 'fabric.nodes_per_pod' is %d, expected a multiple of 'nodes_per_leaf', %d",
                      name_or_path, nodes[BB_POD], nodes[BB_LEAF]);
out:
    return rc;
}

/* ---- topology of leaves and pods ---- */

bool bb_fabric_is_oversubscribed(const struct bb_cluster *c, enum bb_tier tier)
{
    return c->fabric.nodes[tier] > 0 &&
           (c->fabric.oversubscription[tier] > 1 || (tier == BB_LEAF && c->fabric.slow_leaf));
}

bool bb_fabric_has_oversubscribed_tier(const struct bb_cluster *c)
{
    return bb_fabric_is_oversubscribed(c, BB_LEAF) || bb_fabric_is_oversubscribed(c, BB_POD);
}

const char *bb_fabric_placement_text(const struct bb_cluster *c, char text[BB_PLACEMENT_TEXT])
{
    const int nodes = c->fabric.nodes[BB_LEAF];

    text[0] = '\0';
    if (nodes > 1 && bb_fabric_is_oversubscribed(c, BB_LEAF))
        snprintf(text, BB_PLACEMENT_TEXT,
                 "assumes that each leaf switch connects %d consecutive nodes of the job; if no two nodes of the job "
                 "share a "
                 "leaf switch: --set fabric.nodes_per_leaf=1",
                 nodes);
    return text;
}

int bb_fabric_rails(const struct bb_cluster *c)
{
    return bb_cluster_gpus_share_nics(c) ? bb_cluster_nics(c) : c->gpus_per_node;
}

static int rail_of(const struct bb_cluster *c, int rank)
{
    int first, end;

    bb_cluster_gpu_nics(c, rank, &first, &end);
    return bb_cluster_gpus_share_nics(c) ? first : rank % c->gpus_per_node;
}

/* Returns the number of leaf switches of an area (the nodes attached to the same leaf switches): one per rail. For
 * tier BB_POD, returns 1, because a pod counts as one switch. */
static int count_switches(const struct bb_cluster *c, enum bb_tier tier)
{
    return c->fabric.rails && tier == BB_LEAF ? bb_fabric_rails(c) : 1;
}

static int area_of(const struct bb_cluster *c, enum bb_tier tier, int node)
{
    return c->fabric.nodes[tier] > 0 ? node / c->fabric.nodes[tier] : 0;
}

int bb_fabric_switch(const struct bb_cluster *c, enum bb_tier tier, int rank)
{
    const int switches = count_switches(c, tier), area = area_of(c, tier, rank / c->gpus_per_node);

    return switches == 1 ? area : area * switches + rail_of(c, rank);
}

int bb_fabric_leaves(const struct bb_cluster *c, int nodes)
{
    return (area_of(c, BB_LEAF, nodes - 1) + 1) * count_switches(c, BB_LEAF);
}

/* Returns the number of NICs of a node that are attached to the switches of the job's NICs. */
static double count_attached_nics(const struct bb_cluster *c, enum bb_tier tier)
{
    const bool leaf_per_nic = c->fabric.rails && tier == BB_LEAF; /* unused NICs have leaves of their own */

    return bb_cluster_nics(c) + (leaf_per_nic ? 0.0 : c->fabric.unused_nics);
}

double bb_fabric_uplink_gbps(const struct bb_cluster *c, enum bb_tier tier)
{
    const double nics = c->fabric.nodes[tier] * count_attached_nics(c, tier);

    return nics / count_switches(c, tier) * c->inter.gbps / c->fabric.oversubscription[tier];
}

double bb_fabric_job_oversubscription(const struct bb_cluster *c, enum bb_tier tier)
{
    return c->fabric.oversubscription[tier] * bb_cluster_nics(c) / count_attached_nics(c, tier);
}

/* ---- uplink bytes of messages ---- */

bool bb_fabric_takes_uplinks(const struct bb_cluster *c, enum bb_tier tier, int from, int to)
{
    return area_of(c, tier, from / c->gpus_per_node) != area_of(c, tier, to / c->gpus_per_node);
}

bool bb_fabric_changes_rail(const struct bb_cluster *c, int from, int to)
{
    return c->fabric.rails && from / c->gpus_per_node != to / c->gpus_per_node && rail_of(c, from) != rail_of(c, to);
}

double bb_fabric_path_part(const struct bb_cluster *c, int from, int to)
{
    double part = 1;

    for (int i = 0; i < c->fabric.n_slow_paths; i++)
        if (c->fabric.slow_paths[i].from == from && c->fabric.slow_paths[i].to == to)
            part = fmin(part, c->fabric.slow_paths[i].part);
    return part;
}

double bb_fabric_slow_member(const struct bb_cluster *c, enum bb_coll_kind kind, int node, int root_node)
{
    const bool sends = bb_colls[kind].from == BB_FROM_ROOT;
    const double part = bb_fabric_path_part(c, sends ? root_node : node, sends ? node : root_node);

    return part < 1 ? 1 / part : 0;
}

void bb_fabric_add_slow_bytes(const struct bb_cluster *c, struct bb_link_load *load, int rank, int peer, double bytes,
                              bool sends)
{
    const int node = rank / c->gpus_per_node, other = peer / c->gpus_per_node;
    const double part = bb_fabric_path_part(c, sends ? node : other, sends ? other : node);

    if (part < 1)
        *(sends ? &load->slow_out : &load->slow_in) += bytes / part;
}

void bb_fabric_add_uplink_bytes(const struct bb_cluster *c, struct bb_link_load *load, int rank, int peer, double bytes,
                                bool sends)
{
    for (int tier = 0; tier < BB_TIERS; tier++)
        if (bb_fabric_takes_uplinks(c, (enum bb_tier)tier, rank, peer))
            (sends ? load->up : load->down)[tier] += bytes;
    if (sends && bb_fabric_changes_rail(c, rank, peer))
        load->out[1] += bytes;
}

double bb_fabric_uplink_ns(const struct bb_cluster *c, const struct bb_link_load *load)
{
    double ns = 0;

    for (int tier = 0; tier < BB_TIERS; tier++)
        if (bb_fabric_is_oversubscribed(c, (enum bb_tier)tier))
            ns = fmax(ns, fmax(load->up[tier], load->down[tier]) / bb_fabric_uplink_gbps(c, (enum bb_tier)tier));
    return ns;
}

/* ---- uplink bytes of collectives ---- */

/* Finds the neighbors of a node in NCCL's binary tree over n nodes (ncclGetBtree, src/graph/trees.cc): the parent
 * and two children; -1: none. */
static void find_tree_neighbours(int n, int node, int neighbours[3])
{
    int bit = 1, low;

    while (bit < n && !(bit & node))
        bit *= 2;
    low = bit / 2;
    neighbours[0] = node == 0 ? -1 : (node ^ bit) | (2 * bit);
    if (neighbours[0] >= n)
        neighbours[0] = node ^ bit;
    neighbours[1] = node == 0 || low == 0 ? -1 : node - low;
    while (low > 0 && node + low >= n)
        low /= 2;
    neighbours[2] = low == 0 ? -1 : node + low;
}

/* Maps a node to its position in NCCL's second tree or, if `back`, a position to its node. The second tree mirrors
 * the first tree or, for an odd number of nodes, is the first tree shifted by one node (ncclGetDtree). */
static int map_second_tree(int n, int at, int back)
{
    return n % 2 == 0 ? n - 1 - at : (at + (back ? 1 : n - 1)) % n;
}

/* Finds the neighbors of a node in one of NCCL's two trees: 0 or 1. */
static void find_neighbours(int n, int tree, int node, int neighbours[3])
{
    find_tree_neighbours(n, tree ? map_second_tree(n, node, 0) : node, neighbours);
    for (int i = 0; tree && i < 3; i++)
        neighbours[i] = neighbours[i] < 0 ? -1 : map_second_tree(n, neighbours[i], 1);
}

/* Counts the connections of NCCL's two inter-node trees between nodes[node] and nodes of other areas (BB_LEAF; area:
 * the nodes attached to the same leaf switches) or of other pods (BB_POD). nodes: [n] as in
 * bb_fabric_placement_of_nodes. */
static int count_edges(const struct bb_cluster *c, enum bb_tier tier, const int *nodes, int n, int node)
{
    const int area = area_of(c, tier, nodes ? nodes[node] : node);
    int edges = 0;

    for (int tree = 0; tree < 2; tree++) {
        int neighbours[3];

        find_neighbours(n, tree, node, neighbours);
        for (int i = 0; i < 3; i++)
            edges += neighbours[i] >= 0 && area_of(c, tier, nodes ? nodes[neighbours[i]] : neighbours[i]) != area;
    }
    return edges;
}

void bb_fabric_placement_of_nodes(const struct bb_cluster *c, const int *nodes, int n,
                                  struct bb_node_placement *placement)
{
    for (int tier = 0; tier < BB_TIERS; tier++) {
        int nodes_in_area = 0, edges = 0, previous_area = -1;

        placement->tier[tier].switches = placement->tier[tier].max_nodes = placement->tier[tier].max_tree_edges = 0;
        for (int node = 0; node < n; node++) {
            const int area = area_of(c, (enum bb_tier)tier, nodes ? nodes[node] : node);

            if (area != previous_area) {
                placement->tier[tier].switches++;
                nodes_in_area = edges = 0;
            }
            previous_area = area;
            nodes_in_area++;
            edges += bb_fabric_is_oversubscribed(c, (enum bb_tier)tier)
                         ? count_edges(c, (enum bb_tier)tier, nodes, n, node)
                         : 0;
            if (nodes_in_area > placement->tier[tier].max_nodes)
                placement->tier[tier].max_nodes = nodes_in_area;
            if (edges > placement->tier[tier].max_tree_edges)
                placement->tier[tier].max_tree_edges = edges;
        }
    }
}

double bb_fabric_member_bytes(const struct bb_cost *cost, enum bb_tier tier, int ranks, double on_place, double part)
{
    return cost->uplink_bytes[tier] / on_place * part + (ranks - on_place) * cost->pair_bytes;
}

void bb_fabric_add_collective_uplinks(const struct bb_cluster *c, const struct bb_collective *call, double part,
                                      struct bb_cost *cost)
{
    const struct bb_node_placement *s = &call->placement;
    const double rails = cost->equal_nics ? s->min_nics : (double)s->min_members / s->max_members_per_nic;

    for (int i = 0; i < BB_TIERS; i++) {
        const enum bb_tier tier = (enum bb_tier)i;
        const double switches = fmin(rails, count_switches(c, tier)),
                     members = (double)s->tier[tier].max_nodes * s->max_members;

        if (!bb_fabric_is_oversubscribed(c, tier) || s->tier[tier].switches < 2) {
            cost->uplink_bytes[tier] = 0;
            continue;
        }
        cost->uplink_bytes[tier] /= part;
        cost->uplink_ns[tier] = members * bb_fabric_member_bytes(cost, tier, call->ranks, members, 1) /
                                (switches * bb_fabric_uplink_gbps(c, tier));
    }
}

/* ---- slow paths of collectives ---- */

/* A node of a communicator. */
struct path_end {
    int node, members, on_nic; /* on_nic: maximum number of members that share a NIC */
    /* sums over its slow paths, sent and received, each / the fraction of the path: edges of NCCL's trees; members at the
     * other end x on_nic */
    double edges[2], pairs[2];
};

/* Lists the nodes of these ranks. Returns their number. */
static int list_ends(const struct bb_cluster *c, const int *ranks, int n, struct path_end *ends)
{
    int n_ends = 0, on_nic = 0;

    for (int i = 0; i < n; i++) {
        const int node = ranks[i] / c->gpus_per_node;
        struct path_end *end;

        if (n_ends == 0 || ends[n_ends - 1].node != node)
            ends[n_ends++] = (struct path_end){.node = node};
        end = &ends[n_ends - 1];
        on_nic = ++end->members > 1 && bb_cluster_gpus_share_nics(c) &&
                         bb_cluster_rank_nic(c, ranks[i]) == bb_cluster_rank_nic(c, ranks[i - 1])
                     ? on_nic + 1
                     : 1;
        end->on_nic = on_nic > end->on_nic ? on_nic : end->on_nic;
    }
    return n_ends;
}

static int find_end(const struct path_end *ends, int n, int node)
{
    int i = 0;

    while (i < n && ends[i].node != node)
        i++;
    return i;
}

/* Returns how many of NCCL's two trees over n nodes connect nodes number a and b. */
static int count_common_edges(int n, int a, int b)
{
    int edges = 0;

    for (int tree = 0; tree < 2; tree++) {
        int neighbours[3];

        find_neighbours(n, tree, a, neighbours);
        edges += neighbours[0] == b || neighbours[1] == b || neighbours[2] == b;
    }
    return edges;
}

/* Returns the part of a node's bytes that PAT sends over this distance: NCCL sends the slice of the node at distance x over
 * the distance of the lowest set bit of x last. */
static double pat_part(int n, int distance)
{
    return n > 1 && (distance & (distance - 1)) == 0 ? floor((n - 1.0 + distance) / (2 * distance)) / (n - 1) : 0;
}

/* Adds the slow edge from node number a to the next one in a ring. */
static void add_ring_edge(int a, double times, struct bb_slow_path_use *slow)
{
    if (times > slow->ring) {
        slow->other_rings = slow->ring_from == a ? slow->other_rings : slow->ring;
        slow->ring = times;
        slow->ring_from = a;
    } else if (slow->ring_from != a)
        slow->other_rings = fmax(slow->other_rings, times);
}

/* Adds the slow path from nodes number a to b of n. */
static void add_slow_path(struct path_end *ends, int n, int a, int b, double times, struct bb_slow_path_use *slow)
{
    const int ahead = (b - a + n) % n;
    const double edges = count_common_edges(n, a, b);

    if (ahead == 1) /* NCCL's rings send to the next node only (src/graph/connect.cc, connectRings) */
        add_ring_edge(a, times, slow);
    /* ncclTransportPatConnect, src/transport/generic.cc: all_gather sends forward, reduce_scatter backward */
    slow->pat[0] = fmax(slow->pat[0], pat_part(n, ahead) * times);
    slow->pat[1] = fmax(slow->pat[1], pat_part(n, n - ahead) * times);
    ends[a].edges[0] += edges * times;
    ends[b].edges[1] += edges * times;
    ends[a].pairs[0] += (double)ends[a].on_nic * ends[b].members * times;
    ends[b].pairs[1] += (double)ends[b].on_nic * ends[a].members * times;
}

/* Each tree sends half of the data over each of its edges. A node of more than two sends over up to four edges: to a parent
 * in both trees, and to two children in one of them. */
void bb_fabric_find_slow_paths(const struct bb_cluster *c, const int *ranks, int n, struct bb_node_placement *placement)
{
    struct bb_slow_path_use *slow = &placement->slow;
    struct path_end *ends;
    int n_ends;

    *slow = (struct bb_slow_path_use){0};
    if (c->fabric.n_slow_paths == 0 || ranks[0] / c->gpus_per_node == ranks[n - 1] / c->gpus_per_node)
        return;
    BB_NEW(ends, n);
    n_ends = list_ends(c, ranks, n, ends);
    for (int i = 0; i < c->fabric.n_slow_paths; i++) {
        const struct bb_slow_path *path = &c->fabric.slow_paths[i];
        const int a = find_end(ends, n_ends, path->from), b = find_end(ends, n_ends, path->to);

        if (a < n_ends && b < n_ends && path->part < 1 && path->part <= bb_fabric_path_part(c, path->from, path->to))
            add_slow_path(ends, n_ends, a, b, 1 / path->part, slow);
    }
    for (int i = 0; i < 2 * n_ends; i++) {
        slow->trees = fmax(slow->trees, ends[i / 2].edges[i % 2] / (n_ends == 2 ? 2 : 4));
        slow->alltoall = fmax(slow->alltoall, ends[i / 2].pairs[i % 2] / placement->max_nic_pairs);
    }
    free(ends);
}
