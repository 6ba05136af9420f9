/* sweep.c - from what was asked for to the list of cases. */
#include "collectives/sweep.h"

size_t bb_sweep_next_size(const struct bb_sweep *s, size_t bytes)
{
    double scaled = (double)bytes * s->factor;
    size_t next;

    if (s->factor > 1)
        next = scaled > (double)s->max_bytes ? s->max_bytes + 1 : (size_t)scaled;
    else
        next = s->step_bytes > s->max_bytes - bytes ? s->max_bytes + 1 : bytes + s->step_bytes;
    if (next <= bytes)
        next = bytes + 1;
    return next > s->max_bytes ? 0 : next;
}

static int each_size(const struct bb_sweep *s, struct bb_case *c, bb_sweep_fn *fn, void *arg)
{
    size_t bytes = s->min_bytes;
    int rc = 0;

    do {
        c->count = bb_coll_count(c->kind, bytes, c->ranks, bb_dtypes[c->dtype].bytes);
        rc = fn(arg, c);
        bytes = bb_sweep_next_size(s, bytes);
    } while (rc == 0 && bytes != 0);
    return rc;
}

int bb_sweep_each(const struct bb_sweep *s, int coll, int ranks, bb_sweep_fn *fn, void *arg)
{
    bool reduces = bb_colls[coll].flags & BB_COLL_REDUCES, rooted = bb_colls[coll].flags & BB_COLL_ROOTED;
    int n_redops = reduces ? s->n_redops : 1, rc = 0;

    for (int d = 0; d < s->n_dtypes && rc == 0; d++)
        for (int o = 0; o < n_redops && rc == 0; o++) {
            struct bb_case c = {.kind = (enum bb_coll_kind)coll,
                                .dtype = s->dtypes[d],
                                .redop = reduces ? s->redops[o] : BB_COPY,
                                .root = rooted ? s->root : -1,
                                .ranks = ranks};
            rc = each_size(s, &c, fn, arg);
        }
    return rc;
}

size_t bb_sweep_slot_bytes(const struct bb_sweep *s, int ranks)
{
    size_t widest = 0;

    for (int i = 0; i < s->n_colls; i++)
        for (int d = 0; d < s->n_dtypes; d++) {
            struct bb_case c = {.kind = (enum bb_coll_kind)s->colls[i], .dtype = s->dtypes[d], .ranks = ranks};
            c.count = bb_coll_count(c.kind, s->max_bytes, ranks, bb_dtypes[c.dtype].bytes);
            size_t bytes = bb_layout_of(&c, 0).slot_bytes; /* out of place: never smaller than in place */
            widest = bytes > widest ? bytes : widest;
        }
    return widest;
}
