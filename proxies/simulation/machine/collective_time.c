/*
 * collective_time.c - cost of collectives (definition and sources: profiles/clusters/README.md). A profile without
 * section "nccl" uses the alpha-beta model: one latency and one bandwidth. With "nccl", each variant (NCCL algorithm
 * with protocol) has the latencies and bandwidths of NCCL's tuning model (NCCL 2.27, src/graph/tuning.cc), and the cost
 * of a collective is that of its fastest variant.
 */
#include "proxies/simulation/machine/fabric.h"

#include <math.h>
#include <strings.h>

static int log2_up(int n)
{
    int steps = 0;

    while (1L << steps < n)
        steps++;
    return steps;
}

/* Returns the number of phases of the collective: 2 for all_reduce, which first reduces the data and then
 * distributes the result; otherwise 1. */
static int count_phases(const struct bb_coll *coll)
{
    return (coll->flags & BB_COLL_REDUCES) && !(coll->flags & (BB_COLL_ROOTED | BB_COLL_SLICED)) ? 2 : 1;
}

/* ---- alpha-beta model ---- */

static void alpha_beta_cost(const struct bb_cluster *c, const struct bb_collective *call, double bytes,
                            struct bb_cost *cost)
{
    const struct bb_link *link = call->nodes == 1 ? &c->intra : &c->inter;
    const struct bb_coll *coll = &bb_colls[call->kind];

    cost->bytes = coll->bus_factor(call->ranks) * bytes;
    cost->latency_ns = count_phases(coll) * log2_up(call->ranks) * link->latency_us * 1e3;
    cost->transfer_ns = cost->bytes / link->gbps;
    *(call->nodes == 1 ? &cost->link_ns : &cost->nic_ns) = cost->transfer_ns;
    cost->nic_bytes = cost->nic_ns * bb_cluster_nic_gbps(c);
}

/* ---- rates of NICs ---- */

/* Returns the total rate of the NICs that one GPU uses, in 1e9 bytes/s, as if no other GPU used them. For a profile
 * without "sharing": the GPU's share of the node's NICs. */
static double gpu_nics_gbps(const struct bb_cluster *c)
{
    return c->has_sharing ? c->inter.gbps * fmax(1, (double)c->nics_per_node / c->gpus_per_node)
                          : bb_cluster_nic_gbps(c);
}

/* Returns the inter-node rate of one member while all members communicate: the rate at the NIC that the most members
 * share. */
static double member_nic_gbps(const struct bb_cluster *c, const struct bb_collective *call)
{
    return gpu_nics_gbps(c) / (c->has_sharing ? call->placement.max_members_per_nic : 1);
}

/* ---- collectives that NCCL implements as sends and receives ---- */

static double longest_ns(const struct bb_cost *cost)
{
    return fmax(fmax(cost->link_ns, cost->nic_ns), fmax(cost->uplink_ns[BB_LEAF], cost->uplink_ns[BB_POD]));
}

/* Returns the fraction (0 to 1) of the inter-node bytes that NCCL first moves to another GPU of the sending node
 * (PXN), because that GPU's NIC is on the receiver's rail. members: members per node. */
static double pxn_fraction(const struct bb_cluster *c, double members)
{
    return c->fabric.rails ? 1 - 1 / fmin(members, bb_fabric_rails(c)) : 0;
}

/* Computes the cost of alltoall, gather and scatter, which NCCL implements as sends and receives. Intra-node links
 * and NICs transfer their bytes concurrently. In an alltoall, the members of the node with the fewest members send
 * the most bytes to other nodes. In a gather or scatter, the root's NIC transfers the bytes of all members on other
 * nodes. */
static void send_recv_cost(const struct bb_cluster *c, const struct bb_collective *call, double bytes,
                           struct bb_cost *cost)
{
    const bool rooted = bb_colls[call->kind].flags & BB_COLL_ROOTED;
    const double n = call->ranks, members = n / call->nodes, moved = pxn_fraction(c, members);
    const double with_root = call->members_on_root_node > 0 ? call->members_on_root_node : call->placement.max_members;
    const double away = n - (rooted ? with_root : call->placement.min_members);
    const double near_us = call->ranks > call->nodes ? c->intra.latency_us : 0;
    const double far_us = call->nodes > 1 ? c->inter.latency_us + (moved > 0 ? c->intra.latency_us : 0) : 0;

