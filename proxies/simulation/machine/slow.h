/*
 * slow.h - degraded hardware of a machine: GPUs, nodes, NICs, paths between nodes and leaf uplinks that are slower than in the
 * cluster profile. The user lists them in a text such as "rank=5:1.1,link=node3-nic2:0.5" (--slow). A second list, such as
 * "rank=1:100us" (--delay), contains ranks that start late.
 *
 *   rank=R:TIMES            kernels of rank R take TIMES as long (0.001 to 1000)
 *   nodeN:PART              every GPU and NIC of node N has the fraction PART of its speed: kernels take 1/PART as long,
 *                           and NICs have the fraction PART of their rate in both directions (0.001 to 1)
 *   link=nodeN-nicM:PART    NIC M of node N has the fraction PART of its rate in both directions (0.001 to 1)
 *   link=nodeN-nodeM:PART   the path between nodes N and M has the fraction PART of the rate of the NICs, in both
 *                           directions; the GPUs of a NIC share it. link=nodeN-to-nodeM:PART: only from N to M (0.001 to 1).
 *                           Which collectives use it: profiles/clusters/README.md
 *   link=leafN:PART         the uplinks of leaf switch N of the profile's "fabric" have the fraction PART of their rate
 *                           (N: see bb_fabric_switch)
 *   rank=R:TIME             the streams of rank R start TIME (us, ms or s) after the begin of each step
 *
 * All indices begin at 0. Consecutive ranks fill the nodes. Factors of the same GPU or NIC are multiplied.
 */
#ifndef BB_PROXIES_SIMULATION_MACHINE_SLOW_H
#define BB_PROXIES_SIMULATION_MACHINE_SLOW_H

#include "proxies/simulation/machine/cluster.h"

#include <jansson.h>
#include <stdio.h>

struct bb_slow_item {
    enum bb_slow_kind {
        BB_SLOW_RANK,
        BB_SLOW_NODE,
        BB_SLOW_NIC,
        BB_SLOW_PATH,
        BB_SLOW_WAY,
        BB_SLOW_LEAF,
        BB_SLOW_DELAY
    } kind;
    int number,
        other;     /* number: the rank, node or leaf; other: index of the NIC on the node, or second node of a path */
    double factor; /* for BB_SLOW_DELAY: the delay in us */
};
#define BB_SLOW_ITEMS 256 /* as a rail of 128 nodes, and other parts */
struct bb_slow {
    int n;
    struct bb_slow_item items[BB_SLOW_ITEMS];
};

/*
 * bb_slow_parse, bb_slow_parse_delays - parse the text of --slow or of --delay and append its items to `slow`.
 *   what     name of the option or environment variable, for error messages
 *   Returns  0, or -BB_EUSAGE after printing an error message
 */
int bb_slow_parse(struct bb_slow *slow, const char *what, const char *text) BB_MUST_CHECK;
int bb_slow_parse_delays(struct bb_slow *slow, const char *what, const char *text) BB_MUST_CHECK;
/* bb_slow_validate - rejects ranks, nodes, NICs and leaves that the job or the profile does not have. c: may be NULL
 * if the list contains only ranks. Returns 0, or -BB_EUSAGE after printing an error message. */
int bb_slow_validate(const struct bb_slow *slow, const char *what, const struct bb_cluster *c, int ranks,
                     int nodes) BB_MUST_CHECK;

/*
 * bb_slow_print - prints one line per item; each line begins with `prefix`.
 * bb_slow_json - returns a JSON list with one text per item, which the caller releases.
 * bb_slow_names - writes the items as a part of a sentence: "node 3's NIC 2 (x0.5) and rank 1 (100 us late)". Names at
 *                 most 4 items.
 */
void bb_slow_print(const struct bb_slow *slow, const char *prefix, FILE *out);
json_t *bb_slow_json(const struct bb_slow *slow);
#define BB_SLOW_NAMES_TEXT 300
void bb_slow_names(const struct bb_slow *slow, char text[BB_SLOW_NAMES_TEXT]);
/* bb_slow_has_fast_rank - return whether the kernels of a rank are faster (a factor below 1). */
bool bb_slow_has_fast_rank(const struct bb_slow *slow);

/* returns the factor by which the durations of the rank's kernels are multiplied; 1: not slowed. node: of the rank */
double bb_slow_compute_factor(const struct bb_slow *slow, int rank, int node);
/* returns the time in ns by which the streams of the rank start late in each step */
int64_t bb_slow_delay_ns(const struct bb_slow *slow, int rank);
/* bb_slow_nic_factor - returns the degraded rate of a GPU's NICs as a fraction of their rate in the profile; the
 * slowest one if the GPU has several, because NCCL and its network plugins give all NICs equal parts. gpu: index of the GPU on its node. */
double bb_slow_nic_factor(const struct bb_slow *slow, const struct bb_cluster *c, int node, int gpu);
/* bb_slow_nics_gbps - returns the total rate of the NICs that a rank's GPU uses, after degradation, in 1e9 bytes/s.
 * The rate is not divided among other GPUs that use these NICs. Rank r is on node r / gpus_per_node. */
double bb_slow_nics_gbps(const struct bb_slow *slow, const struct bb_cluster *c, int rank);
/* bb_slow_leaf_factor - returns the degraded rate of the uplinks of a rank's leaf switch as a fraction of their rate
 * in the profile. */
double bb_slow_leaf_factor(const struct bb_slow *slow, const struct bb_cluster *c, int rank);
/* bb_slow_degrade_fabric - sets fabric.slow_leaf if some leaf is degraded, and fabric.slow_paths. The cost model then
 * includes leaf uplinks even if they are not oversubscribed, and the slow paths. */
void bb_slow_degrade_fabric(const struct bb_slow *slow, struct bb_cluster *c);

#endif
