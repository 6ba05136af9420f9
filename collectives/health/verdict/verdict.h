/*
 * verdict.h - the stages of `busbar health` and their verdicts. A pure module: the caller's function makes the
 * measurements, so that tests plant faults and noise without a GPU. Every rank runs the stages with the same
 * measurements and reaches the same verdicts.
 *
 * Levels: a value fails below 0.80 of the expectation, or if its modified z-score against its peers is below -3.5
 * (at least ten peers) and the value is below 0.97 of their median; it is a warning below 0.93 of the expectation,
 * or with that score (so below 0.974 of the median). Without expectation, the median of at least three peers takes
 * its place; GPUs are judged by both. If half of the values are slow, the median is that of the faster ones;
 * likewise if up to three quarters are and the expectation does not show that these are healthy. The score is 0.6745
 * (x - median) / max(MAD, 0.5 % of the median) (Iglewicz and Hoaglin, 1993). A suspect is measured twice more; two
 * of three verdicts count. Between nodes, the best of several partners counts; if
 * it is as slow with others, or the path to it is slow, a slow NIC is a warning.
 *
 * Findings:
 * 1. Parts with a common typical value are a class: the GPUs, the nodes, the NICs with the same GPU index (a rail,
 *    if more than three quarters of them are slow), and the rails. If the typical value is below a limit, one
 *    finding is about the common cause, with the level of the worst value near the typical one.
 * 2. Each part is judged by the expectation, or, with such a finding, by the typical value.
 * 3. A pair of nodes whose value is below 0.93 of what both reach with others is a slow path.
 * 4. Each other measured value below a limit is a finding, unless a finding about the class or an end has no better
 *    level.
 *
 * As many pairs are measured at once as the uplinks of oversubscribed leaves and pods carry with what each of them gets
 * alone. Only the bisection loads them fully, and is judged by what they leave to a pair meanwhile. Pairs of consecutive nodes that are fast with each other, but slow with most
 * others, share a slow leaf switch; pairs that are slow only while all pairs run at once share a slow fabric, such as
 * oversubscribed leaves that are not in the profile. A part
 * that is slow in some of its measurements only is a warning: a NIC that is slow with several partners which are
 * fast otherwise, or any part below 0.93 of the expectation in one of three measurements. A slow path is measured in
 * each direction. A slow bisection, rail or job is not a finding if one of an earlier stage explains it: its part is as
 * slow, or slower, relative to what is expected, and it has no better level.
 */
#ifndef BB_COLLECTIVES_HEALTH_VERDICT_VERDICT_H
#define BB_COLLECTIVES_HEALTH_VERDICT_VERDICT_H

#include "bootstrap/base/err.h"
#include "bootstrap/results/checks.h"

#include <stdbool.h>
#include <stddef.h>

#define BB_HEALTH_FAILS   0.80 /* a value below this part of its expectation fails */
#define BB_HEALTH_WARNS   0.93 /* a value below this part of its expectation is a warning */
#define BB_HEALTH_OUTLIER 0.97 /* an outlier below this part of its peers' median fails */

enum bb_health_test {
    BB_HEALTH_GEMM,
    BB_HEALTH_MEMORY,
    BB_HEALTH_TO_GPU, /* copies of each GPU with its host; of the GPUs of a node with each other: the fastest partner */
    BB_HEALTH_FROM_GPU,
    BB_HEALTH_PEERS,
    BB_HEALTH_SLOWEST_PEER, /* the slowest partner: its rate / that of the slower GPU with its fastest partner, times
                               the typical rate */
    BB_HEALTH_NODE,         /* all_reduce of the GPUs of a node */
    BB_HEALTH_PAIRS,        /* all_reduce of two GPUs with the same index on two nodes, for all indices at once */
    BB_HEALTH_BISECTION,    /* pairs of nodes of two halves, for several cuts, all at once */
    BB_HEALTH_RAILS_ALONE,  /* all_reduce of the GPUs with the same index on all nodes, one index after another */
    BB_HEALTH_RAILS,        /* all_reduce of the GPUs with the same index on all nodes, for all indices at once */
    BB_HEALTH_WHOLE,        /* all_reduce of all GPUs */
    BB_HEALTH_TESTS
};