    cost->bytes = (n - 1) / n * bytes;
    cost->latency_ns = fmax(near_us, far_us) * 1e3;
    if (call->nodes > 1 && call->ranks > 2)
        cost->latency_ns += bb_cluster_group_ns(c, (int)away);
    cost->link_ns = ((rooted ? with_root : call->placement.max_members) - 1 + away * moved) / n * bytes / c->intra.gbps;
    cost->nic_ns = (rooted || !c->has_sharing ? away : call->placement.max_nic_pairs) / n * bytes / gpu_nics_gbps(c);
    cost->nic_bytes = cost->nic_ns * member_nic_gbps(c, call);
    if (rooted)
        /* bytes of the members outside the root's leaf (pod); all nodes of the root's leaf (pod) are assumed to have
         * all their GPUs in the communicator */
        for (int tier = 0; tier < BB_TIERS; tier++)
            cost->uplink_bytes[tier] =
                fmax(0, n - with_root - (call->placement.tier[tier].max_nodes - 1.0) * call->placement.max_members) /
                n * bytes;
    else
        cost->pair_bytes = bytes / n;
    bb_fabric_add_collective_uplinks(c, call, 1, cost);
    cost->transfer_ns = longest_ns(cost);
}

/* ---- cost of a variant: NCCL algorithm with protocol ---- */

/* Number of sequential algorithm steps within nodes and between nodes; a step within a node takes the variant's
 * intra_us, a step between nodes its inter_us. */
struct steps {
    double intra, inter;
};

static struct steps steps_of(enum bb_nccl_algorithm algorithm, int rounds, int n, int nodes)
{
    double levels = log2_up(nodes);

    switch (algorithm) {
    case BB_NCCL_TREE: /* a chain of GPUs within each node, and a binary tree over the nodes */
        return (struct steps){rounds * ((double)n / nodes - 1), rounds * levels};
    case BB_NCCL_NVLS:
    case BB_NCCL_NVLS_TREE:
        return (struct steps){1, rounds * levels};
    case BB_NCCL_PAT:
        return (struct steps){0, rounds * levels};
    case BB_NCCL_COLLNET_DIRECT: /* each GPU exchanges data first with the other GPUs of its node, then over the
                                    network */
        return (struct steps){n > nodes ? rounds : 0, 1};
    case BB_NCCL_COLLNET_CHAIN:
        return (struct steps){rounds * ((double)n / nodes - 1), 1};
    default:
        return (struct steps){(double)rounds * (n - nodes), (double)rounds * (nodes - 1)};
    }
}

/* Returns whether the network's switches add up the data of the nodes (CollNet with SHARP). */
static bool network_reduces(enum bb_nccl_algorithm algorithm)
{
    return algorithm == BB_NCCL_COLLNET_DIRECT || algorithm == BB_NCCL_COLLNET_CHAIN;
}

static bool has_reduction(const struct bb_collective *call)
{
    return (bb_colls[call->kind].flags & BB_COLL_REDUCES) && call->redop != BB_COPY;
}

/* The reductions of each data type (bits: 1 << enum bb_redop_id) that switches compute. NVSwitches: ncclNvlsSupported
 * (NCCL 2.19 to 2.30, src/include/device.h). NCCL multiplies by a factor before the sum, or divides integers after it, for
 * avg and mulsum (hostToDevRedOp in src/enqueue.cc), which NVSwitches do not; CollNet supports both like sum
 * (ncclGetCollNetSupport). SHARP: typeConvert and opConvert in src/sharp_plugin.c of nccl-rdma-sharp-plugins. */
#define SUM      (1u << BB_SUM)
#define EXTREMES (1u << BB_MIN | 1u << BB_MAX)
#define SCALED   (1u << BB_AVG | 1u << BB_MULSUM)
static const struct {
    unsigned nvswitch, sharp;
} reductions[BB_DTYPE_COUNT] = {
    [BB_INT8] = {0, SUM | EXTREMES | SCALED},
    [BB_UINT8] = {0, SUM | EXTREMES | SCALED},
    [BB_INT32] = {SUM | EXTREMES, SUM | EXTREMES | SCALED},
    [BB_UINT32] = {SUM | EXTREMES, SUM | EXTREMES | SCALED},
    [BB_INT64] = {SUM | EXTREMES, SUM | EXTREMES | SCALED},
    [BB_UINT64] = {SUM | EXTREMES, SUM | EXTREMES | SCALED},
    [BB_HALF] = {SUM | EXTREMES, SUM | EXTREMES | SCALED},
    [BB_FLOAT] = {SUM, SUM | EXTREMES | SCALED},
    [BB_DOUBLE] = {SUM, SUM | EXTREMES | SCALED},
    [BB_BFLOAT16] = {SUM | EXTREMES, SUM | EXTREMES | SCALED},
    [BB_F8E4M3] = {0, 0},
    [BB_F8E5M2] = {0, 0},
};

