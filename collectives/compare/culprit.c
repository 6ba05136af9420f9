/* culprit.c - see culprit.h. */
#include "collectives/compare/culprit.h"

#include "bootstrap/base/alloc.h"
#include "collectives/p2p/link_outliers.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/param.h>

enum { RANKS, HOSTS };

static void count(struct bb_culprits *c, int kind, const char *name)
{
    if (!c->rows_of[kind])
        c->rows_of[kind] = json_object();
    json_object_set_new(c->rows_of[kind], name,
                        json_integer(1 + json_integer_value(json_object_get(c->rows_of[kind], name))));
}

void bb_culprits_add(struct bb_culprits *c, const struct bb_timing *a, const struct bb_timing *b, bool slower)
{
    const bool is_link = b->ranks[0] >= 0 && b->ranks[1] >= 0;
    char name[256];

    if (is_link) {
        BB_GROW(c->links, c->n_links);
        c->links[c->n_links++] = (struct bb_culprit_link){b, slower};
    }
    if (!slower || (b->ranks[0] < 0 && !b->hosts[0]))
        return;
    c->rows++;
    if (is_link || b->slowdown - 1 < (b->time_us / a->time_us - 1) / 2) /* the other ranks are slower, too */
        return;
    for (int i = 0; i < 2; i++) {
        const char *host = b->hosts[i];

        snprintf(name, sizeof(name), "rank %lld (%.128s)", b->ranks[i], host ? host : "?");
        if (b->ranks[i] >= 0)
            count(c, RANKS, name);
        snprintf(name, sizeof(name), "node %.128s", host ? host : "?");
        if (host && (i == 0 || !b->hosts[0] || strcmp(b->hosts[0], host) != 0))
            count(c, HOSTS, name);
    }
}

/* Returns the name with the most rows; none if two names have as many. */
static struct bb_culprit most(json_t *rows_of)
{
    struct bb_culprit best = {.n = 0};
    const char *name;
    json_t *rows;

    json_object_foreach(rows_of, name, rows)
    {
        const long long n = json_integer_value(rows);

        if (n < best.rows)
            continue;
        snprintf(best.name, sizeof best.name, "%s", n > best.rows ? name : "");
        best.n = n > best.rows;
        best.rows = n;
    }
    return best;
}

/* ---- links ---- */

enum { MATRIX_RANKS = 2048, PATHS_NAMED = 3 };
/* The limit of bb_link_outliers alone decides: values within its factor are no groups of faster and slower links. */
#define SLOWER 0.85
#define LIMIT  0.9
#define FACTOR 0.8

struct search {
    const struct bb_culprits *culprits;
    struct bb_link_outliers links;
    const char **host_of; /* [ranks] */
    bool *explained;      /* [n_links] */
    struct bb_culprit found;
    int paths;
};

static void name_cause(const struct search *s, const struct bb_slow_link *what, char name[160])
{
    const char *from = s->host_of[what->from] ? s->host_of[what->from] : "?",
               *to = what->to >= 0 && s->host_of[what->to] ? s->host_of[what->to] : "?";

    if (what->level == BB_LINK_RANK)
        snprintf(name, 160, "rank %d (%.128s)", what->from, from);
    else if (what->level == BB_LINK_NODE)
        snprintf(name, 160, "node %.128s", from);
    else
        snprintf(name, 160, what->level == BB_LINK_PATH ? "path between %.64s and %.64s" : "path from %.64s to %.64s",
                 from, to);
}

