/*
 * link_outliers.h - find the slow links in a matrix of link measurements. Pure functions.
 *
 * Each link is compared with the median of its class: the links inside a node, or the links between nodes. A rank (or a
 * node) is slow when the median over its own links of a class is slow. With few links, a slow link shifts the class
 * median itself; then only pairs are reported, never a rank or a node.
 *
 * In a bimodal class the median represents only one of the two modes, so up to half of the links may be bad although no
 * link is below factor x median. A class is bimodal when its sorted values have a gap wider than the factor (with 0.8:
 * two adjacent values more than 1.25 times apart) with at least a quarter of the links on each side. The widest gap
 * counts.
 */
#ifndef BB_COLLECTIVES_P2P_LINK_OUTLIERS_H
#define BB_COLLECTIVES_P2P_LINK_OUTLIERS_H

#include "bootstrap/base/err.h"
#include "bootstrap/base/stats.h"

#include <stdbool.h>

struct bb_link_outliers {
    int ranks;
    const double *value;   /* [ranks][ranks] from row to column, us or 1e9 bytes/s; NaN: not measured, and on the
                            diagonal */
    const int *node_of;    /* [ranks] node index of each rank */
    bool symmetric;        /* value[a][b] == value[b][a]: only pairs with from < to are reported */
    bool higher_is_better; /* true for bandwidth, false for latency */
    double factor;         /* 0 to 1. Slow: below factor x median (bandwidth), or above median / factor (latency) */
};

enum bb_link_level { BB_LINK_PAIR, BB_LINK_RANK, BB_LINK_NODE, BB_LINK_LEVELS };
extern const char *const bb_link_level_names[BB_LINK_LEVELS]; /* "pair", "rank", "node" */

struct bb_slow_link {
    enum bb_link_level level;
    int from, to;         /* pair: the two ranks; otherwise from is the rank or node index and to is -1 */
    bool same_node;       /* class of the link: inside a node, or between nodes */
    double value, median; /* the measured value (for a rank or node: the median over its links), and the median of
                             the class */
};

/*
 * bb_link_outliers_slow - call fn for each slow pair, then each slow rank, then each slow node.
 *   Returns  0, the first result of fn that is not 0 (which ends the visit), or -BB_EFAIL without memory
 */
typedef int bb_slow_fn(void *arg, const struct bb_slow_link *link);
int bb_link_outliers_slow(const struct bb_link_outliers *l, bb_slow_fn *fn, void *arg) BB_MUST_CHECK;

/* bb_link_outliers_summary - statistics over the links of a class. Returns 0 or -BB_EFAIL without memory. */
int bb_link_outliers_summary(const struct bb_link_outliers *l, bool same_node, struct bb_stats *stats) BB_MUST_CHECK;

/* The two modes of a bimodal class; links[0] is 0 when the class is not bimodal. */
struct bb_link_modes {
    int links[2]; /* number of links in the slower and in the faster mode */
    double median[2];
    double border; /* the best value of the slower mode */
};

int bb_link_outliers_modes(const struct bb_link_outliers *l, bool same_node, struct bb_link_modes *modes) BB_MUST_CHECK;

/*
 * bb_link_outliers_worst - list the links that are furthest on the slow side of their class median, slowest first.
 *   worst    [most] out: pairs
 *   n        out: number of pairs stored
 *   A class whose values differ by at most 1 % contributes no link.
 *   Returns  0 or -BB_EFAIL without memory
 */
int bb_link_outliers_worst(const struct bb_link_outliers *l, struct bb_slow_link *worst, int most,
                           int *n) BB_MUST_CHECK;

/*
 * bb_link_outliers_count - count slow links.
 *   slow     out: links that are slow, or belong to the slower mode of a bimodal class
 *   all      out: links measured
 *   Returns  0 or -BB_EFAIL without memory
 */
int bb_link_outliers_count(const struct bb_link_outliers *l, int *slow, int *all) BB_MUST_CHECK;

#endif
