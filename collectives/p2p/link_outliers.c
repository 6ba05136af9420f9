/* link_outliers.c - see link_outliers.h. */
#include "collectives/p2p/link_outliers.h"

#include "bootstrap/base/alloc.h"

#include <math.h>
#include <stdlib.h>

const char *const bb_link_level_names[BB_LINK_LEVELS] = {
    [BB_LINK_PAIR] = "pair", [BB_LINK_RANK] = "rank", [BB_LINK_NODE] = "node"};

/* Selects links: only intra-node links if same_node, otherwise only inter-node links. rank, node: only the links of
 * this rank or of this node; -1: no restriction. */
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

/* Returns the values of the selected links, owned by the caller. */
static double *values_of(const struct bb_link_outliers *l, const struct choice *c, size_t *n)
{
    size_t ranks = (size_t)l->ranks;
    double *values;

    *n = 0;
    BB_NEW(values, ranks * ranks);
    for (int from = 0; from < l->ranks; from++)
        for (int to = 0; to < l->ranks; to++)
            if (is_chosen(l, c, from, to))
                values[(*n)++] = l->value[(size_t)from * ranks + (size_t)to];
    return values;
}

static void stats_of(const struct bb_link_outliers *l, const struct choice *c, struct bb_stats *stats)
{
    size_t n;
    double *values = values_of(l, c, &n);

    bb_stats_compute(values, n, stats);
    free(values);
}

void bb_link_outliers_summary(const struct bb_link_outliers *l, bool same_node, struct bb_stats *stats)
{
    stats_of(l, &(struct choice){same_node, -1, -1}, stats);
}

static bool is_slow(const struct bb_link_outliers *l, double value, double median)
{
    return l->higher_is_better ? value < l->factor * median : value > median / l->factor;
}

/* Calls fn(arg, link) for each intra-node link if same_node, otherwise for each inter-node link. median: median of the
 * values of these links. */
static void visit_links(const struct bb_link_outliers *l, bool same_node, double median, bb_slow_fn *fn, void *arg)
{
    const struct choice all = {same_node, -1, -1};

    for (int from = 0; from < l->ranks; from++)
        for (int to = 0; to < l->ranks; to++)
            if (is_chosen(l, &all, from, to))
                fn(arg, &(struct bb_slow_link){BB_LINK_PAIR, from, to, same_node,
                                               l->value[(size_t)from * (size_t)l->ranks + (size_t)to], median});
}

/* ---- slow pairs, ranks and nodes ---- */

/* Arguments of the functions that report slow links: the matrix of links, and the callback fn with its argument. */
struct report {
    const struct bb_link_outliers *links;
    bb_slow_fn *fn;
    void *arg;
};

static void report_if_slow(void *arg, const struct bb_slow_link *link)
{
    const struct report *k = arg;

    if (is_slow(k->links, link->value, link->median))
        k->fn(k->arg, link);
}

/* Reports rank or node number `which` as slow if the median over its links is slow. Requires at least two links
 * (four values if each direction has its own value), because a single slow link is already reported as a pair. */
static void report_group(struct report *k, enum bb_link_level level, int which, bool same_node, double median)
{
    const struct choice c = {same_node, level == BB_LINK_RANK ? which : -1, level == BB_LINK_NODE ? which : -1};
    struct bb_stats stats;

    stats_of(k->links, &c, &stats);
    if (stats.n >= (k->links->symmetric ? 2 : 4))
        report_if_slow(k, &(struct bb_slow_link){level, which, -1, same_node, stats.p50, median});
}

static void report_class(struct report *k, enum bb_link_level level, bool same_node, double median)
{
    const struct bb_link_outliers *l = k->links;
    int last = -1;

    if (level == BB_LINK_PAIR)
        visit_links(l, same_node, median, report_if_slow, k);
    for (int r = 0; r < l->ranks && level != BB_LINK_PAIR; r++)
        last = level == BB_LINK_RANK ? r : l->node_of[r] > last ? l->node_of[r] : last;
    for (int which = 0; which <= last; which++)
        report_group(k, level, which, same_node, median);
}

void bb_link_outliers_slow(const struct bb_link_outliers *l, bb_slow_fn *fn, void *arg)
{
    struct report k = {l, fn, arg};
    struct bb_stats sum[2];

    bb_link_outliers_summary(l, true, &sum[1]);
    bb_link_outliers_summary(l, false, &sum[0]);
    for (int level = 0; level < BB_LINK_LEVELS; level++)
        for (int same = 1; same >= 0; same--)
            if (sum[same].n > 0)
                report_class(&k, (enum bb_link_level)level, same, sum[same].p50);
}

