/*
 * cluster.h - reads a cluster profile (profiles/clusters) and computes durations from it with the cost model that
 * profiles/clusters/README.md defines. All durations are int64 nanoseconds; each is rounded once. Training steps and
 * the ranks' programs are outside this module: the caller passes the operation, the number of ranks and their nodes.
 * The module is a separate library because the emulated GPUs (tests/emulator) use the same cost model.
 */
#ifndef BB_PROXIES_SIMULATION_MACHINE_CLUSTER_H
#define BB_PROXIES_SIMULATION_MACHINE_CLUSTER_H

#include "bootstrap/base/err.h"
#include "bootstrap/cli/opts.h"
#include "collectives/ops/coll.h"
#include "cuda/work/kernel_list.h"

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

struct bb_link {
    double latency_us, gbps;     /* gbps: bandwidth per direction and GPU, in 1e9 bytes/s; for the links `inter` of a
                                profile with section "nccl": per direction and NIC */
    double group_us, message_us; /* `inter`: bb_cluster_group_ns */
};

/* Section "achieved" of a profile: the rates that kernels reach, as fractions of the peak rates in the GPU's data
 * sheet. */
struct bb_achieved {
    double gemm, gemm_float8; /* fraction of the data type's peak rate that large GEMMs reach: in 16- and 32-bit
                                 types; in FP8 */
    double attention_forward, attention_backward; /* fraction of the data type's peak rate that fused attention
                                                     reaches in the forward and backward pass */
    double memory; /* fraction of memory_gbps (the data sheet's memory bandwidth) that memory-bound kernels reach */
    bool fuses_dropout; /* true: attention with dropout uses the fused attention kernel, too; false: only attention
                           without dropout does */
};

/* Section "host" of a profile: host time that a training framework adds to each launch. */
struct bb_host {
    double op_us;     /* host time per operation that the framework issues, in us */
    double expert_us; /* host time per GEMM of one expert of a mixture-of-experts layer, in us; replaces op_us if a
                         GPU has several experts */
};

/* Section "nccl" of a profile: a list of NCCL algorithms, each with a protocol and its cost. */
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
    double base_us, intra_us, inter_us; /* latency in us: of the whole call, of each algorithm step within a node,
                                           and of each step between nodes */
    double gbps; /* bus bandwidth of the links within a node, 1e9 bytes/s; NVLS and NVLS_TREE: on a node with 8 GPUs */
    double nic;  /* fraction of the NICs' rate that is available for data with this protocol */
    double chunk_us; /* NVLS, NVLS_TREE: synchronization time in us per pipeline step, in which each NCCL channel
                        processes one chunk per GPU of the node; 0: not modeled */
    int channels;  /* number of NCCL channels of a ring, of a tree (those of the first ring) or of NVLS. 0: unknown; the
                     model then uses 16 for NVLS, and adds no latency for the last step of a ring (add_ring_tail) */
    int max_nics;  /* maximum number of NICs of a node that the variant uses; 0: all */
    int min_bytes; /* size of an operation below which NCCL does not choose the variant; 0: no limit */
    /* fraction of the rate `nic` that the NICs reach over a whole call, without latency; 0: the latency is always added */
    double sustained;
};
#define BB_NCCL_VARIANTS 24
#define BB_ORIGIN_TEXT   96

/* Section "sharing" of a profile: SMs and memory bandwidth of a GPU that NCCL uses while kernels run concurrently. */
struct bb_sharing {
    int collective_sms, message_sms; /* number of SMs that NCCL occupies per collective, and per send or receive */
    double memory_bytes;             /* bytes of device memory traffic per byte that NCCL sends or receives */
};

/* Section "fabric" of a profile: switches between the nodes. Consecutive nodes are attached to a leaf switch, and
 * consecutive leaves form a pod. */
