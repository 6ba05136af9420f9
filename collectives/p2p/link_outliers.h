/*
 * link_outliers.h - finds the slow links in a matrix of link measurements. A link is an ordered or unordered pair of
 * ranks. Pure functions.
 *
 * There are two classes of links: within an NVLink domain (a node, or several nodes that NVLink connects) and between
 * domains. Each link is compared with the median of its class, or, if
 * the class is bimodal, with the median of its faster group, unless that is a faster minority. A rank (or a node) is
 * slow if all of its links of a class are slow.
 *
 * A class is bimodal if its sorted values have a gap with three properties: the ratio of the values around the gap
 * exceeds 1 / factor (1.25 with factor 0.8), the gap is wider than the spread of the values above the gap, and at least
 * a quarter of the links is below the gap. The faster group may be a single link: if most nodes are slow, few links
 * connect two healthy ones. If all links of a class are equally slow, only an absolute limit detects that.
 *
 * Links above the gap that are less than half of the links between the ranks that have such links are a faster minority
 * (NVLink bridges between pairs of PCIe GPUs) and no reference: the other links are searched for a gap without them.
 */
#ifndef BB_COLLECTIVES_P2P_LINK_OUTLIERS_H
#define BB_COLLECTIVES_P2P_LINK_OUTLIERS_H

#include "bootstrap/base/err.h"
#include "bootstrap/base/stats.h"

#include <stdbool.h>

struct bb_link_outliers {
    int ranks;
    const double *value;   /* [ranks][ranks] value for messages from the rank of the matrix row to the rank of the
                            matrix column: latency in us, or bandwidth in 1e9 bytes/s; NaN: not measured */
    const int *node_of;    /* [ranks] node index of each rank */
    bool symmetric;        /* true: value[a][b] == value[b][a], so each link is reported once, with from < to */
    bool higher_is_better; /* true: a higher value is better (bandwidth); false: a lower value is better (latency) */
    double factor; /* 0 to 1. A link is slow below factor x median (bandwidth), or above median / factor (latency) */
    double least;  /* a link with a lower value is slow, too; 0: no such limit */
    const int *domain_of; /* [ranks] NVLink domain of each rank; NULL: its node */
};

/* PATH: all links of two nodes; WAY: those from one node to another */
enum bb_link_level {
    BB_LINK_PAIR,
    BB_LINK_RANK,
    BB_LINK_NODE,
    BB_LINK_PATH,
    BB_LINK_WAY,
    BB_LINK_CLASS,
    BB_LINK_LEVELS
};
/* "pair", "rank", "node", "path", "one_way_path", "class" */
extern const char *const bb_link_level_names[BB_LINK_LEVELS];

struct bb_slow_link {
    enum bb_link_level level;
    int from, to; /* pair: the two ranks; path: the two nodes; otherwise from is the rank or node index (class: -1) and
                       to is -1 */
    bool same_node; /* true: the link is inside a node or NVLink domain; false: between them */
    /* latency in us or bandwidth in 1e9 bytes/s. value: of the link, or the median over the links of the rank or
     * node; median: over all links inside nodes if same_node, otherwise over all links between nodes; only over the faster
     * group if these are bimodal */
    double value, median;
};

/* bb_link_outliers_slow - call fn(arg, link) for each slow pair of ranks, then for each slow rank, then for each slow
 * node. */
typedef void bb_slow_fn(void *arg, const struct bb_slow_link *link);
void bb_link_outliers_slow(const struct bb_link_outliers *l, bb_slow_fn *fn, void *arg);

/*
 * bb_link_outliers_confirm - have each slow pair measured again alone, slowest relative to its class first. The better
 * values raise the median that links are compared with, so this is repeated until every slow pair was measured alone.
 * First, up to 8 pairs of each class are measured alone. If one of them was slow only while other pairs ran, the class is
 * loaded, and all pairs that are slow relative to its fastest pair are measured alone: the median of a loaded class is low.
 *   per_rank   slow pairs of each rank that are measured, and thus at most per_rank x ranks in total
 *   fn(arg, from, to, alone)  alone: true: measures the pair and stores the better value in l->value; false: the ranks have
 *              too many slow pairs, so the function stores NaN. A negative return value ends the search
 *   suspected  out: number of slow pairs
 *   alone      out: of these, number of pairs that were measured alone
 *   Returns    0, or the negative return value of fn
 */
typedef int bb_confirm_fn(void *arg, int from, int to, bool alone);
int bb_link_outliers_confirm(const struct bb_link_outliers *l, int per_rank, bb_confirm_fn *fn, void *arg,
                             int *suspected, int *alone) BB_MUST_CHECK;

/* bb_link_outliers_summary - compute statistics over all links inside nodes (same_node true) or all links between
 * nodes. */
void bb_link_outliers_summary(const struct bb_link_outliers *l, bool same_node, struct bb_stats *stats);

/* The slower and the faster links if the intra-node (or inter-node) links are bimodal; otherwise group[0].n is 0. */
struct bb_link_modes {
    struct bb_stats group[2]; /* [0] slower links, [1] faster links */
    bool ordinary; /* true: links are compared with the faster group; false: that group is a faster minority */
};

/* bb_link_outliers_modes - determine whether the intra-node links (same_node true) or the inter-node links (false) are
 * bimodal, and find their slower and their faster group. */
void bb_link_outliers_modes(const struct bb_link_outliers *l, bool same_node, struct bb_link_modes *modes);

/*
 * bb_link_outliers_worst - list the links that are slowest relative to the median of their class (intra-node or
 * inter-node), slowest first. A class whose values differ by at most 1 % contributes no link.
 *   worst    [most] out: pairs
 *   Returns  the number of pairs stored
 */
int bb_link_outliers_worst(const struct bb_link_outliers *l, struct bb_slow_link *worst, int most) BB_MUST_CHECK;

/*
 * bb_link_outliers_count - count the slow links.
 *   slow     out: number of slow links: [0] between nodes, [1] inside nodes
 *   all      out: number of measured links, likewise
 */
void bb_link_outliers_count(const struct bb_link_outliers *l, int slow[2], int all[2]);

/* A cause of slow links: a node or a rank most of whose links of a class are slow, the path between two nodes all of whose links
 * are slow, a single pair of ranks, or, if all links of a class are slow, the class. */
struct bb_link_cause {
    struct bb_slow_link what; /* value: median of its slow links that no earlier cause explains; median: of the links of
                                 the class that are not slow */
    int slow, links;          /* its slow links; all its links of the class, without a faster minority */
    int explained;            /* its slow links that no earlier cause explains */
};

/*
 * bb_link_outliers_causes - explain the slow links (those that bb_link_outliers_count counts) by as few nodes, ranks, paths
 * and pairs as possible: the node, rank or path with the most unexplained slow links, times the square of the part of its links that
 * is slow, comes first (greedy set cover). A node or rank
 * is a cause if at least half of its links of the class are slow, and it has at least two; a node only if this holds for
 * each of its ranks. Links that are slow also relative to the worst of their causes, such as those of a slow path of a slow node,
 * are explained again in the same way.
 *   fn(arg, cause)  called for each cause, intra-node links first; false: leaves out the later causes of these links
 * bb_link_cause_explains - return whether a cause explains the link between two ranks, if the link is slow
 */
typedef bool bb_cause_fn(void *arg, const struct bb_link_cause *cause);
bool bb_link_cause_explains(const struct bb_link_outliers *l, const struct bb_link_cause *cause, int from, int to);
void bb_link_outliers_causes(const struct bb_link_outliers *l, bb_cause_fn *fn, void *arg);

#endif
