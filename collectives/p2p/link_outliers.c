/* link_outliers.c - see link_outliers.h. */
#include "collectives/p2p/link_outliers.h"

#include "bootstrap/base/alloc.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/param.h>

const char *const bb_link_level_names[BB_LINK_LEVELS] = {
    [BB_LINK_PAIR] = "pair", [BB_LINK_RANK] = "rank",        [BB_LINK_NODE] = "node",
    [BB_LINK_PATH] = "path", [BB_LINK_WAY] = "one_way_path", [BB_LINK_CLASS] = "class"};

/* A class of links: all intra-node links or all inter-node links, in the order of the matrix. */
struct class
{
    struct bb_slow_link *links; /* [n] value: of the link; median: of the class, or of its ordinary group */
    double *values;             /* [n] values of the links, in ascending order */
    size_t n, fast;             /* fast: number of links in the faster group of a bimodal class; otherwise 0 */
    size_t minority;            /* number of links of a faster minority, which precede the ordinary ones */
    struct bb_stats sum;
};

/* Returns the speed of a link relative to a faster link (1 or less). */
static double relative(const struct bb_link_outliers *l, double slower, double faster)
{
    return l->higher_is_better ? slower / faster : faster / slower;
}

/* Returns the i-th fastest value of a class. */
static double fastest(const struct bb_link_outliers *l, const struct class *c, size_t i)
{
    return c->values[l->higher_is_better ? c->n - 1 - i : i];
}

/* Returns whether links at least as fast as `limit` are ordinary: at least half of the links between ranks that have such
 * a link. Slow ranks have none; a minority of faster links (NVLink bridges between PCIe GPUs) belongs to healthy ranks. */
static bool are_ordinary(const struct bb_link_outliers *l, const struct class *c, double limit)
{
    size_t fast = 0, all = 0;
    bool *has_fast;

    BB_NEW(has_fast, (size_t)l->ranks);
    for (size_t i = 0; i < c->n; i++)
        if (relative(l, c->links[i].value, limit) >= 1)
            has_fast[c->links[i].from] = has_fast[c->links[i].to] = true;
    for (size_t i = 0; i < c->n; i++)
        if (has_fast[c->links[i].from] && has_fast[c->links[i].to]) {
            all++;
            fast += relative(l, c->links[i].value, limit) >= 1;
        }
    free(has_fast);
    return 2 * fast >= all;
}

/* Finds the groups of a bimodal class (link_outliers.h): sets c->fast and c->minority. */
static void find_groups(const struct bb_link_outliers *l, struct class *c)
{
    const size_t least_slow = (c->n + 3) / 4;

    for (size_t i = 1; i + least_slow <= c->n; i++) {
        const double gap = relative(l, fastest(l, c, i), fastest(l, c, i - 1));

        if (gap >= l->factor || gap >= relative(l, fastest(l, c, i - 1), fastest(l, c, c->minority)))
            continue;
        c->fast = i;
        if (are_ordinary(l, c, fastest(l, c, i - 1)))
            return;
        c->minority = i;
    }
}

/* Computes statistics of the links [first, last) of a class, from the fastest. */
static void group_stats(const struct bb_link_outliers *l, const struct class *c, size_t first, size_t last,
                        struct bb_stats *stats)
{
    bb_stats_compute(c->values + (l->higher_is_better ? c->n - last : first), last - first, stats);
}

static struct class class_of(const struct bb_link_outliers *l, bool same_node)
{
    const int *domain_of = l->domain_of ? l->domain_of : l->node_of;
    const size_t ranks = (size_t)l->ranks;
    struct class c = {.n = 0};
    struct bb_stats typical;

    BB_NEW(c.links, ranks * ranks);
    BB_NEW(c.values, ranks * ranks);
    for (int from = 0; from < l->ranks; from++)
        for (int to = l->symmetric ? from + 1 : 0; to < l->ranks; to++) {
            double value = l->value[(size_t)from * ranks + (size_t)to];
            if (from == to || isnan(value) || (domain_of[from] == domain_of[to]) != same_node)
                continue;
            c.values[c.n] = value;
            c.links[c.n++] = (struct bb_slow_link){BB_LINK_PAIR, from, to, same_node, value, NAN};
        }
    bb_sort_doubles(c.values, c.n);
    bb_stats_compute(c.values, c.n, &c.sum);
    find_groups(l, &c);
    group_stats(l, &c, c.minority, c.fast > c.minority ? c.fast : c.n, &typical);
    for (size_t i = 0; i < c.n; i++)
        c.links[i].median = typical.p50;
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
    return relative(l, link->value, link->median);
}