enum bb_tier { BB_LEAF, BB_POD, BB_TIERS };
#define BB_SLOW_PATHS 64
struct bb_fabric {
    bool rails; /* true: each NIC of a node is attached to a different leaf switch; false: all NICs of a node to the
                   same leaf switch */
    int nodes[BB_TIERS]; /* number of nodes per leaf switch and per pod; 0: the fabric has no leaf switches (no pods) */
    double oversubscription[BB_TIERS]; /* total rate of the attached NICs / total rate of the uplinks of a leaf
                                          switch or pod; 1 or more */
    /* NICs of a node that the job does not use (bb_cluster_set_gpus_per_node); their uplinks transfer its data, too, except of a
     * leaf per NIC. Groups that run at once share them, so that one may have a fraction. */
    double unused_nics;
    /* Not part of a profile, set by bb_slow_degrade_fabric. slow_leaf: the uplinks of at least one leaf are degraded */
    bool slow_leaf;
    struct bb_slow_path {
        int from, to; /* nodes; one direction */
        double part;  /* remaining fraction of the rate of each GPU's NICs */
    } slow_paths[BB_SLOW_PATHS];
    int n_slow_paths;
};

/* Section "measured" of a calibrated profile: one collective on n ranks and nodes. bytes: [n] ascending; factor: [n]
 * measured time / time of the cost model; variant: [n] index + 1 of the variant that NCCL chose from this size on, 0: as the
 * cost model. */
#define BB_MIN_PART        1e-3 /* limits of factors in a profile */
#define BB_MAX_PART        100
#define BB_MEASURED_SIZES  40
#define BB_MEASURED_CURVES 16
struct bb_measured_curve {
    enum bb_coll_kind kind;
    int ranks, nodes, n;
    double min_bytes, max_bytes; /* smallest and largest measured size */
    double bytes[BB_MEASURED_SIZES], factor[BB_MEASURED_SIZES];
    int variant[BB_MEASURED_SIZES];
};

/* Section "left_out" of a calibrated profile: errors of sizes and of collectives that a calibration with the others
 * predicts. */
enum bb_left_out_kind { BB_LEFT_OUT_SIZES, BB_LEFT_OUT_COLLECTIVES, BB_LEFT_OUT_KINDS };
struct bb_left_out {
    double median_percent, p90_percent; /* 90 % of the errors are at most p90_percent */
    int rows;                           /* predicted measurements; 0: none */
    int outliers;                       /* measurements that were not predicted, because the calibration ignored them */
};

#define BB_CLUSTER_NAME 256 /* bytes of a name with the changes of --set: "h100-sxm-ib with inter.gbps=97 and 9 more" */
struct bb_cluster {
    char name[BB_CLUSTER_NAME];
    bool is_changed;    /* by --set */
    bool is_own;        /* a file of the user, no shipped profile: no published measurement was compared with it */
    char transport[24]; /* how nodes communicate: "infiniband", "roce", "efa-v2"...; "": unknown */
    int generation;     /* 1 + enum bb_gpu_generation (software.h); 0: not stated */
    int gpus_per_node, sm_count, clock_khz;
    int domain_gpus, host_gpus; /* GPUs of an NVLink domain of several hosts, which is a node here, and of a host; 0: a
                                   node is a host */
    /* section "nccl": algorithms with protocols; n_variants is 0 without this section, and the alpha-beta model then
     * applies */
    struct bb_nccl_variant variants[BB_NCCL_VARIANTS];
    int n_variants, nics_per_node;
    /* The profile that the values of a variant come from, because the calibration of this profile did not measure them;
     * "": measured, or not a calibrated profile. [][0]: values within a node, [][1]: between nodes. link_from: the same
     * for sends and receives */
    char variant_from[BB_NCCL_VARIANTS][2][BB_ORIGIN_TEXT], link_from[2][BB_ORIGIN_TEXT];
    bool has_achieved; /* true: the profile has a section "achieved"; false: kernels reach the data sheet's peak
                          rates */
    double tflops_float8, tflops_float4; /* float4: 0: the GPU has neither MXFP8 nor NVFP4 */
    struct bb_achieved achieved;
    bool has_host; /* the profile has a section "host"; false: the host time of frameworks is unknown */
    struct bb_host host;
    /* true: the prediction is for real training, with fused attention and gradient accumulation that costs no time.
     * false: the prediction is for a run of a proxy, with the proxy's kernels. */
    bool models_training;
    int gradient_bytes; /* with models_training: bytes per element of the gradients to which weight gradients are added */
    /* true: the prediction is for real training without CUDA graphs, in which a framework issues each operation, so
     * the host times of section "host" are added. false: the prediction is for a run of a proxy, or for real
     * training with CUDA graphs. */
    bool eager;
    double
        routed_memory;  /* in training: factor of achieved.memory in the kernels of experts and of their permutations */
    double nccl_memory; /* achieved.memory without the factor of the software's kernels; 0: achieved.memory */
    bool graphs_fuse_experts; /* without eager, routed_memory does not apply */
    bool has_sharing; /* the profile has a section "sharing"; false: concurrent operations do not slow each other
                         down */
    struct bb_sharing sharing;
    struct bb_fabric fabric;
    double launch_us, nccl_launch_us, kernel_us, memory_gbps, memory_bytes;
    double tflops_float32, tflops_float16, tflops_bfloat16, tflops_float64;
    struct bb_link intra, inter;
    double collective_min_us; /* minimum time of a collective, because the host needs it to enqueue one; 0: unknown */
    double pcie_gbps; /* rate of a copy between pinned host memory and a GPU, per direction, 1e9 bytes/s; 0: unknown */
    double peer_gbps; /* the same by copy engine between two GPUs of a node; 0: intra.gbps */
    struct bb_measured_curve measured[BB_MEASURED_CURVES];
    int n_measured;
    bool is_calibrated; /* the profile has a section "left_out" */
    struct bb_left_out left_out[BB_LEFT_OUT_KINDS];
};

