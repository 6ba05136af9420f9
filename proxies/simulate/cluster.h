/*
 * cluster.h - a cluster profile (profiles/clusters) and the times that it gives, as profiles/clusters/README.md defines
 * them. int64 nanoseconds, each duration rounded once.
 */
#ifndef BB_PROXIES_SIMULATE_CLUSTER_H
#define BB_PROXIES_SIMULATE_CLUSTER_H

#include "proxies/step/program.h"

#include <stdint.h>

struct bb_link {
    double latency_us, gbps; /* 1e9 bytes per second, per GPU and direction */
};

struct bb_cluster {
    char name[64];
    int gpus_per_node, sm_count, clock_khz;
    double launch_us, nccl_launch_us, kernel_us, memory_gbps, memory_bytes;
    double tflops_float32, tflops_float16, tflops_bfloat16, tflops_float64;
    struct bb_link intra, inter;
};

/* bb_cluster_load - by name or path (see bb_profile_load); unknown and missing keys are refused. */
int bb_cluster_load(const char *word, struct bb_cluster *cluster) BB_MUST_CHECK;

int64_t bb_cluster_issue_ns(const struct bb_cluster *c, bool compute); /* host: one launch */
/* bb_cluster_compute_end_ns - when a compute operation ends that may start at `start_ns` and whose first launch the
 * host begins at host_ns: of real work each product and pass is launched by itself, and none starts before it is. */
int64_t bb_cluster_compute_end_ns(const struct bb_cluster *c, const struct bb_op *op, int64_t start_ns,
                                  int64_t host_ns);
/* 1e12 FLOP per second in products of that type. */
double bb_cluster_tflops(const struct bb_cluster *c, enum bb_dtype_id dtype);
int bb_cluster_launches(const struct bb_op *op); /* of a compute operation */

/* bb_cluster_collective_ns - from the arrival of the last of n members to the end on all. */
int64_t bb_cluster_collective_ns(const struct bb_cluster *c, const struct bb_op *op, int n, bool one_node);

/* Messages of one exchange: bytes to and from other ranks by link, [0] between nodes, [1] within the node. */
struct bb_load {
    double out[2], in[2];
};
/* bb_cluster_load_ns - the time that a rank's links need for all of them. */
double bb_cluster_load_ns(const struct bb_cluster *c, const struct bb_load *load);
/* bb_cluster_message_ns - from the later arrival to the end of one message; loads: the larger of both sides' load. */
int64_t bb_cluster_message_ns(const struct bb_cluster *c, bool one_node, double load_ns);
int64_t bb_cluster_self_ns(const struct bb_cluster *c, double bytes); /* a message to oneself */

#endif
