/* link_outliers.c - see link_outliers.h. */
#include "collectives/p2p/link_outliers.h"

#include "bootstrap/base/alloc.h"

#include <math.h>
#include <stdlib.h>

const char *const bb_link_level_names[BB_LINK_LEVELS] = {
    [BB_LINK_PAIR] = "pair", [BB_LINK_RANK] = "rank", [BB_LINK_NODE] = "node"};

/* A class of links: all intra-node links or all inter-node links, in the order of the matrix. */
struct class
{
    struct bb_slow_link *links; /* [n] value: of the link; median: of the class */
    double *values;             /* [n] values of the links */
    size_t n;
    struct bb_stats sum;
};

static struct class class_of(const struct bb_link_outliers *l, bool same_node)
{
    const size_t ranks = (size_t)l->ranks;
    struct class c = {.n = 0};

    BB_NEW(c.links, ranks * ranks);
    BB_NEW(c.values, ranks * ranks);
    for (int from = 0; from < l->ranks; from++)
        for (int to = l->symmetric ? from + 1 : 0; to < l->ranks; to++) {
            double value = l->value[(size_t)from * ranks + (size_t)to];
            if (from == to || isnan(value) || (l->node_of[from] == l->node_of[to]) != same_node)
                continue;
            c.values[c.n] = value;
            c.links[c.n++] = (struct bb_slow_link){BB_LINK_PAIR, from, to, same_node, value, NAN};
        }
    bb_stats_compute(c.values, c.n, &c.sum);
    for (size_t i = 0; i < c.n; i++)
        c.links[i].median = c.sum.p50;
    return c;
}

static void release_class(struct class *c)
{
    free(c->links);
    free(c->values);
}

void bb_link_outliers_summary(const struct bb_link_outliers *l, bool same_node, struct bb_stats *stats)
{
    struct class c = class_of(l, same_node);

    *stats = c.sum;
    release_class(&c);
}

/* Returns the speed of a link relative to the median of its class: 1 at the median, below 1 for a slower link. */
static double rate(const struct bb_link_outliers *l, const struct bb_slow_link *link)
{
    return l->higher_is_better ? link->value / link->median : link->median / link->value;
}

static bool is_slow(const struct bb_link_outliers *l, const struct bb_slow_link *link)
{
    return l->higher_is_better ? link->value < l->factor * link->median : link->value > link->median / l->factor;
}

/* ---- slow pairs, ranks and nodes ---- */

static bool belongs_to(const struct bb_link_outliers *l, const struct bb_slow_link *link, enum bb_link_level level,
                       int which)
{
    return level == BB_LINK_RANK ? link->from == which || link->to == which
                                 : l->node_of[link->from] == which || l->node_of[link->to] == which;
}

/* Returns rank or node number `which` as a slow link whose value is the median over its links of the class. Requires at
 * least two links (four values if each direction has its own value), because a single slow link is already reported as
 * a pair; with fewer links the value is NaN, which is not slow. */
static struct bb_slow_link group_of(const struct bb_link_outliers *l, const struct class *c, enum bb_link_level level,
                                    int which)
{
    struct bb_stats stats;
    size_t n = 0;

    for (size_t i = 0; i < c->n; i++)
        if (belongs_to(l, &c->links[i], level, which))
            c->values[n++] = c->links[i].value;
    bb_stats_compute(c->values, n, &stats);
    return (struct bb_slow_link){
        level, which, -1, c->links[0].same_node, n >= (l->symmetric ? 2 : 4) ? stats.p50 : NAN, c->sum.p50};
}

void bb_link_outliers_slow(const struct bb_link_outliers *l, bb_slow_fn *fn, void *arg)
{
    struct class classes[2] = {class_of(l, true), class_of(l, false)};

    for (int level = 0; level < BB_LINK_LEVELS; level++)
        for (struct class *c = classes; c < classes + 2; c++) {
            size_t groups = c->n == 0 ? 0 : level == BB_LINK_PAIR ? c->n : (size_t)l->ranks;
            for (size_t i = 0; i < groups; i++) {
                const struct bb_slow_link link =
                    level == BB_LINK_PAIR ? c->links[i] : group_of(l, c, (enum bb_link_level)level, (int)i);
                if (is_slow(l, &link))
                    fn(arg, &link);
            }
        }
    release_class(&classes[0]);
    release_class(&classes[1]);
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
    struct class c = class_of(l, same_node);
    size_t low;
    int slow = l->higher_is_better ? 0 : 1; /* index in half[] of the slower links */
    struct bb_stats half[2];

    *modes = (struct bb_link_modes){{0}, {NAN, NAN}, NAN};
    bb_sort_doubles(c.values, c.n);
    low = split_at(c.values, c.n, l->factor);
    bb_stats_compute(c.values, low, &half[0]);
    bb_stats_compute(c.values + low, c.n - low, &half[1]);
    release_class(&c);
    if (low == 0)
        return;
    for (int i = 0; i < 2; i++) {
        modes->links[i] = (int)half[i ^ slow].n;
        modes->median[i] = half[i ^ slow].p50;
    }
    modes->border = l->higher_is_better ? half[0].max : half[1].min;
}

/* ---- ranking the slowest links ---- */

/* Inserts a link in the list of the slowest links, worst[n]. The list is in ascending order of rate(), and a new link
 * follows links of equal rate. Returns the new length of the list, which is at most `most`. */
static int insert_link(const struct bb_link_outliers *l, struct bb_slow_link *worst, int n, int most,
                       const struct bb_slow_link *link)
{
    int at = n;

    while (at > 0 && rate(l, link) < rate(l, &worst[at - 1]))
        at--;
    if (at == most)
        return n;
    n += n < most;
    for (int i = n - 1; i > at; i--)
        worst[i] = worst[i - 1];
    worst[at] = *link;
    return n;
}