/*
 * bb_cluster_load - reads a cluster profile; unknown and missing keys are errors.
 *   name_or_path  name of a shipped profile, or path of a file (see bb_profile_load)
 *   cluster       out: plain data, nothing to release
 *   Returns       0, or -BB_EUSAGE after printing an error message
 */
int bb_cluster_load(const char *name_or_path, struct bb_cluster *cluster) BB_MUST_CHECK;

/* bb_cluster_check - whether bb_cluster_load would accept the profile `root`; if not, the error message begins with
 * `where`. */
int bb_cluster_check(const json_t *root, const char *where) BB_MUST_CHECK;
/*
 * bb_cluster_load_changed - as bb_cluster_load, with changed values. The changes are appended to cluster->name.
 *   changes  values of the option --set: KEY=VALUE. KEY is the path of a key in the profile, such as inter.gbps; for an
 *            element of the list "nccl" nccl.ALGORITHM.PROTOCOL.KEY, such as nccl.ring.LL.base_us. VALUE is JSON, or a
 *            text. Other values follow as in bb_profile_change. The changed profile is validated like a file.
 */
int bb_cluster_load_changed(const char *name_or_path, const struct bb_opt_texts *changes,
                            struct bb_cluster *cluster) BB_MUST_CHECK;
#define BB_SET_HELP                                                                                                    \
    "with --cluster: change a value of the profile, may be repeated: --set inter.gbps=97 (GB/s that a NIC "            \
    "achieves per direction, here of 800 Gbit/s) --set nics_per_node=4; gpus_per_node also changes the NICs; the "     \
    "key is its path in the profile's JSON, for a variant of NCCL nccl.ring.LL.base_us; intra.gbps, "                  \
    "intra.latency_us and inter.latency_us also change NCCL's variants (a rate or a shorter latency by the same "      \
    "factor, a longer one by the same time per step); uplinks of leaf switches (4:1): --set "                          \
    "fabric.nodes_per_leaf=16 --set fabric.leaf_oversubscription=4 (consecutive nodes); a leaf per NIC: also "         \
    "--set fabric.rails=true (rail-only: fabric.nodes_per_leaf of all nodes); another network between nodes: --set "   \
    "transport=NAME, of "                                                                                              \
    "efa-v1-2021 efa-v1 efa-v2 efa-v3 efa-v4 roce tcpx tcpxo"
/* bb_cluster_set_gpus_per_node - restricts the job to the first `gpus` GPUs of each node and the NICs of these GPUs; leaves
 * and pods keep the uplinks of all NICs.
 * If `gpus` is larger than the profile's number, each node is enlarged, with the same number of NICs per GPU. */
