/*
 * cluster.h - reads a cluster profile (profiles/clusters) and computes durations from it with the cost model that
 * profiles/clusters/README.md defines. All durations are int64 nanoseconds; each is rounded once. The module knows
 * neither training steps nor ranks' programs: the caller passes the operation, the number of ranks and their nodes.
 * It is a separate library because the emulated GPUs (tests/emulator) use the same cost model.
 */
#ifndef BB_PROXIES_MACHINE_CLUSTER_H
#define BB_PROXIES_MACHINE_CLUSTER_H

#include "bootstrap/base/err.h"
#include "collectives/ops/coll.h"
#include "cuda/work/kernel_list.h"

#include <stdbool.h>
#include <stdint.h>

struct bb_link {
    double latency_us, gbps; /* 1e9 bytes/s, per GPU and direction */
};

/* Fractions of the data sheet's rates that kernels reach: the section "achieved" of a profile. */
struct bb_achieved {
    double gemm, gemm_float8; /* of the peak rate of the type: large GEMMs, in 16 or 32 bits and in FP8 */
    double attention_forward, attention_backward; /* of the peak rate of the type: fused attention */
    double memory;                                /* of memory_gbps: memory-bound kernels */
    bool fuses_dropout;                           /* attention with dropout uses the fused kernel, too */
};

/* Host time of a training framework per operation, in addition to the launch: the section "host" of a profile. */
struct bb_host {
    double op_us, expert_us; /* any operation; the GEMM of one expert when a GPU has several experts */
};

/* A row of the list "nccl" of a profile: the cost of one algorithm with one protocol of NCCL. */
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
    double base_us, intra_us, inter_us; /* latency: once per call; per step within a node; per step between nodes */
    double gbps;                        /* bus bandwidth of the links within a node, in 1e9 bytes/s */
    double nic;                         /* fraction of the NICs' rate that the protocol leaves to data */
    double chunk_us;                    /* NVLS, NVLS_TREE: synchronization time per round of chunks; 0: none */
    int channels; /* ring, NVLS and NVLS_TREE; 0: unknown, a ring then has no cost for its last slice */
};
#define BB_NCCL_VARIANTS 24

/* What concurrent operations take from each other: the section "sharing" of a profile. */
struct bb_sharing {
    int collective_sms, message_sms; /* SMs that NCCL occupies: per collective; per message of an exchange */
    double memory_bytes;             /* bytes of device memory traffic per byte that NCCL sends or receives */
};

/* Switches between the nodes: the section "fabric" of a profile. Consecutive nodes are attached to a leaf switch,
 * and consecutive leaves form a pod. */
enum bb_tier { BB_LEAF, BB_POD, BB_TIERS };
struct bb_fabric {
    bool rails;          /* each NIC of a node is attached to its own leaf switch; false: all NICs to one leaf */
    int nodes[BB_TIERS]; /* nodes per leaf and per pod; 0: the tier does not exist, all nodes are on one switch */
    double oversubscription[BB_TIERS]; /* rate of the attached NICs / rate of the uplinks, 1 or more */
    bool slow_leaf; /* set by bb_slow_enable_leaf_uplinks, not by a profile: the uplinks of some leaf are slow */
};

struct bb_cluster {
    char name[64];
    int gpus_per_node, sm_count, clock_khz;
    struct bb_nccl_variant variants[BB_NCCL_VARIANTS]; /* n_variants 0: no "nccl", the alpha-beta model */
    int n_variants, nics_per_node;
    bool has_achieved; /* the profile has "achieved"; false: kernels reach the data sheet's rates */
    double tflops_float8;
    struct bb_achieved achieved;
    bool has_host; /* the profile has "host"; false: the cost of frameworks is unknown */
    struct bb_host host;
    bool models_training; /* set by forecasts, not by a profile: attention is fused and gradient accumulation is
                             free; false: kernels of a proxy */
    bool eager;       /* set by forecasts, not by a profile: a framework issues each operation, so "host" counts; false:
                   CUDA graphs or a proxy */
    bool has_sharing; /* the profile has "sharing"; false: concurrent operations do not slow each other */
    struct bb_sharing sharing;
    struct bb_fabric fabric;
    double launch_us, nccl_launch_us, kernel_us, memory_gbps, memory_bytes;
    double tflops_float32, tflops_float16, tflops_bfloat16, tflops_float64;
    struct bb_link intra, inter;
};