int bb_link_outliers_worst(const struct bb_link_outliers *l, struct bb_slow_link *worst, int most)
{
    int n = 0;

    for (int same = 1; same >= 0; same--) {
        struct class c = class_of(l, same);
        for (size_t i = 0; i < c.n && c.sum.max > 1.01 * c.sum.min; i++)
            if (rate(l, &c.links[i]) < 1)
                n = insert_link(l, worst, n, most, &c.links[i]);
        release_class(&c);
    }
    return n;
}

/* Sets slow[c->n] for the links of a class that are slow or belong to the slower group of a bimodal class. Returns their
 * number. */
static int mark_slow(const struct bb_link_outliers *l, const struct class *c, bool *slow)
{
    struct bb_link_modes modes;
    int n = 0;

    bb_link_outliers_modes(l, c->n > 0 && c->links[0].same_node, &modes);
    for (size_t i = 0; i < c->n; i++) {
        const double value = c->links[i].value;
        const bool slower_mode =
            modes.links[0] > 0 && (l->higher_is_better ? value <= modes.border : value >= modes.border);

        slow[i] = slower_mode || is_slow(l, &c->links[i]);
        n += slow[i];
    }
    return n;
}

void bb_link_outliers_count(const struct bb_link_outliers *l, int *slow, int *all)
{
    *slow = *all = 0;
    for (int same = 1; same >= 0; same--) {
        struct class c = class_of(l, same);
        bool *marks;

        BB_NEW(marks, c.n);
        *slow += mark_slow(l, &c, marks);
        *all += (int)c.n;
        free(marks);
        release_class(&c);
    }
}

/* ---- causes of slow links ---- */

/* Returns the median of the links with mark[i] == value. Overwrites c->values. */
static double median_of(const struct class *c, const bool *mark, bool value)
{
    struct bb_stats stats;
    size_t n = 0;

    for (size_t i = 0; i < c->n; i++)
        if (mark[i] == value)
            c->values[n++] = c->links[i].value;
    bb_stats_compute(c->values, n, &stats);
    return stats.p50;
}

/* Returns rank or node number `which` as a cause. open: [c->n] slow links that no other cause explains. *gain: out,
 * number of these links that it explains; 0 if it is no cause. */
static struct bb_link_cause cause_of(const struct bb_link_outliers *l, const struct class *c, const bool *slow,
                                     const bool *open, enum bb_link_level level, int which, int *gain)
{
    struct bb_link_cause cause = {.what = {level, which, -1, c->links[0].same_node, NAN, NAN}};

    *gain = 0;
    for (size_t i = 0; i < c->n; i++) {
        if (!belongs_to(l, &c->links[i], level, which))
            continue;
        cause.links++;
        cause.slow += slow[i];
        *gain += open[i];
    }
    if (cause.slow < (l->symmetric ? 2 : 4) || 5 * cause.slow < 4 * cause.links)
        *gain = 0;
    return cause;
}

/* Returns the node or rank that explains the most open links, or the first open pair. *found: whether there is one. */
static struct bb_link_cause next_cause(const struct bb_link_outliers *l, const struct class *c, const bool *slow,
                                       const bool *open, bool *found)
{
    struct bb_link_cause best = {.what.level = BB_LINK_PAIR};
    int most = 0, gain;

    for (int level = BB_LINK_RANK; level < BB_LINK_LEVELS; level++)
        for (int which = 0; which < l->ranks; which++) {
            const struct bb_link_cause cause = cause_of(l, c, slow, open, (enum bb_link_level)level, which, &gain);

            best = gain > most ? cause : best;
            most = gain > most ? gain : most;
        }
    *found = most > 0;
    for (size_t i = 0; i < c->n && !*found; i++) {
        *found = open[i];
        best = (struct bb_link_cause){.what = c->links[i], .slow = 1, .links = 1};
    }
    return best;
}

static bool explains(const struct bb_link_outliers *l, const struct bb_link_cause *cause,
                     const struct bb_slow_link *link)
{
    return cause->what.level == BB_LINK_PAIR ? link->from == cause->what.from && link->to == cause->what.to
                                             : belongs_to(l, link, cause->what.level, cause->what.from);
}

/* Calls fn for each cause of the slow links of a class. */
static void explain_class(const struct bb_link_outliers *l, const struct class *c, bb_cause_fn *fn, void *arg)
{
    bool *slow, *open, *own, found = false;

    BB_NEW(slow, c->n);
    BB_NEW(open, c->n);
    BB_NEW(own, c->n);
    (void)mark_slow(l, c, slow);
    for (size_t i = 0; i < c->n; i++)
        open[i] = slow[i];
    do {
        struct bb_link_cause cause = next_cause(l, c, slow, open, &found);

        for (size_t i = 0; i < c->n && found; i++) {
            own[i] = slow[i] && explains(l, &cause, &c->links[i]);
            open[i] = open[i] && !own[i];
        }
        if (found) {
            cause.what.median = median_of(c, slow, false);
            cause.what.value = median_of(c, own, true);
            fn(arg, &cause);
        }
    } while (found);
    free(slow);
    free(open);
    free(own);
}

void bb_link_outliers_causes(const struct bb_link_outliers *l, bb_cause_fn *fn, void *arg)
{
    for (int same = 1; same >= 0; same--) {
        struct class c = class_of(l, same);

        if (c.n > 0)
            explain_class(l, &c, fn, arg);
        release_class(&c);
    }
}