void bb_cluster_set_gpus_per_node(struct bb_cluster *c, int gpus);
/* bb_cluster_warn_units - prints a warning for each value of the profile that no existing machine has. Such a value
 * usually has the wrong unit, for example MB/s instead of GB/s. If there is none, prints a warning if a variant of NCCL has a
 * higher rate than the links within a node can have. */
void bb_cluster_warn_units(const struct bb_cluster *c);
/* bb_cluster_plausible_us - returns the latency at byte `offset` of struct bb_cluster, or if it is below the range of
 * existing machines the nearer of 0 (no cost) and the end of this range. */
double bb_cluster_plausible_us(size_t offset, double us);
/*
 * bb_cluster_unmeasured - writes the variants of NCCL in a prediction that the calibration of the profile did not measure.
 *   is_used  [index of the variant; BB_NCCL_VARIANTS: sends and receives][0: on one node, 1: on several nodes]
 *   inter    those on several nodes
 *   Returns  the profile that their values come from; NULL if all were measured
 * bb_cluster_warn_unmeasured - prints a warning that names them. */
#define BB_UNMEASURED_TEXT 160
const char *bb_cluster_unmeasured(const struct bb_cluster *c, bool (*is_used)[2], bool inter,
                                  char names[BB_UNMEASURED_TEXT]);
void bb_cluster_warn_unmeasured(const struct bb_cluster *c, bool (*is_used)[2]);

/*
 * Two functions return host time in ns.
 *   bb_cluster_issue_ns         time of one kernel launch (compute) or of one NCCL call (!compute)
 *   bb_cluster_kernel_issue_ns  time of one launch for the kernel `item`. n: out: number of launches for `item`. It is
 *                               1, except with bb_cluster.eager: 0 for a kernel that is fused into a GEMM, and one per
 *                               expert for kernels of mixture-of-experts layers that are not captured in a graph.
 */
int64_t bb_cluster_issue_ns(const struct bb_cluster *c, bool compute);
void bb_cluster_launch_graphs(struct bb_cluster *c); /* sets the launch overhead to 0, as with CUDA graphs */
int64_t bb_cluster_kernel_issue_ns(const struct bb_cluster *c, const struct bb_kernel_list_item *item, int *n);
/*
 * Both functions return the duration of a GEMM or a memory-bound kernel that runs alone, in ns.
 *   bb_cluster_kernel_ns         the kernel runs on all SMs
 *   bb_cluster_kernel_on_sms_ns  the kernel runs on `sms` SMs. by_memory: out: true if memory bandwidth limits the
 *                                kernel
 */
int64_t bb_cluster_kernel_ns(const struct bb_cluster *c, const struct bb_kernel_list_item *item);
int64_t bb_cluster_kernel_on_sms_ns(const struct bb_cluster *c, const struct bb_kernel_list_item *item, int sms,
                                    bool *by_memory);
/* bb_cluster_tflops - peak rate of GEMMs of this type, in 1e12 FLOP/s.
 * bb_cluster_low_precision_tflops - of this precision; 0: the GPU does not support it, or BB_GEMM_DTYPE. */
double bb_cluster_tflops(const struct bb_cluster *c, enum bb_dtype_id dtype);
double bb_cluster_low_precision_tflops(const struct bb_cluster *c, enum bb_gemm_precision precision);

/* How the members of a communicator are distributed over nodes, NICs, leaf switches and pods (fabric.h). Fields
 * min_* and max_* are minima and maxima over those nodes, NICs or switches that have members. min_members 0: the
 * distribution over nodes and NICs is unknown; switches 0: the distribution over leaves or pods is unknown. The cost
 * model then assumes consecutive nodes, beginning with node 0. */
