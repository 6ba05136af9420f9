/*
 * link_outliers.h - which links of a matrix between ranks are slow. Pure.
 *
 * A link is held against the median of its class: links inside a node, or links between nodes. A rank is slow when the
 * median over its own links of a class is, and a node when that over its links is. With few links a bad one moves the
 * median itself: what is told then are the pairs, not more.
 *
 * Where a class holds two modes of links the median stands for one of them, and half of all links may be bad without
 * one that is slow. A class is bimodal when its links, in order, have a gap wider than the factor (at 0.8 two
 * neighbours more than 1.25 times apart) with at least a quarter of the links on either side; the widest gap counts.
 */
#ifndef BB_COLLECTIVES_P2P_LINK_OUTLIERS_H
#define BB_COLLECTIVES_P2P_LINK_OUTLIERS_H

#include "bootstrap/base/err.h"
#include "bootstrap/base/stats.h"

#include <stdbool.h>

struct bb_link_outliers {
    int ranks;
    const double *value; /* [ranks][ranks] from row to column; NaN: not measured, and the diagonal */
    const int *node_of;  /* [ranks] */
    bool symmetric;      /* both triangles hold the same: only from < to is told */
    bool higher_is_better; /* bandwidth; else less is: latency */
    double factor;       /* 0 to 1: slow is below factor x median (bandwidth), above median / factor (latency) */
};

enum bb_link_level { BB_LINK_PAIR, BB_LINK_RANK, BB_LINK_NODE, BB_LINK_LEVELS };
extern const char *const bb_link_level_names[BB_LINK_LEVELS]; /* pair rank node */

struct bb_slow_link {
    enum bb_link_level level;
    int from, to;         /* ranks of a pair; else from is the rank or the node, to -1 */
    bool same_node;       /* the class */
    double value, median; /* its own (of several links: their median), that of its class */
};

/*
 * bb_link_outliers_slow - visit all of them: pairs, then ranks, then nodes. Stops at the first result that is not 0.
 * Returns that, 0, or -BB_EFAIL (no memory).
 */
typedef int bb_slow_fn(void *arg, const struct bb_slow_link *link);
int bb_link_outliers_slow(const struct bb_link_outliers *l, bb_slow_fn *fn, void *arg) BB_MUST_CHECK;

/* bb_link_outliers_summary - the statistics of a class. Returns 0 or -BB_EFAIL. */
int bb_link_outliers_summary(const struct bb_link_outliers *l, bool same_node, struct bb_stats *stats) BB_MUST_CHECK;

/* The two modes of a class; links[0] is 0 where there is but one. */
struct bb_link_modes {
    int links[2]; /* the slower, the faster             */
    double median[2];
    double border; /* the best value of the slower ones */
};

int bb_link_outliers_modes(const struct bb_link_outliers *l, bool same_node, struct bb_link_modes *modes) BB_MUST_CHECK;

/*
 * bb_link_outliers_worst - the links that are furthest from the median of their class, worst first, as pairs: at most
 * `most` of them to worst[], and *n of them. None of a class that has no spread (1 %).
 */
int bb_link_outliers_worst(const struct bb_link_outliers *l, struct bb_slow_link *worst, int most,
                           int *n) BB_MUST_CHECK;

/*
 * bb_link_outliers_count - *slow: links that are slow, or of the slower kind of their class; *all: links measured.
 */
int bb_link_outliers_count(const struct bb_link_outliers *l, int *slow, int *all) BB_MUST_CHECK;

#endif
