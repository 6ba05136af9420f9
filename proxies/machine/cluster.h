/*
 * cluster.h - a cluster profile (profiles/clusters) and the times that it gives, as profiles/clusters/README.md defines
 * them. int64 nanoseconds, each duration rounded once. Knows nothing of steps and ranks: who asks says what is done, by
 * how many, on how many nodes. A library of its own, so that the emulated GPUs are the same machine.
 */
#ifndef BB_PROXIES_MACHINE_CLUSTER_H
#define BB_PROXIES_MACHINE_CLUSTER_H

#include "bootstrap/base/err.h"
#include "collectives/ops/coll.h"
#include "cuda/work/kernel_list.h"

#include <stdbool.h>
#include <stdint.h>

struct bb_link {
    double latency_us, gbps; /* 1e9 bytes per second, per GPU and direction */
};

/* Parts of the nominal rates that kernels reach. */
struct bb_achieved {
    double gemm, gemm_float8;                     /* of large products, of the type's rate   */
    double attention_forward, attention_backward; /* of fused attention, of its type's rate */
    double memory;                                /* of passes                               */
    bool fuses_dropout;                           /* fused attention drops out, too          */
};

/* What a framework does on the host for an operation, beside its launch: a profile's "host". */
struct bb_host {
    double op_us, expert_us; /* of any; of the product of one expert among several */
};

/* One of NCCL's ways to do a collective: a row of a profile's "nccl". */
enum bb_nccl_algorithm {
    BB_NCCL_RING,
    BB_NCCL_TREE,
    BB_NCCL_NVLS,
    BB_NCCL_NVLS_TREE,
    BB_NCCL_PAT,
    BB_NCCL_COLLNET_DIRECT,
    BB_NCCL_COLLNET_CHAIN,
    BB_NCCL_ALGORITHMS
};
extern const char *const bb_nccl_algorithms[BB_NCCL_ALGORITHMS + 1];
struct bb_nccl_variant {
    enum bb_nccl_algorithm algorithm;
    char protocol[16];
    double base_us, intra_us, inter_us; /* once; for each step within a node and between nodes            */
    double gbps;                        /* bus bandwidth that the links within a node make of it          */
    double nic;                         /* part of the rate between nodes that its protocol leaves        */
    double chunk_us;                    /* of NVLS, for each round of its chunks; 0: one rate at all sizes */
    int channels;                       /* of rings and NVLS; 0: nobody says, a ring's last chunk costs nothing */
};
#define BB_NCCL_VARIANTS 24

/* What all that runs at once shares: a profile's "sharing". */
struct bb_sharing {
    int collective_sms, message_sms; /* multiprocessors that NCCL holds: a collective; for each peer of an exchange */
    double memory_bytes;             /* of the GPU's memory for each byte that it sends or receives                 */
};

/* Switches between the nodes: a profile's "fabric". On a tier so many consecutive nodes hang together: on a leaf
 * switch, in a pod of leaves. */
enum bb_tier { BB_LEAF, BB_POD, BB_TIERS };
struct bb_fabric {
    bool rails;                        /* a leaf switch for each NIC of a node, and not one for all */
    int nodes[BB_TIERS];               /* 0: no such tier, all nodes are on one switch              */
    double oversubscription[BB_TIERS]; /* of what hangs on it to what its uplinks carry             */
    bool slow_leaf;                    /* no key: the uplinks of a leaf are slow (bb_slow_enable_leaf_uplinks)     */
};

struct bb_cluster {
    char name[64];
    int gpus_per_node, sm_count, clock_khz;
    struct bb_nccl_variant variants[BB_NCCL_VARIANTS]; /* n_variants 0: no "nccl", one simple law for all collectives */
    int n_variants, nics_per_node;
    bool has_achieved; /* "achieved" holds; else every kernel reaches the nominal rates */
    double tflops_float8;
    struct bb_achieved achieved;
    bool has_host; /* "host" holds; else nothing is known of frameworks */
    struct bb_host host;
    bool
        models_training; /* no key: attention is fused, sums of gradients cost nothing; else kernels are as a proxy's are */
    bool eager;          /* no key: a framework issues, operation by operation, and "host" counts */
    bool has_sharing; /* "sharing" holds; else nothing that runs at once slows anything else */
    struct bb_sharing sharing;
    struct bb_fabric fabric;
    double launch_us, nccl_launch_us, kernel_us, memory_gbps, memory_bytes;
    double tflops_float32, tflops_float16, tflops_bfloat16, tflops_float64;
    struct bb_link intra, inter;
};

