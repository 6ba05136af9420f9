/* link_outliers.c - see link_outliers.h. */
#include "collectives/p2p/link_outliers.h"

#include <math.h>
#include <stdlib.h>

const char *const bb_link_level_names[BB_LINK_LEVELS] = {
    [BB_LINK_PAIR] = "pair", [BB_LINK_RANK] = "rank", [BB_LINK_NODE] = "node"};

/* Links of a class, all (-1), or those that touch one rank or one node. */
struct choice {
    bool same_node;
    int rank, node;
};

static bool is_chosen(const struct bb_link_outliers *l, const struct choice *c, int from, int to)
{
    if (from == to || (l->symmetric && from > to) || isnan(l->value[(size_t)from * (size_t)l->ranks + (size_t)to]))
        return false;
    if ((l->node_of[from] == l->node_of[to]) != c->same_node)
        return false;
    if (c->rank >= 0 && from != c->rank && to != c->rank)
        return false;
    return c->node < 0 || l->node_of[from] == c->node || l->node_of[to] == c->node;
}

static int stats_of(const struct bb_link_outliers *l, const struct choice *c, struct bb_stats *stats)
{
    size_t ranks = (size_t)l->ranks, n = 0;
    double *values = malloc((ranks * ranks + 1) * sizeof *values);
    int rc;

    if (!values)
        return bb_err(BB_EFAIL, "no memory for the links of %d ranks", l->ranks);
    for (int from = 0; from < l->ranks; from++)
        for (int to = 0; to < l->ranks; to++)
            if (is_chosen(l, c, from, to))
                values[n++] = l->value[(size_t)from * ranks + (size_t)to];
    rc = bb_stats_of(values, n, stats);
    free(values);
    return rc;
}

int bb_link_outliers_summary(const struct bb_link_outliers *l, bool same_node, struct bb_stats *stats)
{
    return stats_of(l, &(struct choice){same_node, -1, -1}, stats);
}

static bool is_slow(const struct bb_link_outliers *l, double value, double median)
{
    return l->more_is_better ? value < l->factor * median : value > median / l->factor;
}

/* What one class tells, and to whom. */
struct look {
    const struct bb_link_outliers *links;
    bool same_node;
    double median;
    bb_slow_fn *fn;
    void *arg;
};

static int report_if_slow(const struct look *k, enum bb_link_level level, int from, int to, double value)
{
    const struct bb_slow_link slow = {level, from, to, k->same_node, value, k->median};

    return is_slow(k->links, value, k->median) ? k->fn(k->arg, &slow) : 0;
}

static int tell_pairs(const struct look *k)
{
    const struct bb_link_outliers *l = k->links;
    const struct choice all = {k->same_node, -1, -1};
    int rc = 0;

    for (int from = 0; from < l->ranks; from++)
        for (int to = 0; to < l->ranks; to++)
            if (is_chosen(l, &all, from, to))
                TRY(report_if_slow(k, BB_LINK_PAIR, from, to, l->value[(size_t)from * (size_t)l->ranks + (size_t)to]));
out:
    return rc;
}

/* One rank or one node; a single pair has been told already. */
static int tell_several(const struct look *k, enum bb_link_level level, int which)
{
    const struct choice c = {k->same_node, level == BB_LINK_RANK ? which : -1, level == BB_LINK_NODE ? which : -1};
    struct bb_stats stats;
    int rc;

    TRY(stats_of(k->links, &c, &stats));
    if (stats.n >= (k->links->symmetric ? 2 : 4))
        TRY(report_if_slow(k, level, which, -1, stats.p50));
out:
    return rc;
}

static int tell_class(const struct look *k, enum bb_link_level level)
{
    const struct bb_link_outliers *l = k->links;
    int last = -1, rc = 0;

    if (level == BB_LINK_PAIR)
        return tell_pairs(k);
    for (int r = 0; r < l->ranks; r++)
        last = level == BB_LINK_RANK ? r : l->node_of[r] > last ? l->node_of[r] : last;
    for (int which = 0; which <= last && rc == 0; which++)
        rc = tell_several(k, level, which);
    return rc;
}

int bb_link_outliers_slow(const struct bb_link_outliers *l, bb_slow_fn *fn, void *arg)
{
    struct bb_stats sum[2];
    int rc;

    TRY(bb_link_outliers_summary(l, true, &sum[1]));
    TRY(bb_link_outliers_summary(l, false, &sum[0]));
    for (int level = 0; level < BB_LINK_LEVELS; level++)
        for (int same = 1; same >= 0; same--) {
            const struct look k = {l, same, sum[same].p50, fn, arg};
            if (sum[same].n > 0)
                TRY(tell_class(&k, (enum bb_link_level)level));
        }
out:
    return rc;
}