struct bb_node_placement {
    int min_members, max_members; /* number of members on one node; min_members 0: unknown */
    int max_members_per_nic;      /* maximum over the NICs: number of members whose GPUs share the NIC */
    int min_nics; /* minimum over the nodes: number of NICs that the members use; a GPU with several NICs counts as
                             one */
    double max_nic_pairs; /* maximum over the NICs: (members that use the NIC) x (members on other nodes) */
    /* Slow paths: (bytes of a node's GPU over its slow paths / their fractions of the rate) / bytes through its NIC, of the
     * node with the most, for a ring, NCCL's two trees, PAT ([0] all_gather, [1] reduce_scatter) and an alltoall; 0: no slow
     * path is used. other_rings: of a ring without its edge from node number ring_from, which is the slowest */
    struct bb_slow_path_use {
        double ring, other_rings, trees, pat[2], alltoall;
        int ring_from;
    } slow;
    struct {
        int switches, max_nodes; /* switches: number of leaves (pods) that have members, 0: unknown; max_nodes:
                                    maximum over the leaves (pods) of the number of nodes with members */
        int max_tree_edges;      /* maximum over the leaves (pods): number of connections of NCCL's two inter-node trees
                                    that leave the leaf (pod) */
    } tier[BB_TIERS];
};

/* One NCCL collective call. */
struct bb_collective {
    enum bb_coll_kind kind;
    enum bb_dtype_id dtype;
    int redop;    /* enum bb_redop_id of a collective that reduces; BB_COPY: NCCL has all its algorithms */
    size_t count; /* number of elements: the count argument of the NCCL call */
    bool in_place;
    int ranks, nodes;
    /* gather, scatter: number of members on the root's node, including the root; 0: unknown, placement.max_members is
     * used. Sum of bb_fabric_slow_member over the members. */
    int members_on_root_node;
    double members_on_slow_paths;
    int root_number; /* broadcast, reduce: number of the root's node among those of the members; only with slow paths */
    struct bb_node_placement placement;
};

/*
 * bb_cluster_collective_ns - computes the duration of a collective in ns, from the call of the last member to the end
 * on all members.
 *   variant  out, may be NULL: the fastest NCCL algorithm and protocol, whose duration is returned; NULL if the cost
 *            model has none for this collective (alltoall, gather, scatter, one rank, or a profile without "nccl")
 */
int64_t bb_cluster_collective_ns(const struct bb_cluster *c, const struct bb_collective *call,
                                 const struct bb_nccl_variant **variant);

/* Cost of a collective that runs without contention, from the call of the last member. Its duration is latency_ns +
 * transfer_ns. Each kind of link (intra-node link, NIC, uplink) is busy for at most transfer_ns. */
struct bb_cost {
    double latency_ns, transfer_ns;
    double link_ns, nic_ns; /* ns for which one member's intra-node links, and its NICs, are busy */
    /* ns for which uplinks are busy: of the leaf ([BB_LEAF]) and of the pod ([BB_POD]) that have the most nodes of
     * the communicator */
    double uplink_ns[BB_TIERS];
    /* NVLS tree: the rounds of latency_ns in which the first chunk passes the NICs of one node, and their time at the
     * NICs' rate */
    double fill_ns, fill_nic_ns;
    double bytes;     /* bytes that each member sends, equal to the bytes that it receives */
    double nic_bytes; /* bytes per direction that one member transfers through its NIC; with equal_nics: on the NIC that
                         the most members use */
    double data_part; /* part of nic_bytes that is data; the rest is the time that NCCL's protocol loses */
    bool equal_nics;  /* true: all NICs transfer the same number of bytes (bb_cost_nic_part); false: all members do */
    double path_bytes; /* the part of nic_bytes over slow paths / their remaining fractions of the rate */
    /* Bytes per direction over the uplinks of the leaf and of the pod of uplink_ns. uplink_bytes: sum over all
     * members on this leaf (pod). pair_bytes: bytes from each member to each member on another leaf (pod). At most
     * one of the two fields is above 0. */
    double uplink_bytes[BB_TIERS], pair_bytes;
    const struct bb_nccl_variant *variant;
};
/* bb_cost_nic_part - returns the bytes of a member through its NIC / nic_bytes. on_nic: members that use this NIC */
static inline double bb_cost_nic_part(const struct bb_cost *cost, const struct bb_node_placement *placement, int on_nic)
{
    return cost->equal_nics ? (double)placement->max_members_per_nic / on_nic : 1;
}
/* bb_cost_slow_fill_ns - returns the increase of latency_ns if a node's NICs have the fraction `part` of their rate */
double bb_cost_slow_fill_ns(const struct bb_cost *cost, double part);
void bb_cluster_collective_cost(const struct bb_cluster *c, const struct bb_collective *call, struct bb_cost *cost);
/* bb_cluster_only_variant_cost - as bb_cluster_collective_cost if the profile had only this one of its variants (NULL: all) */
void bb_cluster_only_variant_cost(const struct bb_cluster *c, const struct bb_collective *asked,
                                  const struct bb_nccl_variant *only, struct bb_cost *cost);