/*
 * bb_cluster_load - read a cluster profile; unknown and missing keys are errors.
 *   word     name of a shipped profile or path of a file (see bb_profile_load)
 *   cluster  out: plain data, nothing to release
 *   Returns  0, or -BB_EUSAGE after printing one line
 */
int bb_cluster_load(const char *name_or_path, struct bb_cluster *cluster) BB_MUST_CHECK;
/* bb_cluster_set_gpus_per_node - let the job use the first `gpus` GPUs of each node and the NICs of these GPUs. With
 * more GPUs than the profile has, the node is larger and has as many NICs per GPU as before. */
void bb_cluster_set_gpus_per_node(struct bb_cluster *c, int gpus);
/* bb_cluster_warn_units - print a warning for each number that no existing machine has, for example MB/s in place of
 * GB/s. */
void bb_cluster_warn_units(const struct bb_cluster *c);

/*
 * Host time to issue work, in ns.
 *   bb_cluster_issue_ns         one kernel launch (compute) or one NCCL call (!compute)
 *   bb_cluster_kernel_issue_ns  one launch of the item; n out: launches of the item. With `eager`, n is 0 for a kernel
 *                               that is fused into the GEMM before it, and the number of experts for expert GEMMs.
 */
int64_t bb_cluster_issue_ns(const struct bb_cluster *c, bool compute);
int64_t bb_cluster_kernel_issue_ns(const struct bb_cluster *c, const struct bb_kernel_list_item *item, int *n);
/*
 * Duration of a GEMM or a memory-bound kernel, in ns (kernel_time.c).
 *   sms        SMs that the kernel may use; bb_cluster_kernel_ns: all
 *   by_memory  out: the duration is bound by memory bandwidth
 */
int64_t bb_cluster_kernel_ns(const struct bb_cluster *c, const struct bb_kernel_list_item *item);
int64_t bb_cluster_kernel_on_sms_ns(const struct bb_cluster *c, const struct bb_kernel_list_item *item, int sms,
                                    bool *by_memory);
/* Peak rate of GEMMs of that type, in 1e12 FLOP/s. */
double bb_cluster_tflops(const struct bb_cluster *c, enum bb_dtype_id dtype);

/* Where the members of a communicator are: on nodes, on NICs, and on the switches of the fabric (fabric.h). Each
 * field is the extreme value over the nodes, NICs or switches that is relevant for the cost. min_members 0 and
 * switches 0 mean unknown: the cost model then assumes consecutive nodes from the first node on. */
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

/* One NCCL collective call. */
struct bb_collective {
    enum bb_coll_kind kind;
    enum bb_dtype_id dtype;
    size_t count; /* elements, as in the NCCL call */
    bool in_place;
    int ranks, nodes;
    int members_on_root_node; /* gather, scatter: members on the root's node with the root; 0: the largest node */
    struct bb_node_placement placement;
};

/*
 * bb_cluster_collective_ns - duration of a collective, from the arrival of the last member to the end on all members.
 *   variant  out, may be NULL: the fastest variant, which the model selects; NULL without a choice
 */
int64_t bb_cluster_collective_ns(const struct bb_cluster *c, const struct bb_collective *call,
                                 const struct bb_nccl_variant **variant);

/* Cost of a collective that runs alone, from the arrival of its last member on: first a latency, then a transfer.
 * The duration is latency_ns + transfer_ns; during the transfer, each kind of link is busy for part of the time. */
struct bb_cost {
    double latency_ns, transfer_ns;
    double link_ns, nic_ns; /* at most transfer_ns: busy time of a member's links within the node, and of its NICs */
    double
        uplink_ns[BB_TIERS]; /* at most transfer_ns: busy time of the uplinks of the leaf (pod) with the most nodes */
    double bytes;            /* that each member sends, and also that each member receives */
    double nic_bytes;        /* per member and direction over its NIC; members that share a NIC add up */
    /* Per direction over the uplinks of a leaf (pod): from all its members together; from each member to each rank
     * outside. */
    double uplink_bytes[BB_TIERS], pair_bytes;
    const struct bb_nccl_variant *variant;
};
void bb_cluster_collective_cost(const struct bb_cluster *c, const struct bb_collective *call, struct bb_cost *cost);
/* bb_cluster_variant_cost - cost of the collective with a given variant. Returns false if the variant does not
 * support the collective. */
