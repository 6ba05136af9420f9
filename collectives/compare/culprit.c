/* culprit.c - see culprit.h. */
#include "collectives/compare/culprit.h"

#include <string.h>

enum { RANKS, HOSTS };

static void count(struct bb_culprits *c, int kind, const char *name)
{
    if (!c->rows_of[kind])
        c->rows_of[kind] = json_object();
    json_object_set_new(c->rows_of[kind], name,
                        json_integer(1 + json_integer_value(json_object_get(c->rows_of[kind], name))));
}

void bb_culprits_add(struct bb_culprits *c, const struct bb_timing *a, const struct bb_timing *b)
{
    char name[256];

    if (b->ranks[0] < 0 && !b->hosts[0])
        return;
    c->rows++;
    if (b->slowdown - 1 < (b->time_us / a->time_us - 1) / 2) /* the other ranks are slower, too */
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

/* Returns the name with the most rows; NULL if two names have as many. */
static struct bb_culprit most(json_t *rows_of)
{
    struct bb_culprit best = {0};
    const char *name;
    json_t *rows;

    json_object_foreach(rows_of, name, rows)
    {
        const long long n = json_integer_value(rows);

        if (n >= best.rows)
            best = (struct bb_culprit){n > best.rows ? name : NULL, n};
    }
    return best;
}

struct bb_culprit bb_culprits_find(const struct bb_culprits *c)
{
    const struct bb_culprit rank = most(c->rows_of[RANKS]), host = most(c->rows_of[HOSTS]);
    const struct bb_culprit best = rank.name && rank.rows >= host.rows ? rank : host;

    return best.rows >= 2 && 2 * best.rows >= (long long)c->rows ? best : (struct bb_culprit){0};
}

void bb_culprits_release(struct bb_culprits *c)
{
    json_decref(c->rows_of[RANKS]);
    json_decref(c->rows_of[HOSTS]);
}