/* bb_cluster_variant_cost - computes the cost of the collective with one NCCL algorithm and protocol. Returns false
 * if the algorithm does not support the collective, its data type or its reduction. */
bool bb_cluster_variant_cost(const struct bb_cluster *c, const struct bb_collective *call,
                             const struct bb_nccl_variant *variant, struct bb_cost *cost);
/* bb_nccl_choice_factor - returns the factor by which NCCL multiplies its estimate of the algorithm's time before it chooses
 * the fastest one that NCCL_ALGO and NCCL_PROTO allow: 1024 for a sum in FP8 by a ring of more than 8 ranks, which rounds
 * too often, otherwise 1 (updateCollCostTable in src/enqueue.cc, since NCCL 2.24). */
double bb_nccl_choice_factor(enum bb_nccl_algorithm algorithm, const struct bb_collective *call);
/* bb_cluster_find_curve - returns the index of the curve of this collective on these ranks and nodes in c->measured;
 * c->n_measured: there is none. */
int bb_cluster_find_curve(const struct bb_cluster *c, enum bb_coll_kind kind, int ranks, int nodes);

/* Bytes of all messages of one rank in one group call, except messages to itself. out, in: bytes sent and received;
 * index 0: to and from other nodes, 1: within the node. slow_out, slow_in: bytes over slow paths / their fractions of the
 * rate. up, down: bytes that this rank sends and receives over the uplinks of its leaf and pod; the traffic of other ranks
 * on these uplinks is not included. sends, receives: number of messages that are not empty. */
struct bb_link_load {
    double out[2], in[2], slow_out, slow_in;
    int sends[2], receives[2];
    double up[BB_TIERS], down[BB_TIERS];
};
double bb_cluster_nic_gbps(const struct bb_cluster *c); /* inter-node rate per GPU, in 1e9 bytes/s, while all GPUs of
                                                           the node send */
/* bb_cluster_nic_share_gbps - inter-node rate per GPU, in 1e9 bytes/s, while `members` GPUs of the node send. For a
 * profile without "sharing" or without "nccl" the result is bb_cluster_nic_gbps for any `members`. */
double bb_cluster_nic_share_gbps(const struct bb_cluster *c, double members);
/*
 * bb_cluster_link_load_ns - returns the ns that the links of a rank need to transfer `load`.
 *   members  number of GPUs of the node that send at the same time; ignored for a profile without "sharing", for which
 *            all GPUs are assumed to send
 */
double bb_cluster_link_load_ns(const struct bb_cluster *c, const struct bb_link_load *load, double members);
/* bb_group_messages - returns the number of messages that a rank's group call sends to other nodes, or receives from them if
 * these are more. 0 if the rank sends (receives) at most one message in total.
 * bb_cluster_group_ns - returns the ns that a group call with this number of messages adds to the latency of each message. For a
 * message, the larger number of its sender and its receiver counts. */
int bb_group_messages(const struct bb_link_load *load);
double bb_cluster_group_ns(const struct bb_cluster *c, int group_messages);
/*
 * bb_cluster_message_ns - returns the duration of one message in ns, from the time at which both sender and receiver
 * have called NCCL.
 *   load_ns  the larger of bb_cluster_link_load_ns of the sender and of the receiver, plus
 *            bb_cluster_group_ns
 */
int64_t bb_cluster_message_ns(const struct bb_cluster *c, bool one_node, double load_ns);
int64_t bb_cluster_self_message_ns(const struct bb_cluster *c, double bytes); /* duration in ns of a rank's message
                                                                                 to itself, which is a copy */