/* BB_HEALTH_UNKNOWN: not measured. */
enum bb_health_level { BB_HEALTH_OK, BB_HEALTH_UNKNOWN, BB_HEALTH_WARN, BB_HEALTH_FAIL };
extern const enum bb_check_status bb_health_statuses[]; /* [enum bb_health_level], whose names are bb_check_names */
static inline const char *bb_health_level_name(enum bb_health_level level)
{
    return bb_check_names[bb_health_statuses[level]];
}

enum bb_health_part {
    BB_HEALTH_A_GPU,
    BB_HEALTH_A_NODE,
    BB_HEALTH_A_NIC,  /* the network connection of a GPU */
    BB_HEALTH_A_PATH, /* the connection of two nodes that are faster with other nodes */
    BB_HEALTH_A_RAIL, /* the network of all GPUs with the same index */
    BB_HEALTH_A_LEAF, /* what consecutive nodes share, such as the uplinks of a leaf switch */
    BB_HEALTH_FABRIC, /* the network between all nodes, which is slow only while all of them send */
    BB_HEALTH_ALL     /* most of what a test measured, or the whole job */
};
extern const char *const bb_health_parts[]; /* "gpu", "node", "nic", "path", "rail", "leaf", "fabric", "all" */

/* [enum bb_health_test] the stage that the test belongs to, its name, the unit of its values, and what it judges. */
extern const struct bb_health_test_row {
    const char *stage, *name, *unit;
    enum bb_health_part part;
} bb_health_tests[BB_HEALTH_TESTS];

enum { BB_HEALTH_CUTS = 3, BB_HEALTH_TIERS = 2 };
extern const char *const bb_health_cuts[BB_HEALTH_CUTS]; /* which pairs of nodes a cut of the bisection has */

enum { BB_HEALTH_REFERENCE_PEERS = 3 }; /* number of values from which they are compared with their median */

/* A part of the cluster that is slow, or differs from the others. */
struct bb_health_finding {
    enum bb_health_test test; /* BB_HEALTH_TESTS: inventory */
    enum bb_health_part part;
    enum bb_health_level level;
    int node, other, gpu;           /* -1: does not apply; other: the second node of a path, the last one of a leaf;
                                       gpu of a path: the only one, or the slowest, with that index; -1: all are slow */
    bool whole;                     /* of a rail: slow on all nodes, or all but one, which has no fast partner; of all:
                                       every unit that the test judges is slow */
    bool one_way;                   /* of a path: slow from `node` to `other`, fast in the other direction */
    double value, expected, median; /* median: of the peers; NaN: unknown */
    bool of_faster;                 /* of the faster peers, because half of them or more are slow */
    int tries;                      /* number of measurements */
    int slow;                       /* number of slow ones among them, if the others are fast; 0: does not apply */
    bool untested;                  /* of a NIC: its partners, or the paths to them, are slow and may be the cause */
    bool slow_alone;                /* with `slow`, between nodes: also while no other pair was measured */
    char text[160];                 /* inventory: what differs; wrong data: of what; else "" */
    bool lost_gpus;                 /* inventory: the node lacks GPUs */
    bool lost;               /* the node: it takes no part from this test on; BB_HEALTH_TESTS: from the stage soak on */
    double soak_s;           /* of the stage soak: seconds after its begin, and `expected` is the reference; else 0 */
    enum bb_soak_reference { /* of the stage soak: what `expected` is */
                             BB_SOAK_FIRST, /* the value of its first rounds */
                             BB_SOAK_STAGE, /* the value of the GPU, or of all, in the stage gpu or whole */
                             BB_SOAK_EXPECTED,
                             BB_SOAK_PEERS
    } soak_reference;
};

/*
 * bb_health_measure - make one test on all nodes at once.
 *   partner  [nodes] pairs and bisection: the partner of each node; other tests: 0; -1: the node takes no part
 *   values   out: [nodes * gpus] the value of each GPU, in the unit of the test; NaN: not measured
 *   Returns  0, or a negative error code
 */