/* Returns whether NCCL's algorithm supports the data type and the reduction. PAT does not scale (updateCollCostTable in
 * src/enqueue.cc). */
static bool reduces(enum bb_nccl_algorithm algorithm, const struct bb_collective *call)
{
    unsigned redop;

    if (!has_reduction(call))
        return true;
    redop = 1u << call->redop;
    return algorithm == BB_NCCL_NVLS || algorithm == BB_NCCL_NVLS_TREE ? reductions[call->dtype].nvswitch & redop
           : network_reduces(algorithm)                                ? reductions[call->dtype].sharp & redop
           : algorithm == BB_NCCL_PAT                                  ? !(SCALED & redop)
                                                                       : true;
}

/* Returns whether NCCL implements the call with this algorithm: trees, NVLS and CollNet only for all_reduce; PAT only for
 * all_gather and reduce_scatter with one GPU per node. */
static bool supports(enum bb_nccl_algorithm algorithm, const struct bb_collective *call)
{
    const struct bb_coll *coll = &bb_colls[call->kind];
    const int n = call->ranks, nodes = call->nodes;
    bool whole = count_phases(coll) == 2;

    if (!reduces(algorithm, call))
        return false;
    return algorithm == BB_NCCL_RING        ? true
           : algorithm == BB_NCCL_PAT       ? (coll->flags & BB_COLL_SLICED) && nodes == n
           : algorithm == BB_NCCL_NVLS      ? whole && nodes == 1
           : algorithm == BB_NCCL_NVLS_TREE ? whole && nodes > 1 && nodes < n
           : network_reduces(algorithm)     ? whole && nodes > 1
                                            : whole;
}

double bb_nccl_choice_factor(enum bb_nccl_algorithm algorithm, const struct bb_collective *call)
{
    const bool is_fp8 = call->dtype == BB_F8E4M3 || call->dtype == BB_F8E5M2;

    return is_fp8 && algorithm == BB_NCCL_RING && call->ranks > 8 && has_reduction(call) ? 1024 : 1;
}

/* Returns the bytes per direction over all uplinks of one leaf (pod). A ring over consecutive nodes enters and
 * leaves the switch once. Each of NCCL's two trees sends half of the data over each of its edges, for all_reduce in
 * both directions. In PAT each node sends to the nodes at distance 1, 2, 4, ...: the steps that leave the switch
 * send the bytes of a ring, plus half of this number for each doubling of the number of nodes on the switch. With
 * SHARP the switch sends one sum up and receives one sum. */
static double uplink_bytes_of(enum bb_nccl_algorithm algorithm, const struct bb_collective *call, enum bb_tier tier,
                              double bytes, double ring_bytes)
{
    if (algorithm == BB_NCCL_RING)
        return ring_bytes;
    if (network_reduces(algorithm))
        return bytes;
    if (algorithm == BB_NCCL_PAT)
        return ring_bytes * (1 + log2(fmax(1, call->placement.tier[tier].max_nodes)) / 2);
    return count_phases(&bb_colls[call->kind]) * call->placement.tier[tier].max_tree_edges * bytes / 4;
}

/* Returns the bytes per direction through the NICs of the node that sends the most. Each of NCCL's two trees
 * transfers half of the data. A node sends to a parent in both trees and, in one of the trees, to two children (with
 * two nodes, to one child). With CollNet a node sends its sum and receives the result. */
static double nic_bytes_of(enum bb_nccl_algorithm algorithm, const struct bb_collective *call, double bytes,
                           double ring_bytes)
{
    if (algorithm == BB_NCCL_RING || algorithm == BB_NCCL_PAT)
        return ring_bytes;
    if (network_reduces(algorithm))
        return bytes;
    return (call->nodes == 2 ? 0.5 : 1) * count_phases(&bb_colls[call->kind]) * bytes;
}

/* ---- bytes over links within a node ---- */

#define NVLS_GPUS 8 /* number of GPUs per node for which the value "gbps" of an NVLS variant is the bus bandwidth */