/* Adds a cause, and counts the slower rows that no earlier one explains. Single pairs, which come last, are none. */
static bool add_cause(void *arg, const struct bb_link_cause *cause)
{
    struct search *s = arg;
    struct bb_culprit *found = &s->found;
    const size_t used = strlen(found->name);
    char name[160];

    if (cause->what.level == BB_LINK_CLASS || cause->what.level == BB_LINK_PAIR)
        return false;
    for (size_t i = 0; i < s->culprits->n_links; i++) {
        const struct bb_timing *row = s->culprits->links[i].row;
        const int from = (int)row->ranks[0], to = (int)row->ranks[1];

        if (!s->culprits->links[i].slower || s->explained[i] || !bb_link_cause_explains(&s->links, cause, from, to))
            continue;
        s->explained[i] = true;
        found->rows++;
    }
    s->paths += cause->what.level == BB_LINK_PATH || cause->what.level == BB_LINK_WAY;
    name_cause(s, &cause->what, name);
    if (found->n++ < BB_CULPRIT_NAMES)
        snprintf(found->name + used, sizeof found->name - used, "%s%s", used ? ", " : "", name);
    return true;
}

/* Makes the matrix: 1, or SLOWER for a pair with a slower row. Ranks without known host are on one node. */
static void fill_matrix(struct search *s, double *value, int *node_of)
{
    const int n = s->links.ranks;

    for (int i = 0; i < n * n; i++)
        value[i] = NAN;
    for (size_t i = 0; i < s->culprits->n_links; i++) {
        const struct bb_culprit_link *link = &s->culprits->links[i];
        double *at = &value[link->row->ranks[0] * n + link->row->ranks[1]];

        *at = link->slower ? SLOWER : fmin(1, *at);
        for (int end = 0; end < 2; end++)
            s->host_of[link->row->ranks[end]] = link->row->hosts[end];
    }
    for (int rank = 0; rank < n; rank++)
        for (int other = rank; other >= 0; other--)
            if (strcmp(s->host_of[rank] ? s->host_of[rank] : "", s->host_of[other] ? s->host_of[other] : "") == 0)
                node_of[rank] = other;
}

static const struct bb_culprit no_culprit = {.n = 0};

/* Returns the causes of the slower links. Many slow paths have another one, which is none of their ends. */
static struct bb_culprit causes_of_links(const struct bb_culprits *c)
{
    struct search s = {.culprits = c, .links = {.higher_is_better = true, .factor = FACTOR, .least = LIMIT}};
    double *value;
    int *node_of;

    for (size_t i = 0; i < c->n_links; i++)
        s.links.ranks =
            MAX(s.links.ranks, 1 + (int)MIN(MATRIX_RANKS, MAX(c->links[i].row->ranks[0], c->links[i].row->ranks[1])));
    if (c->n_links == 0 || s.links.ranks > MATRIX_RANKS)
        return s.found;
    BB_NEW(value, s.links.ranks * s.links.ranks);
    BB_NEW(node_of, s.links.ranks);
    BB_NEW(s.host_of, s.links.ranks);
    BB_NEW(s.explained, c->n_links);
    fill_matrix(&s, value, node_of);
    s.links.value = value;
    s.links.node_of = node_of;
    bb_link_outliers_causes(&s.links, add_cause, &s);
    if (s.found.n > BB_CULPRIT_NAMES)
        snprintf(s.found.name + strlen(s.found.name), 32, " and %d more", s.found.n - BB_CULPRIT_NAMES);
    free(value);
    free(node_of);
    free(s.host_of);
    free(s.explained);
    return s.paths > PATHS_NAMED ? no_culprit : s.found;
}

struct bb_culprit bb_culprits_find(const struct bb_culprits *c)
{
    const struct bb_culprit rank = most(c->rows_of[RANKS]), host = most(c->rows_of[HOSTS]),
                            links = c->rows > 0 ? causes_of_links(c) : no_culprit;
    const struct bb_culprit best = links.n > 0 ? links : rank.n > 0 && rank.rows >= host.rows ? rank : host;

    return best.n > 0 && best.rows >= 2 && 2 * best.rows >= (long long)c->rows ? best : no_culprit;
}

void bb_culprits_release(struct bb_culprits *c)
{
    json_decref(c->rows_of[RANKS]);
    json_decref(c->rows_of[HOSTS]);
    free(c->links);
}