typedef int bb_health_measure(void *arg, enum bb_health_test test, const int *partner, double *values);

struct bb_health {
    int nodes, gpus; /* gpus: number of GPUs per node */
    int rounds;      /* pairs: number of rounds, each with new pairs; 0: log2(nodes) + 1, rounded up */
    bool every_pair; /* with rounds 0, all partners up to 16 nodes */
    bool skip[BB_HEALTH_TESTS];
    double expected[BB_HEALTH_TESTS];             /* NaN: unknown */
    int node_gpus;                                /* of a node of the profile or the baseline; 0: unknown */
    enum bb_health_source {                       /* of node_gpus */
                            BB_HEALTH_RECOGNISED, /* the profile of GPUs with this name */
                            BB_HEALTH_NAMED,      /* the profile that --expect or the baseline names */
                            BB_HEALTH_FOUND       /* CUDA, in the run of the baseline */
    } node_gpus_source;
    const int *domain_of; /* [nodes] NVLink domain of each node; NULL: consecutive nodes are one, */
    int domain_nodes;     /* this number of them; below 2: each node is one */
    double inside;        /* expected of pairs in a domain, if there are several; NaN: unknown, these are not judged */
    int node_nics;        /* of a node of the profile; 0: unknown */
    /* leaf switches and pods: consecutive nodes that share uplinks, and the rate of the job's NICs / that of the
     * uplinks */
    struct bb_health_tier {
        int nodes; /* 0: unknown, or none */
        double oversubscription;
    } tiers[BB_HEALTH_TIERS];
    double latency; /* part of the time of a pair alone that loaded uplinks do not lengthen; 0: none, or unknown */
    bb_health_measure *measure;
    int (*expect)(
        void *
            arg); /* sets `expected` of later tests, `tiers` and `latency` again after nodes have failed; may be NULL */
    void *arg;
    const struct bb_health_finding *lost; /* [n_lost] added before the test in which the node was lost */
    size_t n_lost;
    struct bb_health_finding *findings; /* worst first, after bb_health_run */
    size_t n;
    bool is_soak;      /* the stage soak measures */
    const char *stage; /* that runs: its failures remove no node before its end; NULL: none */
    int sender;        /* during `measure` of pairs: the node that sends a message to its partner; -1: both reduce */
    int attempt;       /* during `measure`: 1, or above 1 for another measurement of suspects */
    double median[BB_HEALTH_TESTS];  /* out: of all values of the first measurement; NaN: not measured */
    bool of_faster[BB_HEALTH_TESTS]; /* out: of those of the faster GPUs, because half of them or more are slow */
    double lowest[BB_HEALTH_TESTS];  /* out: likewise */
    int lowest_gpu[BB_HEALTH_TESTS]; /* out: of tests of GPUs: the GPU with the lowest value, node * gpus + index */
    int took_part[BB_HEALTH_TESTS];  /* set by `measure`: number of nodes that take part; 0: unknown */
    double inside_median;            /* out: of the pairs in a domain, if there are several, as `median`, of others */
    struct bb_health_reached {       /* out: of the tests of GPUs, nodes, rails and the job; the caller sets 0 */
        double *values; /* of each GPU, node or rail, or of the job, the middle measurement; NULL: not run */
        int nodes;      /* number of nodes that took part */
    } reached[BB_HEALTH_TESTS];
    double share[BB_HEALTH_TESTS];     /* out: of `expected`, what oversubscribed leaves leave to the median; 1: all */
    double shares[BB_HEALTH_TESTS][2]; /* out: the same of single pairs: the lowest and the highest; of other tests 0 */
    int cut;                           /* out: of the bisection: index of the cut with the median */
    bool all_paths;                    /* out: the stage pairs has tested every path */
};

/* bb_health_run - run the tests. The caller sets the fields above `findings`, may have added findings with
 * bb_health_add, and calls bb_health_release. Returns 0, or the first error of `measure`. */
int bb_health_run(struct bb_health *h) BB_MUST_CHECK;
void bb_health_release(struct bb_health *h);