/* Returns the bytes over the intra-node links of one GPU, to be divided by the variant's gbps. In a tree, the GPUs
 * of a node form a chain; each GPU sends all bytes up and down the chain. With NVLS each GPU sends all bytes to the
 * NVSwitches, which sum the data of the GPUs, and multicasts 1/n of the sums: 9/8 of the bytes with n = 8 GPUs, 5/4
 * with four. */
static double intra_bytes_of(enum bb_nccl_algorithm algorithm, const struct bb_collective *call, double bytes,
                             double ring_bytes)
{
    const double gpus = (double)call->ranks / call->nodes;

    if (algorithm == BB_NCCL_TREE)
        return 2 * bytes;
    if (algorithm == BB_NCCL_NVLS || algorithm == BB_NCCL_NVLS_TREE)
        return bb_colls[BB_ALL_REDUCE].bus_factor(NVLS_GPUS) * bytes * (1 + 1 / gpus) / (1 + 1.0 / NVLS_GPUS);
    return ring_bytes;
}

/* ---- effects at message sizes between latency- and bandwidth-bound (NCCL 2.27: src/graph/tuning.cc,
 * src/enqueue.cc, src/transport/nvls.cc) ---- */

#define KIB                         1024.0
#define RING_SLICES                 2            /* slices per chunk of a ring */
#define RING_SLICE                  (1024 * KIB) /* maximum bytes of a slice: 1/4 of NCCL's default 4 MiB buffer */
#define RING_PLATEAU                1.4 /* tuning.cc: factor on the latency of inter-node all_reduce, ring, Simple */
#define PLATEAU_BYTES               64  /* tuning.cc: minimum bytes per NCCL channel and rank for RING_PLATEAU */
#define NVLS_CHUNK                  (128 * KIB) /* enqueue.cc: maximum bytes of a chunk per NCCL channel and head */
#define NVLS_HEADS                  32 /* maximum number of heads: GPUs of a node, each reduces 1/heads of the array */
#define NVLS_CHANNELS               16 /* nvls.cc: number of NCCL channels on Hopper, for profiles without "channels" */
#define NVLS_FILL                   2  /* pipeline steps until scatter, reduce and gather run, per level of the tree */
#define NVLS_TREE_SMALL_CHUNK_NODES 4  /* enqueue.cc: minimum number of nodes for which NVLSTree halves its chunks */
#define TREE_CORRECTIONS            23

/* Returns the fraction (0 to 1) of its bandwidth that a tree reaches for an array of `bytes` (tuning.cc,
 * treeCorrectionFactor). The tables have one value per power of two, from 64 bytes to 256 MiB. */
static double tree_efficiency(const struct bb_nccl_variant *variant, double bytes)
{
    static const struct {
        const char *protocol;
        double parts[TREE_CORRECTIONS];
    } rows[] = {
        {"LL", {1, 1, 1, 1, .9, .8, .7, .7, .7, .7, .6, .5, .4, .4, .5, .6, .7, .8, .9, 1, 1, 1, 1}},
        {"LL128", {1, 1, 1, 1, 1, .9, .8, .8, .8, .7, .6, .6, .6, .6, .6, .6, .8, .9, .9, .9, .9, 1, 1}},
        {"Simple", {.9, .9, .9, .9, .9, .9, .9, .8, .7, .6, .6, .5, .5, .5, .5, .6, .7, .8, .7, .7, .8, .9, .9}}};
    const double size = floor(log2(bytes / 64));

    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++)
        if (size >= 0 && size < TREE_CORRECTIONS && strcasecmp(rows[i].protocol, variant->protocol) == 0)
            return rows[i].parts[(int)size];
    return 1;
}

/* Adds the latency of the last step of a ring, in which each rank copies the last slice of each NCCL channel's chunk
 * while no link sends. Also applies RING_PLATEAU. profiles/clusters/README.md compares this latency with a
 * measurement. */
static void add_ring_tail(const struct bb_nccl_variant *variant, const struct bb_collective *call, double bytes,
                          struct bb_cost *cost)
{
    const struct bb_coll *coll = &bb_colls[call->kind];

    if (count_phases(coll) == 2 && call->nodes > 1 && strcasecmp(variant->protocol, "Simple") == 0 &&
        bytes / variant->channels / call->ranks >= PLATEAU_BYTES)
        cost->latency_ns *= RING_PLATEAU;
    if (!(coll->flags & BB_COLL_ROOTED) && call->ranks > call->nodes)
        cost->latency_ns += fmin(bytes / call->ranks / RING_SLICES, variant->channels * RING_SLICE) / variant->gbps;
}

