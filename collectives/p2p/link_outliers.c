/* link_outliers.c - see link_outliers.h. */
#include "collectives/p2p/link_outliers.h"

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

/* Returns the values of the selected links, owned by the caller; NULL after printing an error if out of memory. */
static double *values_of(const struct bb_link_outliers *l, const struct choice *c, size_t *n)
{
    size_t ranks = (size_t)l->ranks;
    double *values = malloc((ranks * ranks + 1) * sizeof *values);

    *n = 0;
    if (!values) {
        (void)bb_err(BB_EFAIL, "no memory for the links of %d ranks", l->ranks);
        return NULL;
    }
    for (int from = 0; from < l->ranks; from++)
        for (int to = 0; to < l->ranks; to++)
            if (is_chosen(l, c, from, to))
                values[(*n)++] = l->value[(size_t)from * ranks + (size_t)to];
    return values;
}

static int stats_of(const struct bb_link_outliers *l, const struct choice *c, struct bb_stats *stats)
{
    size_t n;
    double *values = values_of(l, c, &n);

    if (!values)
        return -BB_EFAIL;
    bb_stats_compute(values, n, stats);
    free(values);
    return 0;
}

int bb_link_outliers_summary(const struct bb_link_outliers *l, bool same_node, struct bb_stats *stats)
{
    return stats_of(l, &(struct choice){same_node, -1, -1}, stats);
}

static bool is_slow(const struct bb_link_outliers *l, double value, double median)
{
    return l->higher_is_better ? value < l->factor * median : value > median / l->factor;
}

/* Arguments of the functions that report slow links: the matrix of links, the links to report (intra-node if
 * same_node, otherwise inter-node), their median, and the callback. */
struct class_report {
    const struct bb_link_outliers *links;
    bool same_node;
    double median;
    bb_slow_fn *fn;
    void *arg;
};

static int report_if_slow(const struct class_report *k, enum bb_link_level level, int from, int to, double value)
{
    const struct bb_slow_link slow = {level, from, to, k->same_node, value, k->median};

    return is_slow(k->links, value, k->median) ? k->fn(k->arg, &slow) : 0;
}

static int report_pairs(const struct class_report *k)
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

/* Reports rank or node number `which` as slow if the median over its links is slow. Requires at least two links
 * (four values if each direction has its own value), because a single slow link is already reported as a pair. */
static int report_group(const struct class_report *k, enum bb_link_level level, int which)
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

static int report_class(const struct class_report *k, enum bb_link_level level)
{
    const struct bb_link_outliers *l = k->links;
    int last = -1, rc = 0;

    if (level == BB_LINK_PAIR)
        return report_pairs(k);
    for (int r = 0; r < l->ranks; r++)
        last = level == BB_LINK_RANK ? r : l->node_of[r] > last ? l->node_of[r] : last;
    for (int which = 0; which <= last && rc == 0; which++)
        rc = report_group(k, level, which);
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
            const struct class_report k = {l, same, sum[same].p50, fn, arg};
            if (sum[same].n > 0)
                TRY(report_class(&k, (enum bb_link_level)level));
        }
out:
    return rc;
}

/* ---- detecting bimodal classes ---- */

static int compare_values(const void *a, const void *b)
{
    const double *x = a, *y = b;

    return (*x > *y) - (*x < *y);
}

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

int bb_link_outliers_modes(const struct bb_link_outliers *l, bool same_node, struct bb_link_modes *modes)
{
    size_t n, low;
    double *values = values_of(l, &(struct choice){same_node, -1, -1}, &n);
    int slow = l->higher_is_better ? 0 : 1, rc = values ? 0 : -BB_EFAIL; /* slow: index in half[] of the slower links */
    struct bb_stats half[2];

    *modes = (struct bb_link_modes){{0}, {NAN, NAN}, NAN};
    TRY(rc);
    qsort(values, n, sizeof *values, compare_values);
    low = split_at(values, n, l->factor);
    if (low == 0)
        goto out;
    bb_stats_compute(values, low, &half[0]);
    bb_stats_compute(values + low, n - low, &half[1]);
    for (int i = 0; i < 2; i++) {
        modes->links[i] = (int)half[i ^ slow].n;
        modes->median[i] = half[i ^ slow].p50;
    }
    modes->border = l->higher_is_better ? half[0].max : half[1].min;
out:
    free(values);
    return rc;
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

typedef void link_fn(void *arg, const struct bb_slow_link *link);

static void visit_links(const struct bb_link_outliers *l, bool same_node, double median, link_fn *fn, void *arg)
{
    const struct choice all = {same_node, -1, -1};

    for (int from = 0; from < l->ranks; from++)
        for (int to = 0; to < l->ranks; to++)
            if (is_chosen(l, &all, from, to))
                fn(arg, &(struct bb_slow_link){BB_LINK_PAIR, from, to, same_node,
                                               l->value[(size_t)from * (size_t)l->ranks + (size_t)to], median});
}

static void insert_if_slower(void *arg, const struct bb_slow_link *link)
{
    struct ranking *k = arg;

    if (rate(k->links, link->value, link->median) < 1)
        insert_link(k, link);
}

int bb_link_outliers_worst(const struct bb_link_outliers *l, struct bb_slow_link *worst, int most, int *n)
{
    struct ranking k = {l, worst, most, 0};
    struct bb_stats sum;
    int rc;

    for (int same = 1; same >= 0; same--) {
        TRY(bb_link_outliers_summary(l, same, &sum));
        if (sum.n > 0 && sum.max > 1.01 * sum.min)
            visit_links(l, same, sum.p50, insert_if_slower, &k);
    }
    *n = k.n;
out:
    return rc;
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

int bb_link_outliers_count(const struct bb_link_outliers *l, int *slow, int *all)
{
    struct count c = {.links = l};
    struct bb_stats sum;
    int rc;

    for (int same = 1; same >= 0; same--) {
        TRY(bb_link_outliers_summary(l, same, &sum));
        TRY(bb_link_outliers_modes(l, same, &c.modes));
        visit_links(l, same, sum.p50, count_link, &c);
    }
    *slow = c.slow;
    *all = c.all;
out:
    return rc;
}