bool bb_cluster_variant_cost(const struct bb_cluster *c, const struct bb_collective *call,
                             const struct bb_nccl_variant *variant, struct bb_cost *cost);

/* Bytes of all messages of one exchange: to and from other ranks, [0] between nodes and [1] within the node; and
 * bytes over the uplinks of a leaf or a pod, summed over the ranks under that switch that send at the same time. */
struct bb_link_load {
    double out[2], in[2];
    double up[BB_TIERS], down[BB_TIERS];
};
double bb_cluster_nic_gbps(const struct bb_cluster *c); /* inter-node rate per GPU when all GPUs of the node send */
/* Inter-node rate per GPU when `members` GPUs of the node send. Without "sharing": as if all GPUs send. */
double bb_cluster_nic_share_gbps(const struct bb_cluster *c, double members);
/*
 * bb_cluster_link_load_ns - time that a rank's links need to carry the load.
 *   members  GPUs of the node that send at the same time; ignored without "sharing", where all GPUs are assumed to send
 */
double bb_cluster_link_load_ns(const struct bb_cluster *c, const struct bb_link_load *load, double members);
/*
 * bb_cluster_message_ns - duration of one message from the later arrival of its two sides.
 *   load_ns  the larger bb_cluster_link_load_ns of the two sides
 */
int64_t bb_cluster_message_ns(const struct bb_cluster *c, bool one_node, double load_ns);
int64_t bb_cluster_self_message_ns(const struct bb_cluster *c, double bytes); /* message to itself: a copy */

/* ---- GPUs and NICs of a node ---- */

int bb_cluster_nics(const struct bb_cluster *c); /* NICs per node; a profile without nics_per_node has one per GPU */
bool bb_cluster_gpus_share_nics(const struct bb_cluster *c); /* fewer NICs than GPUs */
/* bb_cluster_gpu_nics - NICs [*first, *end) of a GPU, counted on its node. With one NIC per GPU these have equal
 * numbers; with fewer, neighbouring GPUs share a NIC; with more, a GPU has several. gpu is taken modulo
 * gpus_per_node. */
void bb_cluster_gpu_nics(const struct bb_cluster *c, int gpu, int *first, int *end);
/* bb_cluster_rank_nic - global index of the (first) NIC of a rank's GPU. */
int bb_cluster_rank_nic(const struct bb_cluster *c, int rank);

/*
 * bb_cluster_placement_of_ranks - compute the nodes' part of a placement (all fields but tier[]).
 *   ranks      [n] ascending
 * bb_cluster_placement_add_node - add one node to a placement whose max_members is 0 before the first node.
 *   n          members of the communicator
 *   members    members on this node
 *   on_nic     members per NIC on this node
 */
void bb_cluster_placement_add_node(struct bb_node_placement *placement, int n, int members, int on_nic);
void bb_cluster_placement_of_ranks(const struct bb_cluster *c, const int *ranks, int n,
                                   struct bb_node_placement *placement);

/* ---- GPU resources that communication takes, with "sharing" ---- */

/* bb_cluster_memory_gbps - memory rate that memory-bound kernels reach. bb_cluster_nccl_memory_gbps - the most that
 * NCCL takes of it: half, so that NCCL's share does not depend on the concurrent kernels. */
double bb_cluster_memory_gbps(const struct bb_cluster *c);
double bb_cluster_nccl_memory_gbps(const struct bb_cluster *c);
/* bb_cluster_exchange_sms - SMs that an exchange of `messages` messages to and from other ranks occupies.
 * bb_cluster_held_sms - SMs that kernels lose while NCCL's operations occupy `held` together: at most half of the
 * GPU's. */
int bb_cluster_exchange_sms(const struct bb_cluster *c, int messages);
int bb_cluster_held_sms(const struct bb_cluster *c, int held);

#endif