/* Returns the bytes of one NVLS pipeline step: one chunk per NCCL channel and head (GPU of the node that reduces one
 * part of the array). For arrays of only a few steps NCCL halves the chunk (enqueue.cc). */
static double nvls_round_bytes(const struct bb_nccl_variant *variant, const struct bb_collective *call, double bytes)
{
    static const double min_rounds[] = {64, 8, 2}, tree_min_rounds[] = {4, 1};
    const bool tree = variant->algorithm == BB_NCCL_NVLS_TREE, far = tree && call->nodes >= NVLS_TREE_SMALL_CHUNK_NODES;
    const double heads = fmin(NVLS_HEADS, (double)call->ranks / call->nodes);
    double round = (variant->channels > 0 ? variant->channels : NVLS_CHANNELS) * heads * NVLS_CHUNK / (far ? 2 : 1);

    for (size_t i = far; i < (tree ? 2 : 3); i++)
        if (bytes < (tree ? tree_min_rounds : min_rounds)[i] * round)
            round /= 2;
    return fmin(bytes, round);
}

/* Adds the time of the NVLS pipeline steps, in each of which all GPUs synchronize. The steps overlap, except the
 * first ones, which fill the pipeline. A node is an inner node of one of the two trees, so that a chunk passes its NICs
 * up to four times: from a child, to the parent, and back. */
static void add_nvls_rounds(const struct bb_nccl_variant *variant, const struct bb_collective *call, double bytes,
                            struct bb_cost *cost)
{
    const double round = nvls_round_bytes(variant, call, bytes), wait_ns = variant->chunk_us * 1e3;
    const int fill = NVLS_FILL * (call->nodes > 1 ? log2_up(call->nodes) : 1), passes = fill < 4 ? fill : 4;
    const double nic_ns = cost->nic_ns * round / bytes,
                 round_ns = fmax(wait_ns + cost->link_ns * round / bytes, nic_ns);

    cost->latency_ns += fill * round_ns;
    cost->fill_ns = passes * round_ns;
    cost->fill_nic_ns = passes * nic_ns;
    cost->link_ns += ceil(bytes / round) * wait_ns;
}

double bb_cost_slow_fill_ns(const struct bb_cost *cost, double part)
{
    return fmax(0, cost->fill_nic_ns / part - cost->fill_ns);
}

/* Returns how many times as long the transfer of a ring or tree takes as with all NCCL channels. NCCL uses one channel per
 * `per_channel` bytes, its number of threads per channel times its threshold per thread; for a ring with LL times the
 * number of ranks (enqueue.cc, getAlgoInfo; tuning.cc, threadThresholds). */
static double channel_factor(const struct bb_nccl_variant *variant, int n, double bytes)
{
    static const struct {
        const char *protocol;
        int per_channel;
    } rows[] = {{"LL", 512 * 8}, {"LL128", 640 * 8}, {"Simple", 512 * 64}};
    const bool ring = variant->algorithm == BB_NCCL_RING;
    double per_channel = 0;

    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++)
        if (strcasecmp(rows[i].protocol, variant->protocol) == 0)
            per_channel = rows[i].per_channel * (ring && i == 0 ? n : 1.0);
    if ((!ring && variant->algorithm != BB_NCCL_TREE) || variant->channels == 0 || per_channel == 0)
        return 1;
    return variant->channels / fmin(variant->channels, fmax(1, floor(bytes / per_channel)));
}

/* A call between nodes takes at least the time of its bytes at the sustained rate. */
static void apply_sustained_rate(const struct bb_nccl_variant *variant, struct bb_cost *cost)
{
    const double ns = variant->sustained > 0 ? cost->nic_ns / variant->sustained : 0;

    if (ns <= cost->latency_ns + cost->transfer_ns)
        return;
    cost->latency_ns = 0;
    cost->nic_ns = cost->transfer_ns = ns;
    cost->nic_bytes /= variant->sustained;
    cost->data_part *= variant->sustained;
}