/* bb_health_is_inside - return whether one of several NVLink domains of the job has both nodes, also failed ones: NICs
 *   do not connect them.
 * bb_health_has_domains - return whether there are several, among the nodes that have not failed.
 * bb_health_domain_nodes - return the number of nodes in the largest one; 0: each node is one, or it is not known
 *   yet. */
bool bb_health_is_inside(const struct bb_health *h, int a, int b);
bool bb_health_has_domains(const struct bb_health *h);
int bb_health_domain_nodes(const struct bb_health *h);

/* bb_health_uplink_share - return the part of its rate that a pair of nodes gets from oversubscribed leaves and pods
 * while the others run. partner: [nodes], as of bb_health_measure; NULL: the pair is alone. */
double bb_health_uplink_share(struct bb_health *h, const int *partner, int a, int b);

/* bb_health_remark - return a finding without values. node, other, gpu: -1: does not apply. */
struct bb_health_finding bb_health_remark(enum bb_health_test test, enum bb_health_part part,
                                          enum bb_health_level level, int node, int other, int gpu);

/* bb_health_add - append a finding. A node with a failed GPU, NIC or node takes no part in further stages. */
void bb_health_add(struct bb_health *h, const struct bb_health_finding *f);

/* bb_health_median - return the median of the finite ones of values[n]; NaN: there is none.
 * bb_health_judge - return the level of a value / its expectation, without peers.
 * bb_health_exceeds - return whether a median / its expectation is so high that the expectation is probably of another
 *   machine.
 * bb_health_explaining - return the finding that explains a low value of a test between nodes, as a part `ratio` of
 *   what is expected: of those about this test and earlier ones that are as slow or slower, the one whose value is
 *   nearest to this part; NULL: there is none. */
double bb_health_median(const double *values, size_t n);
enum bb_health_level bb_health_judge(double ratio);
bool bb_health_exceeds(enum bb_health_test test, double ratio);
const struct bb_health_finding *bb_health_explaining(const struct bb_health *h, enum bb_health_test test, double ratio);

/* bb_health_percent - write a part in percent, "51 %"; near a limit of the rule with the digits that show its side:
 * "96.6 %". Returns text. */
enum { BB_HEALTH_PERCENT_TEXT = 32 };
const char *bb_health_percent(double part, char text[BB_HEALTH_PERCENT_TEXT]);

/* bb_health_sort - sort the findings, worst first. */
void bb_health_sort(struct bb_health *h);

#define BB_HEALTH_NO_PATHS "no NIC, path or rail tested: " /* and why */

/* bb_health_node_level - return the verdict on a node. Without a finding, it is unknown if a common cause fails, and a
 *   warning if that is a warning.
 * bb_health_is_common - return whether a finding is about such a cause: most of the cluster in a test that also judges
 *   its parts, or a slow bisection that a path which is not tested can explain, too. */
enum bb_health_level bb_health_node_level(const struct bb_health *h, int node);
bool bb_health_is_common(const struct bb_health *h, const struct bb_health_finding *f);

#define BB_HEALTH_ITEM_GPUS "GPUs of the node" /* item of the inventory */

/* bb_health_is_node_size - return whether nodes are built with this number of GPUs: a power of two. With another one a
 *   GPU may be lost. */
bool bb_health_is_node_size(int gpus);

/* bb_health_is_active - return whether a node takes part in this stage: it has not failed in another one. The inventory
 *   of the only node does not end its tests.
 * bb_health_active - return the number of these nodes. */
bool bb_health_is_active(const struct bb_health *h, int node);
int bb_health_active(const struct bb_health *h);

/* bb_health_leaf_nodes - return the number of nodes of this node's leaf that took part in the stage pairs.
 * bb_health_count_leaves - return the number of leaves that have such nodes; 0: the leaves are not known. */
int bb_health_leaf_nodes(const struct bb_health *h, int node);
int bb_health_count_leaves(const struct bb_health *h);

/* bb_health_rounds - return the number of measurements of a test without suspects.
 * bb_health_all_rounds - return the number of rounds that measure every pair of n nodes once. */
int bb_health_all_rounds(int n);
int bb_health_rounds(const struct bb_health *h, enum bb_health_test test);

#endif