/* ---- detecting bimodal classes ---- */

/* Divides the ascending values of all intra-node or all inter-node links at the widest gap. Returns the number of
 * values below the gap, or 0 if the links are not bimodal (link_outliers.h). factor: as in struct bb_link_outliers. */
static size_t split_at(const double *values, size_t n, double factor)
{
    size_t least = (n + 3) / 4, at = 0;
    double widest = factor;

    for (size_t i = least > 0 ? least : 1; i + least <= n && i < n; i++)
        if (values[i - 1] < widest * values[i]) {
            widest = values[i - 1] / values[i];
            at = i;
        }
    return at;
}

void bb_link_outliers_modes(const struct bb_link_outliers *l, bool same_node, struct bb_link_modes *modes)
{
    size_t n, low;
    double *values = values_of(l, &(struct choice){same_node, -1, -1}, &n);
    int slow = l->higher_is_better ? 0 : 1; /* index in half[] of the slower links */
    struct bb_stats half[2];

    *modes = (struct bb_link_modes){{0}, {NAN, NAN}, NAN};
    bb_sort_doubles(values, n);
    low = split_at(values, n, l->factor);
    bb_stats_compute(values, low, &half[0]);
    bb_stats_compute(values + low, n - low, &half[1]);
    free(values);
    if (low == 0)
        return;
    for (int i = 0; i < 2; i++) {
        modes->links[i] = (int)half[i ^ slow].n;
        modes->median[i] = half[i ^ slow].p50;
    }
    modes->border = l->higher_is_better ? half[0].max : half[1].min;
}

/* ---- ranking the slowest links ---- */

/* Returns the speed of a link relative to the median of all intra-node or all inter-node links: 1 at the median,
 * below 1 for a slower link. */
static double rate(const struct bb_link_outliers *l, double value, double median)
{
    return l->higher_is_better ? value / median : median / value;
}

struct ranking {
    const struct bb_link_outliers *links;
    struct bb_slow_link *worst;
    int most, n;
};

/* Inserts a link in the list of the slowest links. The list is in ascending order of rate(), and a new link follows
 * links of equal rate. The list keeps at most k->most links. */
static void insert_link(struct ranking *k, const struct bb_slow_link *link)
{
    int at = k->n;

    while (at > 0 &&
           rate(k->links, link->value, link->median) < rate(k->links, k->worst[at - 1].value, k->worst[at - 1].median))
        at--;
    if (at == k->most)
        return;
    k->n += k->n < k->most;
    for (int i = k->n - 1; i > at; i--)
        k->worst[i] = k->worst[i - 1];
    k->worst[at] = *link;
}

static void insert_if_slower(void *arg, const struct bb_slow_link *link)
{
    struct ranking *k = arg;

    if (rate(k->links, link->value, link->median) < 1)
        insert_link(k, link);
}

int bb_link_outliers_worst(const struct bb_link_outliers *l, struct bb_slow_link *worst, int most)
{
    struct ranking k = {l, worst, most, 0};
    struct bb_stats sum;

    for (int same = 1; same >= 0; same--) {
        bb_link_outliers_summary(l, same, &sum);
        if (sum.n > 0 && sum.max > 1.01 * sum.min)
            visit_links(l, same, sum.p50, insert_if_slower, &k);
    }
    return k.n;
}

/* ---- counting slow links ---- */

struct count {
    const struct bb_link_outliers *links;
    struct bb_link_modes modes;
    int slow, all;
};

static void count_link(void *arg, const struct bb_slow_link *link)
{
    struct count *c = arg;
    const struct bb_link_outliers *l = c->links;
    bool slower_mode = c->modes.links[0] > 0 &&
                       (l->higher_is_better ? link->value <= c->modes.border : link->value >= c->modes.border);

    c->all++;
    c->slow += slower_mode || is_slow(l, link->value, link->median);
}

void bb_link_outliers_count(const struct bb_link_outliers *l, int *slow, int *all)
{
    struct count c = {.links = l};
    struct bb_stats sum;

    for (int same = 1; same >= 0; same--) {
        bb_link_outliers_summary(l, same, &sum);
        bb_link_outliers_modes(l, same, &c.modes);
        visit_links(l, same, sum.p50, count_link, &c);
    }
    *slow = c.slow;
    *all = c.all;
}