/* uplinks: false: without those of leaves and pods */
static struct bb_cost variant_cost(const struct bb_cluster *c, const struct bb_nccl_variant *variant,
                                   const struct bb_collective *call, double bytes, bool uplinks)
{
    const struct bb_coll *coll = &bb_colls[call->kind];
    const int n = call->ranks, nodes = call->nodes, rounds = count_phases(coll);
    struct steps steps = steps_of(variant->algorithm, rounds, n, nodes);
    const double members = c->has_sharing ? call->placement.min_nics : call->placement.min_members;
    const double used = variant->max_nics > 0 ? fmin(members, variant->max_nics) : members;
    const double nics = gpu_nics_gbps(c) * used * variant->nic;
    struct bb_cost cost = {.variant = variant, .bytes = coll->bus_factor(n) * bytes};
    double slower;

    cost.link_ns = n == nodes ? 0 : intra_bytes_of(variant->algorithm, call, bytes, cost.bytes) / variant->gbps;
    cost.nic_ns = nodes == 1 ? 0 : nic_bytes_of(variant->algorithm, call, bytes, cost.bytes) / nics;
    cost.nic_bytes = cost.nic_ns * member_nic_gbps(c, call);
    cost.data_part = variant->nic;
    cost.equal_nics = true;
    cost.latency_ns = (variant->base_us + steps.intra * variant->intra_us + steps.inter * variant->inter_us) * 1e3;
    if (variant->chunk_us > 0)
        add_nvls_rounds(variant, call, bytes, &cost);
    if (variant->algorithm == BB_NCCL_RING && variant->channels > 0)
        add_ring_tail(variant, call, bytes, &cost);
    for (int tier = 0; tier < BB_TIERS && uplinks; tier++)
        cost.uplink_bytes[tier] = uplink_bytes_of(variant->algorithm, call, (enum bb_tier)tier, bytes, cost.bytes);
    if (uplinks)
        bb_fabric_add_collective_uplinks(c, call, variant->nic, &cost);
    cost.transfer_ns = longest_ns(&cost);
    /* treeCorrectionFactor and few channels make the operation longer without adding traffic, so the additional time
     * counts as latency */
    slower =
        channel_factor(variant, n, bytes) / (variant->algorithm == BB_NCCL_TREE ? tree_efficiency(variant, bytes) : 1);
    cost.latency_ns += cost.transfer_ns * (slower - 1);
    apply_sustained_rate(variant, &cost);
    return cost;
}

/* NCCL's choice does not depend on uplinks, which NCCL does not know (src/graph/tuning.cc has the rates of links and NICs).
 * If every variant has a min_bytes above `bytes`, all of them are considered. only: NULL: all variants */
static void fastest_variant_cost(const struct bb_cluster *c, const struct bb_collective *call, double bytes,
                                 const struct bb_nccl_variant *only, struct bb_cost *cost)
{
    double best = INFINITY;

    for (int n = 0; n < 2 * c->n_variants && !(n == c->n_variants && cost->variant); n++) {
        const int i = n % c->n_variants;
        struct bb_cost one;
        double ns;

        if ((only && only != &c->variants[i]) || (n < c->n_variants && bytes < c->variants[i].min_bytes) ||
            !supports(c->variants[i].algorithm, call))
            continue;
        one = variant_cost(c, &c->variants[i], call, bytes, false);
        ns = (one.latency_ns + one.transfer_ns) * bb_nccl_choice_factor(c->variants[i].algorithm, call);
        if (ns < best) {
            best = ns;
            *cost = one;
        }
    }
    if (!cost->variant) /* the profile contains no NCCL algorithm that supports the collective */
        cost->latency_ns = INFINITY;
    else if (bb_fabric_has_oversubscribed_tier(c))
        *cost = variant_cost(c, cost->variant, call, bytes, true);
}

static double payload_bytes(const struct bb_collective *call)
{
    return (double)bb_coll_payload_count(call->kind, call->count, call->ranks) * bb_dtypes[call->dtype].bytes;
}

/* Computes the placement of the members on nodes 0, 1, ... All nodes but the last are full if the call's numbers of
 * ranks and nodes allow this; otherwise the members are distributed evenly. */
static void place_on_first_nodes(const struct bb_cluster *c, const struct bb_collective *call,
                                 struct bb_node_placement *placement)
{
    const int full = c->gpus_per_node, last = call->ranks - (call->nodes - 1) * full;
    const int max = (call->ranks + call->nodes - 1) / call->nodes, fewest = call->ranks / call->nodes;
    const bool shared = bb_cluster_gpus_share_nics(c);
    const int on_nic = shared ? (full + bb_cluster_nics(c) - 1) / bb_cluster_nics(c) : 1;
    const bool in_turn = last > 0 && last <= full;
    const int sizes[2] = {in_turn && call->nodes > 1 ? full : max, in_turn ? last : fewest};