/* ---- GPUs and NICs of a node ---- */

int bb_cluster_nodes(const struct bb_cluster *c, int ranks); /* number of nodes of a job with this number of ranks */
int bb_cluster_hosts(const struct bb_cluster *c,
                     int ranks); /* number of hosts, each a node or one of several in an NVLink
                                                                domain; if unknown, the number of nodes */
/* bb_cluster_nodes_text - writes "3 nodes", or "2 NVLink domains of 72 GPUs (36 hosts)". Returns text. */
#define BB_NODES_TEXT 80
const char *bb_cluster_nodes_text(const struct bb_cluster *c, int ranks, char text[BB_NODES_TEXT]);
int bb_cluster_nics(const struct bb_cluster *c); /* number of NICs per node; one per GPU if the profile has no "nccl" */
bool bb_cluster_gpus_share_nics(const struct bb_cluster *c); /* true: a node has fewer NICs than GPUs */
/* bb_cluster_gpu_nics - returns which NICs a GPU uses: those with indices *first to *end - 1 on its node. With one
 * NIC per GPU, GPU i uses NIC i. With fewer NICs than GPUs, consecutive GPUs share a NIC; with more, a GPU uses
 * several. gpu: index on the node, or a rank (modulo gpus_per_node). */
void bb_cluster_gpu_nics(const struct bb_cluster *c, int gpu, int *first, int *end);
/* bb_cluster_rank_nic - returns the index among the NICs of all nodes of the NIC of a rank's GPU, or of its first
 * NIC if the GPU has several. */
int bb_cluster_rank_nic(const struct bb_cluster *c, int rank);

/*
 * Both functions compute all fields of a placement except tier[].
 * bb_cluster_placement_of_ranks - computes the placement from a list of ranks.
 *   ranks    [n] in ascending order
 * bb_cluster_placement_add_node - adds one node to the placement. Set max_members to 0 before the first call.
 *   n        number of members of the communicator on all nodes
 *   members  number of members on this node
 *   nics     number of NICs that they use
 *   on_nic   maximum over the NICs of this node: number of members that use the NIC
 */
void bb_cluster_placement_add_node(struct bb_node_placement *placement, int n, int members, int nics, int on_nic);
void bb_cluster_placement_of_ranks(const struct bb_cluster *c, const int *ranks, int n,
                                   struct bb_node_placement *placement);

/* For one member of a communicator: members on its node, NICs that they use, and members that use its NIC. 1 each if GPUs
 * do not share NICs. */
struct bb_nic_members {
    int on_node, nics, on_nic;
};
/* bb_cluster_nic_members - returns the numbers of members for ranks[i]. ranks: [n] in ascending order */
struct bb_nic_members bb_cluster_nic_members(const struct bb_cluster *c, const int *ranks, int n, int i);

/* ---- GPU resources that concurrent communication uses (profiles with "sharing") ---- */

/* bb_cluster_memory_gbps - returns the memory bandwidth that memory-bound kernels reach, in 1e9 bytes/s.
 * bb_cluster_nccl_memory_gbps - returns the maximum memory bandwidth that NCCL uses, whether or not kernels run
 * concurrently: half of the bandwidth that kernels of the best software reach. */
double bb_cluster_memory_gbps(const struct bb_cluster *c);
double bb_cluster_nccl_memory_gbps(const struct bb_cluster *c);
/* bb_cluster_peer_gbps - returns the rate of a copy between two GPUs of a node that runs alone, in 1e9 bytes/s. by_kernel: a
 * kernel copies, at most at the rate of sends and receives; false: a copy engine. */
double bb_cluster_peer_gbps(const struct bb_cluster *c, bool by_kernel);
/* bb_cluster_exchange_sms - returns the number of SMs that the sends and receives of one group call occupy.
 * messages: number of messages to and from other ranks. bb_cluster_held_sms - returns the number of SMs that compute
 * kernels cannot use while NCCL operations request `held` SMs in total: `held`, but at most half of the GPU's SMs. */
int bb_cluster_exchange_sms(const struct bb_cluster *c, int messages);
int bb_cluster_held_sms(const struct bb_cluster *c, int held);

#endif
