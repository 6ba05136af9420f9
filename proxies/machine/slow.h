/*
 * slow.h - parts of a machine that are slower than the others: "rank=5:1.1,link=node3-nic2:0.5".
 *
 *   rank=R:F          the kernels of rank R last F times as long
 *   link=nodeN-nicI:F the I-th NIC of node N has the F-th part of its rate, both ways
 */
#ifndef BB_PROXIES_MACHINE_SLOW_H
#define BB_PROXIES_MACHINE_SLOW_H

#include "proxies/machine/cluster.h"

#define BB_SLOW_MOST 64

struct bb_slow {
    struct bb_slow_rank {
        int rank;
        double times;
    } ranks[BB_SLOW_MOST];
    struct bb_slow_link {
        int node, nic;
        double part;
    } links[BB_SLOW_MOST];
    int n_ranks, n_links;
};

/* bb_slow_parse - words between commas; NULL and "" are none. What is wrong is said: -BB_EUSAGE. */
int bb_slow_parse(const char *text, struct bb_slow *slow) BB_MUST_CHECK;

/* bb_slow_refuse_beyond - -BB_EUSAGE, said, for a rank, a node or a NIC that a job of so many does not have. */
int bb_slow_refuse_beyond(const struct bb_slow *slow, const struct bb_cluster *c, int ranks) BB_MUST_CHECK;

double bb_slow_times(const struct bb_slow *slow, int rank);         /* of a rank's kernels, 1: as fast as any */
double bb_slow_part(const struct bb_slow *slow, int node, int nic); /* of a NIC's rate                       */

/* bb_slow_nic_of - the number, over all nodes, of the NIC that a rank's GPU uses; of several the first. GPUs and NICs of
 * a node stand in the same order. _nics_gbps: the rate of all that it uses, whoever else does. */
int bb_slow_nic_of(const struct bb_cluster *c, int rank);
double bb_slow_nics_gbps(const struct bb_slow *slow, const struct bb_cluster *c, int rank);

#endif