    for (int i = 0; i < 2; i++)
        bb_cluster_placement_add_node(placement, call->ranks, sizes[i],
                                      shared ? bb_cluster_rank_nic(c, (sizes[i] - 1) % full) + 1 : sizes[i],
                                      sizes[i] < on_nic ? sizes[i] : on_nic);
}

/* Returns the call with its placement. If the caller left the placement unknown, the members are placed on nodes 0,
 * 1, ... */
static struct bb_collective with_placement(const struct bb_cluster *c, const struct bb_collective *call)
{
    struct bb_collective placed = *call;

    if (call->placement.min_members == 0)
        place_on_first_nodes(c, call, &placed.placement);
    if (bb_fabric_has_oversubscribed_tier(c) && call->placement.tier[BB_LEAF].switches == 0)
        bb_fabric_placement_of_nodes(c, NULL, call->nodes, &placed.placement);
    return placed;
}

int bb_cluster_find_curve(const struct bb_cluster *c, enum bb_coll_kind kind, int ranks, int nodes)
{
    int i = 0;

    while (i < c->n_measured &&
           (c->measured[i].kind != kind || c->measured[i].ranks != ranks || c->measured[i].nodes != nodes))
        i++;
    return i;
}

/* Below the smallest measured size the logarithm of its factor falls by e in this number of octaves. */
#define FADING_OCTAVES 4.0

/* Returns measured time / time of the model: between two measured sizes by the logarithm of the size; above them as at
 * the largest, whose rate is that of the larger sizes; below them nearer to 1 (FADING_OCTAVES). 1 if the collective was
 * not measured. */
static double measured_factor(const struct bb_cluster *c, const struct bb_collective *call, double bytes)
{
    const int found = bb_cluster_find_curve(c, call->kind, call->ranks, call->nodes);
    const struct bb_measured_curve *curve = &c->measured[found];
    int i = 1;

    if (found == c->n_measured || curve->n == 0)
        return 1;
    if (bytes < curve->bytes[0])
        return pow(curve->factor[0], exp(log2(bytes / curve->bytes[0]) / FADING_OCTAVES));
    while (i < curve->n && curve->bytes[i] < bytes)
        i++;
    if (i == curve->n)
        return curve->factor[i - 1];
    return curve->factor[i - 1] * pow(curve->factor[i] / curve->factor[i - 1],
                                      log(bytes / curve->bytes[i - 1]) / log(curve->bytes[i] / curve->bytes[i - 1]));
}

static void apply_measured(const struct bb_cluster *c, const struct bb_collective *call, double bytes,
                           struct bb_cost *cost)
{
    double *const times[] = {&cost->latency_ns, &cost->transfer_ns, &cost->link_ns, &cost->nic_ns};
    const double factor = measured_factor(c, call, bytes);

    for (size_t i = 0; i < sizeof(times) / sizeof(*times); i++)
        *times[i] *= factor;
    for (int tier = 0; tier < BB_TIERS; tier++)
        cost->uplink_ns[tier] *= factor;
}

/* Names the variant that NCCL chose for the next smaller measured size, if the call's reduction has it: with another fastest
 * one, the cost model has its shape of the times, but not NCCL's choice. */
static void name_choice(const struct bb_cluster *c, const struct bb_collective *call, double bytes,
                        struct bb_cost *cost)
{
    const int found = bb_cluster_find_curve(c, call->kind, call->ranks, call->nodes);
    const struct bb_measured_curve *curve = &c->measured[found];

    if (found == c->n_measured || bytes > curve->max_bytes)
        return;
    for (int i = 0; i < curve->n && curve->bytes[i] <= bytes; i++)
        if (curve->variant[i] > 0 && supports(c->variants[curve->variant[i] - 1].algorithm, call))
            cost->variant = &c->variants[curve->variant[i] - 1];
}

static bool is_tree(const struct bb_nccl_variant *variant)
{
    return variant && (variant->algorithm == BB_NCCL_TREE || variant->algorithm == BB_NCCL_NVLS_TREE);
}

/* Returns the time of the bytes over slow paths of a ring / that of all bytes through the NIC. The chain of a broadcast begins
 * at the root, that of a reduce ends there (src/device/broadcast.h and reduce.h): with one member on each node, no byte
 * takes the edge that would close the ring. With more members, other channels take it. */