/* bb_cluster_load - by name or path (see bb_profile_load); unknown and missing keys are refused. */
int bb_cluster_load(const char *word, struct bb_cluster *cluster) BB_MUST_CHECK;
/* bb_cluster_set_gpus_per_node - of a job that has the first so many GPUs of each node, with the NICs that are theirs; of larger
 * nodes, as many for each. */
void bb_cluster_set_gpus_per_node(struct bb_cluster *c, int gpus);
/* bb_cluster_warn_units - units.c: warns of each figure that no machine has, as one in MB/s. */
void bb_cluster_warn_units(const struct bb_cluster *c);

/* Host: one launch of a kernel, or one NCCL call. _kernel: that of each kernel that an item is, in *n; of a framework
 * none of what the product before it does. */
int64_t bb_cluster_issue_ns(const struct bb_cluster *c, bool compute);
int64_t bb_cluster_kernel_issue_ns(const struct bb_cluster *c, const struct bb_kernel_list_item *item, int *n);
/* kernel_time.c: one product or pass. _on: on so many of the multiprocessors alone; by_memory: whether memory is what
 * bounds it. */
int64_t bb_cluster_kernel_ns(const struct bb_cluster *c, const struct bb_kernel_list_item *item);
int64_t bb_cluster_kernel_on_sms_ns(const struct bb_cluster *c, const struct bb_kernel_list_item *item, int sms,
                                    bool *by_memory);
/* 1e12 FLOP per second in products of that type. */
double bb_cluster_tflops(const struct bb_cluster *c, enum bb_dtype_id dtype);

/* How a communicator's members lie on nodes and NICs, and its nodes on each tier of the fabric (fabric.h). fewest 0 and
 * places 0: nobody says, its ranks are those of consecutive nodes from the first one on. */
struct bb_node_placement {
    int min_members, max_members; /* members on one node; min_members 0: placement unknown */
    int max_members_per_nic;      /* members whose GPUs share one NIC */
    double min_nics;              /* over nodes: members / max_members_per_nic, the number of NICs that members use */
    double max_nic_pairs;         /* over NICs: (members that the NIC serves) x (members on other nodes) */
    struct {
        int switches, max_nodes; /* leaves or pods with members, 0: unknown; nodes with members on one of them */
        int max_tree_edges;      /* over switches: edges of NCCL's two trees over the nodes that leave the switch */
    } tier[BB_TIERS];
};

/* A collective as NCCL is called for it, by so many ranks on so many nodes. */
struct bb_collective {
    enum bb_coll_kind kind;
    enum bb_dtype_id dtype;
    size_t count; /* of the NCCL call */
    bool in_place;
    int ranks, nodes;
    int members_on_root_node; /* of a gather or scatter: members on the root's node, itself among them; 0: nobody says, the most */
    struct bb_node_placement placement;
};

/* bb_cluster_collective_ns - from the arrival of the last member to the end on all. way: the quickest, which is taken;
 * NULL where there is no choice. May be NULL itself. */
int64_t bb_cluster_collective_ns(const struct bb_cluster *c, const struct bb_collective *call,
                                 const struct bb_nccl_variant **variant);

/* What it asks of the machine, from the arrival of the last member on: a latency, then a transfer, during which it keeps
 * the links of each member busy for so long, as if nothing else ran. */