static bool is_slow(const struct bb_link_outliers *l, const struct bb_slow_link *link)
{
    return rate(l, link) < l->factor || link->value < l->least;
}

/* ---- slow pairs, ranks and nodes ---- */

static bool belongs_to(const struct bb_link_outliers *l, const struct bb_slow_link *link, enum bb_link_level level,
                       int which)
{
    return level == BB_LINK_RANK ? link->from == which || link->to == which
                                 : l->node_of[link->from] == which || l->node_of[link->to] == which;
}

/* Returns rank or node number `which` as a slow link if it has at least two links of the class (four values if each
 * direction has its own value), because a single slow link is already reported as a pair, and all of them are slow. The
 * value is their median; otherwise it is NaN. */
static struct bb_slow_link group_of(const struct bb_link_outliers *l, const struct class *c, enum bb_link_level level,
                                    int which)
{
    struct bb_slow_link group = c->links[0];
    struct bb_stats stats;
    bool all_slow = true;
    size_t n = 0;

    for (size_t i = 0; i < c->n; i++)
        if (belongs_to(l, &c->links[i], level, which)) {
            all_slow = all_slow && is_slow(l, &c->links[i]);
            c->values[n++] = c->links[i].value;
        }
    bb_stats_compute(c->values, n, &stats);
    group.level = level;
    group.from = which;
    group.to = -1;
    group.value = all_slow && n >= (l->symmetric ? 2 : 4) ? stats.p50 : NAN;
    return group;
}