static double ring_times(const struct bb_collective *call)
{
    const struct bb_slow_path_use *slow = &call->placement.slow;
    const bool from_root = call->kind == BB_BROADCAST;
    const int closing = (call->root_number + (from_root ? call->nodes - 1 : 0)) % call->nodes;

    return (from_root || call->kind == BB_REDUCE) && call->placement.max_members == 1 && slow->ring_from == closing
               ? slow->other_rings
               : slow->ring;
}

/* Returns the time of the bytes over slow paths / that of all bytes through the NIC; 0: none is used. The switches of CollNet
 * are taken to connect the nodes as a ring. */
static double slow_path_times(const struct bb_collective *call, const struct bb_nccl_variant *variant)
{
    const struct bb_slow_path_use *slow = &call->placement.slow;

    if (bb_colls[call->kind].flags & BB_COLL_ESTIMATED)
        return is_tree(variant)                               ? slow->trees
               : variant && variant->algorithm == BB_NCCL_PAT ? slow->pat[call->kind == BB_REDUCE_SCATTER]
                                                              : ring_times(call);
    return bb_colls[call->kind].flags & BB_COLL_ROOTED
               ? call->members_on_slow_paths / (call->ranks - call->members_on_root_node)
               : slow->alltoall;
}

/* Slow paths lengthen the transfer if their bytes need more time than all bytes need at the NIC. Of the passes of a tree's
 * first chunk through a node of more than two, half use one of its edges. NCCL's choice of a variant does not depend on
 * slow paths. */
static void apply_slow_paths(const struct bb_collective *call, struct bb_cost *cost)
{
    const double times = call->nodes > 1 ? slow_path_times(call, cost->variant) : 0;

    if (times == 0)
        return;
    cost->latency_ns += bb_cost_slow_fill_ns(cost, 1 / times) / (call->nodes > 2 ? 2 : 1);
    cost->path_bytes = cost->nic_bytes * times;
    cost->nic_ns *= fmax(1, times);
    cost->transfer_ns = fmax(cost->transfer_ns, cost->nic_ns);
}

void bb_cluster_only_variant_cost(const struct bb_cluster *c, const struct bb_collective *asked,
                                  const struct bb_nccl_variant *only, struct bb_cost *cost)
{
    const struct bb_collective placed = with_placement(c, asked), *call = &placed;
    double bytes = payload_bytes(call);

    *cost = (struct bb_cost){.data_part = 1};
    if (call->count == 0) /* NCCL returns without launching a kernel */
        return;
    if (call->ranks == 1)
        cost->latency_ns = call->in_place ? 0 : (double)bb_cluster_self_message_ns(c, bytes);
    else if (c->n_variants == 0)
        alpha_beta_cost(c, call, bytes, cost);
    else if (bb_colls[call->kind].flags & BB_COLL_ESTIMATED)
        fastest_variant_cost(c, call, bytes, only, cost);
    else
        send_recv_cost(c, call, bytes, cost);
    if (call->ranks > 1)
        cost->latency_ns = fmax(cost->latency_ns, c->collective_min_us * 1e3 - cost->transfer_ns);
    apply_measured(c, call, bytes, cost);
    if (!only)
        name_choice(c, call, bytes, cost);
    apply_slow_paths(call, cost);
}

void bb_cluster_collective_cost(const struct bb_cluster *c, const struct bb_collective *call, struct bb_cost *cost)
{
    bb_cluster_only_variant_cost(c, call, NULL, cost);
}

bool bb_cluster_variant_cost(const struct bb_cluster *c, const struct bb_collective *call,
                             const struct bb_nccl_variant *variant, struct bb_cost *cost)
{
    struct bb_collective placed;

    if (!(bb_colls[call->kind].flags & BB_COLL_ESTIMATED) || !supports(variant->algorithm, call))
        return false;
    placed = with_placement(c, call);
    *cost = variant_cost(c, variant, &placed, payload_bytes(call), bb_fabric_has_oversubscribed_tier(c));
    apply_slow_paths(&placed, cost);
    return true;
}

int64_t bb_cluster_collective_ns(const struct bb_cluster *c, const struct bb_collective *call,
                                 const struct bb_nccl_variant **variant)
{
    struct bb_cost cost;

    bb_cluster_collective_cost(c, call, &cost);
    if (variant)
        *variant = cost.variant;
    return llround(cost.latency_ns + cost.transfer_ns);
}
