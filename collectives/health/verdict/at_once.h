/*
 * at_once.h - finds which nodes share a slow link: pairs of nodes that are fast alone, but slow while all pairs run at
 * once. A pure module.
 */
#ifndef BB_COLLECTIVES_HEALTH_VERDICT_AT_ONCE_H
#define BB_COLLECTIVES_HEALTH_VERDICT_AT_ONCE_H

/* A pair below this part of the fastest one that shares the slow link in the same round has another cause, too. */
#define BB_HEALTH_EVEN 0.8

/* Consecutive nodes whose pairs with other nodes are slow, such as the nodes of a leaf switch with slow uplinks. */
struct bb_at_once {
    int first, last; /* nodes; -1: none */
    int slow;        /* number of slow pairs between one of these nodes and another node */
    int fast;        /* number of fast ones, in rounds with no fewer pairs than a round with slow ones */
    int even;        /* number of the slow ones that reach 80 % of the fastest slow one of their round */
    double ratio;    /* the lowest one of the slow pairs; NaN: none */
};

/*
 * bb_at_once_find - find the nodes that explain the slow pairs best: at least two nodes, and at most half of those with
 * a partner. Of their pairs with other nodes in a round, which share the link, the slow ones count for them and the
 * others against them. If all are fast, there may be too few of them in this round, and they count a quarter.
 *   partner  [rounds][nodes] the partner of each node; -1: none
 *   ratio    [rounds][nodes] value of each pair / its expectation, at both ends; NaN: the pair does not count for this
 *            end
 *   limit    a pair is slow below this ratio
 *   leaf     number of nodes of a leaf switch, which the range has in full; 1: unknown
 */
struct bb_at_once bb_at_once_find(const int *partner, const double *ratio, int rounds, int nodes, double limit,
                                  int leaf);

#endif