struct bb_cost {
    double latency_ns, transfer_ns;
    double link_ns, nic_ns;     /* of transfer_ns: the links within the node; the member's part of the NICs */
    double uplink_ns[BB_TIERS]; /* of transfer_ns: the uplinks of the leaf and the pod with most of its nodes */
    double bytes;               /* that each member sends, and as many that it receives                     */
    double nic_bytes;           /* over its NIC, each way: of all members on the NIC together what it moves  */
    /* Over the uplinks of a leaf or pod, each way: from all its members together; from each to each that is not on
     * it. */
    double uplink_bytes[BB_TIERS], pair_bytes;
    const struct bb_nccl_variant *variant;
};
void bb_cluster_collective_cost(const struct bb_cluster *c, const struct bb_collective *call, struct bb_cost *cost);
/* bb_cluster_variant_cost - the same by one of the ways, quickest or not; false: it cannot do that. */
bool bb_cluster_variant_cost(const struct bb_cluster *c, const struct bb_collective *call,
                             const struct bb_nccl_variant *variant, struct bb_cost *cost);

/* Messages of one exchange: bytes to and from other ranks by link, [0] between nodes, [1] within the node; and those
 * that take uplinks of the fabric (fabric.h), of all that are on one leaf or pod and send at once. */
struct bb_link_load {
    double out[2], in[2];
    double up[BB_TIERS], down[BB_TIERS];
};
double bb_cluster_nic_gbps(const struct bb_cluster *c); /* between nodes, of one GPU when all of its node send */
/* The same when only so many GPUs of a node send, of a machine that shares. */
double bb_cluster_nic_share_gbps(const struct bb_cluster *c, double members);
/* bb_cluster_link_load_ns - the time that a rank's links need for all of them, when so many GPUs of its node send at once
 * (of a machine that does not share always all of them). */
double bb_cluster_link_load_ns(const struct bb_cluster *c, const struct bb_link_load *load, double members);
/* bb_cluster_message_ns - from the later arrival to the end of one message; loads: the larger of both sides' load. */
int64_t bb_cluster_message_ns(const struct bb_cluster *c, bool one_node, double load_ns);
int64_t bb_cluster_self_message_ns(const struct bb_cluster *c, double bytes); /* a message to oneself */

/* ---- what is on a node ---- */

int bb_cluster_nics(const struct bb_cluster *c);             /* a profile that does not say has one for each GPU */
bool bb_cluster_gpus_share_nics(const struct bb_cluster *c); /* fewer NICs than GPUs */
/* bb_cluster_gpu_nics - the NICs of a GPU on its node, [*first, *end): of as many as GPUs the one of its number, of
 * fewer the one of its share, of more its own. gpu: also beyond the node's, then it starts again. */
void bb_cluster_gpu_nics(const struct bb_cluster *c, int gpu, int *first, int *end);
/* bb_cluster_rank_nic - the number, over all nodes, of the NIC that a rank's GPU uses; of several the first. */
int bb_cluster_rank_nic(const struct bb_cluster *c, int rank);

/* bb_cluster_placement_of_ranks - of ranks in ascending order how they lie on nodes and NICs. _node: adds a node of such
 * members, of n in all, to a spread that has none before the first. */
void bb_cluster_placement_add_node(struct bb_node_placement *placement, int n, int members, int on_nic);
void bb_cluster_placement_of_ranks(const struct bb_cluster *c, const int *ranks, int n,
                                   struct bb_node_placement *placement);

/* ---- what communication takes of a GPU, where the machine shares ---- */

/* bb_cluster_memory_gbps - that passes reach; _nccl: at most half of it is NCCL's, so that what NCCL takes does not
 * depend on the kernels beside it. */
double bb_cluster_memory_gbps(const struct bb_cluster *c);
double bb_cluster_nccl_memory_gbps(const struct bb_cluster *c);
/* bb_cluster_exchange_sms - multiprocessors that an exchange of so many messages to and from others holds. _held: those
 * that kernels go without while NCCL's operations hold so many together, which is half of the GPU's at most. */
int bb_cluster_exchange_sms(const struct bb_cluster *c, int messages);
int bb_cluster_held_sms(const struct bb_cluster *c, int held);

#endif