void bb_link_outliers_slow(const struct bb_link_outliers *l, bb_slow_fn *fn, void *arg)
{
    struct class classes[2] = {class_of(l, true), class_of(l, false)};

    for (int level = 0; level <= BB_LINK_NODE; level++)
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

/* ---- measuring slow pairs again ---- */

struct suspect {
    struct bb_slow_link link;
    double rate;
};
struct suspects {
    const struct bb_link_outliers *of;
    bool loaded[2]; /* of links between nodes, and of those inside: other pairs of a round slow them down */
    bool *known;    /* [ranks][ranks] pairs that were listed before */
    struct suspect *list;
    int n;
};

/* Lists the slow links of a class and, if it is loaded, all links that are slow relative to its fastest one, which no
 * other pair slowed down. */
static void list_suspects(struct suspects *s, bool same_node)
{
    const struct bb_link_outliers *l = s->of;
    struct class c = class_of(l, same_node);

    for (size_t i = 0; i < c.n; i++) {
        const struct bb_slow_link *link = &c.links[i];
        bool *known = &s->known[link->from * l->ranks + link->to];

        if (*known ||
            !(is_slow(l, link) || (s->loaded[same_node] && relative(l, link->value, fastest(l, &c, 0)) < l->factor)))
            continue;
        BB_GROW(s->list, s->n);
        s->list[s->n++] = (struct suspect){*link, rate(l, link)};
        *known = true;
    }
    release_class(&c);
}

static int compare_rates(const void *a, const void *b)
{
    const double x = ((const struct suspect *)a)->rate, y = ((const struct suspect *)b)->rate;

    return (x > y) - (x < y);
}

/* Links of a class that are measured alone to find out whether the class is loaded. */
enum { PROBES = 8 };

/* Measures some links of a class alone, at equal distances in the order of their values. The class is loaded if one of
 * them was slow only while other pairs ran: then most values of the class, and their median, may be too low. */
static int probe_load(struct suspects *s, bool same_node, bb_confirm_fn *fn, void *arg)
{
    const struct bb_link_outliers *l = s->of;
    struct class c = class_of(l, same_node);
    const size_t probes = MIN(c.n, PROBES);
    struct suspect *all;
    int rc = 0;

    BB_NEW(all, c.n + 1);
    for (size_t i = 0; i < c.n; i++)
        all[i] = (struct suspect){c.links[i], rate(l, &c.links[i])};
    qsort(all, c.n, sizeof *all, compare_rates);
    for (size_t i = 0; i < probes && rc == 0; i++) {
        const struct bb_slow_link *link = &all[(2 * i + 1) * c.n / (2 * probes)].link;

        rc = fn(arg, link->from, link->to, true);
        s->loaded[same_node] |= relative(l, link->value, l->value[link->from * l->ranks + link->to]) < l->factor;
    }
    free(all);
    release_class(&c);
    return rc;
}

int bb_link_outliers_confirm(const struct bb_link_outliers *l, int per_rank, bb_confirm_fn *fn, void *arg,
                             int *suspected, int *alone)
{
    struct suspects s = {.of = l};
    int *measured, rc = 0;

    *suspected = *alone = 0;
    BB_NEW(measured, l->ranks);
    BB_NEW(s.known, (size_t)l->ranks * (size_t)l->ranks);
    for (int same = 0; same < 2 && rc == 0; same++)
        rc = probe_load(&s, same, fn, arg);
    do {
        s.n = 0;
        for (int same = 0; same < 2 && rc == 0; same++)
            list_suspects(&s, same);
        if (s.n > 0)
            qsort(s.list, (size_t)s.n, sizeof *s.list, compare_rates);
        for (int i = 0; i < s.n && rc == 0; i++) {
            const struct bb_slow_link *link = &s.list[i].link;
            const bool few = measured[link->from] < per_rank || measured[link->to] < per_rank;

            measured[link->from] += few;
            measured[link->to] += few;
            *alone += few;
            rc = fn(arg, link->from, link->to, few);
        }
        *suspected += s.n;
    } while (s.n > 0 && rc == 0);
    free(measured);
    free(s.known);
    free(s.list);
    return rc;
}

/* ---- detecting bimodal classes ---- */

void bb_link_outliers_modes(const struct bb_link_outliers *l, bool same_node, struct bb_link_modes *modes)
{
    struct class c = class_of(l, same_node);

    *modes = (struct bb_link_modes){.ordinary = c.fast > c.minority};
    for (int i = 0; i < 2 && c.fast > 0; i++)
        group_stats(l, &c, i == 1 ? 0 : c.fast, i == 1 ? c.fast : c.n, &modes->group[i]);
    release_class(&c);
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

void bb_link_outliers_count(const struct bb_link_outliers *l, int slow[2], int all[2])
{
    for (int same = 0; same < 2; same++) {
        struct class c = class_of(l, same);

        slow[same] = 0;
        for (size_t i = 0; i < c.n; i++)
            slow[same] += is_slow(l, &c.links[i]);
        all[same] = (int)c.n;
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
        if (!belongs_to(l, &c->links[i], level, which) ||
            (c->minority > 0 && rate(l, &c->links[i]) * l->factor > 1)) /* of the faster minority */
            continue;
        cause.links++;
        cause.slow += slow[i];
        *gain += open[i];
    }
    if (cause.slow < (l->symmetric ? 2 : 4) || 2 * cause.slow < cause.links)
        *gain = 0;
    for (int r = 0, of_rank = 1; level == BB_LINK_NODE && *gain > 0 && r < l->ranks; r++)
        if (l->node_of[r] == which) {
            (void)cause_of(l, c, slow, slow, BB_LINK_RANK, r, &of_rank);
            *gain = of_rank > 0 ? *gain : 0;
        }
    return cause;
}

/* Links from one node to another; of a symmetric matrix, from the lower one. */
struct way {
    int links, slow, open;
};

/* Returns the path, or the way from one node to another, that explains the most open links: more than *most, otherwise
 * `best`. Its links, at least two, are all slow. most: in, out */
static struct bb_link_cause best_path(const struct bb_link_outliers *l, const struct class *c, const bool *slow,
                                      const bool *open, struct bb_link_cause best, double *most)
{
    struct way *ways;

    BB_NEW(ways, (size_t)l->ranks * (size_t)l->ranks);
    for (size_t i = 0; i < c->n; i++) {
        const int from = l->node_of[c->links[i].from], to = l->node_of[c->links[i].to];
        struct way *way = &ways[l->symmetric ? MIN(from, to) * l->ranks + MAX(from, to) : from * l->ranks + to];

        way->links++;
        way->slow += slow[i];
        way->open += open[i];
    }
    for (int a = 0; a < l->ranks; a++)
        for (int b = 0; b < l->ranks; b++) {
            const struct way forth = ways[a * l->ranks + b], back = ways[b * l->ranks + a];
            const bool both = a < b && forth.slow + back.slow == forth.links + back.links;
            const struct way all =
                both ? (struct way){forth.links + back.links, forth.slow + back.slow, forth.open + back.open} : forth;

            if (a == b || all.slow < MAX(2, all.links) || all.open <= *most)
                continue;
            *most = all.open;
            best = (struct bb_link_cause){.what = {both ? BB_LINK_PATH : BB_LINK_WAY, a, b, false, NAN, NAN},
                                          .slow = all.slow,
                                          .links = all.links};
        }
    free(ways);
    return best;
}

/* Returns the whole class if all of its links are slow, the node, rank or path that explains the most open links, or the first
 * open pair. Open links count less if other links of the node or rank are not slow: two slow ranks explain their links
 * better than the other node, half of whose links lead to them. *found: whether there is one. */
static struct bb_link_cause next_cause(const struct bb_link_outliers *l, const struct class *c, const bool *slow,
                                       const bool *open, bool *found)
{
    struct bb_link_cause best = {.what = {BB_LINK_CLASS, -1, -1, c->links[0].same_node, NAN, NAN}};
    double most = 0, score;
    int gain;

    for (size_t i = 0; i < c->n; i++)
        best.slow += open[i];
    best.links = (int)c->n;
    *found = best.slow == best.links && best.links > 1;
    if (*found)
        return best;
    for (int level = BB_LINK_RANK; level <= BB_LINK_NODE; level++)
        for (int which = 0; which < l->ranks; which++) {
            const struct bb_link_cause cause = cause_of(l, c, slow, open, (enum bb_link_level)level, which, &gain);

            score = gain > 0 ? gain * pow((double)cause.slow / cause.links, 2) : 0;
            best = score > most ? cause : best;
            most = score > most ? score : most;
        }
    if (!c->links[0].same_node)
        best = best_path(l, c, slow, open, best, &most);
    *found = most > 0;
    for (size_t i = 0; i < c->n && !*found; i++) {
        *found = open[i];
        best = (struct bb_link_cause){.what = c->links[i], .slow = 1, .links = 1};
    }
    return best;
}

bool bb_link_cause_explains(const struct bb_link_outliers *l, const struct bb_link_cause *cause, int from, int to)
{
    const int node = l->node_of[from], other = l->node_of[to], *domain_of = l->domain_of ? l->domain_of : l->node_of;
    const struct bb_slow_link *what = &cause->what, link = {.from = from, .to = to};
    const bool is_both = what->level == BB_LINK_PATH;

    if ((domain_of[from] == domain_of[to]) != what->same_node)
        return false;
    return what->level == BB_LINK_CLASS ? true
           : is_both || what->level == BB_LINK_WAY
               ? (node == what->from && other == what->to) || (is_both && node == what->to && other == what->from)
           : what->level == BB_LINK_PAIR ? from == what->from && to == what->to
                                         : belongs_to(l, &link, what->level, what->from);
}

/* The search for the causes of slow links of a class. Members: [c->n] */
struct search {
    const struct bb_link_outliers *l;
    struct class *c;
    bool *ordinary;    /* links that are not slow */
    bool *slow, *open; /* slow links of this round; those that no cause of this round explains */
    bool *own;         /* links that the last cause explains, and no earlier one */
    double *left;      /* what the causes leave to a link: the worst of their values; NaN: none explains it */
};

/* Calls fn for the causes of the slow links of this round. Returns false if fn did. */
static bool explain_round(struct search *s, bb_cause_fn *fn, void *arg)
{
    const struct class *c = s->c;
    bool found = false, all = true;

    memcpy(s->open, s->slow, c->n * sizeof *s->open);
    do {
        struct bb_link_cause cause = next_cause(s->l, c, s->slow, s->open, &found);

        for (size_t i = 0; i < c->n && found; i++) {
            s->own[i] = s->open[i] && bb_link_cause_explains(s->l, &cause, c->links[i].from, c->links[i].to);
            s->open[i] = s->open[i] && !s->own[i];
            cause.explained += s->own[i];
        }
        if (!found)
            break;
        cause.what.median = median_of(c, s->ordinary, true);
        cause.what.value = median_of(c, s->own, true);
        for (size_t i = 0; i < c->n; i++)
            if (s->slow[i] && bb_link_cause_explains(s->l, &cause, c->links[i].from, c->links[i].to) &&
                !(relative(s->l, s->left[i], cause.what.value) < 1))
                s->left[i] = cause.what.value;
        all = fn(arg, &cause);
    } while (all);
    return all;
}

/* Calls fn for each cause of the slow links of a class. Links that are slow also relative to what their causes leave to them, such
 * as those of a slow path of a slow node, have further causes. */
static void explain_class(const struct bb_link_outliers *l, struct class *c, bb_cause_fn *fn, void *arg)
{
    struct search s = {.l = l, .c = c};
    bool any;

    BB_NEW(s.ordinary, c->n);
    BB_NEW(s.slow, c->n);
    BB_NEW(s.open, c->n);
    BB_NEW(s.own, c->n);
    BB_NEW(s.left, c->n);
    for (size_t i = 0; i < c->n; i++) {
        s.slow[i] = is_slow(l, &c->links[i]);
        s.ordinary[i] = !s.slow[i];
        s.left[i] = NAN;
    }
    do {
        any = false;
        if (!explain_round(&s, fn, arg))
            break;
        for (size_t i = 0; i < c->n; i++) {
            s.slow[i] = s.slow[i] && relative(l, c->links[i].value, s.left[i]) < l->factor;
            any |= s.slow[i];
        }
    } while (any);
    free(s.ordinary);
    free(s.slow);
    free(s.open);
    free(s.own);
    free(s.left);
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
