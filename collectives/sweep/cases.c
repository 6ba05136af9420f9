/* cases.c - see cases.h. */
#include "collectives/sweep/cases.h"

#include "bootstrap/base/alloc.h"
#include "collectives/measure/stopping.h"

#include <stdlib.h>

struct bb_sweep bb_sweep_all_reduce(size_t bytes)
{
    return (struct bb_sweep){.colls = {BB_ALL_REDUCE},
                             .n_colls = 1,
                             .dtypes = {BB_FLOAT},
                             .n_dtypes = 1,
                             .redops = {BB_SUM},
                             .n_redops = 1,
                             .min_bytes = bytes,
                             .max_bytes = bytes,
                             .factor = 2,
                             .in_place = true};
}

/* Returns the size that follows `bytes` in the range from -b to -e, always a larger one; 0 after the largest size. */
static size_t next_size(const struct bb_sweep *s, size_t bytes)
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

size_t bb_sweep_largest(const struct bb_sweep *s)
{
    return s->sizes.n > 0 ? bb_sizes_max(&s->sizes) : s->max_bytes;
}

size_t bb_sweep_count_sizes(const struct bb_sweep *s, size_t limit)
{
    size_t n = (size_t)s->sizes.n;

    for (size_t bytes = s->min_bytes; s->sizes.n == 0 && n < limit && (n == 0 || bytes != 0); n++)
        bytes = next_size(s, bytes);
    return n;
}

/* Returns the sweep's *n message sizes in ascending order, or in the order of --sizes. The caller frees the list. */
static size_t *list_sizes(const struct bb_sweep *s, size_t *n)
{
    size_t *list;

    *n = bb_sweep_count_sizes(s, SIZE_MAX);
    BB_NEW(list, *n);
    for (size_t i = 0; i < *n; i++)
        list[i] = s->sizes.n > 0 ? s->sizes.bytes[i] : i == 0 ? s->min_bytes : next_size(s, list[i - 1]);
    return list;
}

/* Returns whether a size before sizes[i] has the same count. Explicit sizes, such as 0,1,3 bytes, may be rounded down to one
 * count, which is measured once. A size that is listed twice is measured twice. */
static bool is_rounded_again(const struct bb_sweep *s, const struct bb_case *c, const size_t *sizes, size_t i)
{
    const size_t element = bb_dtypes[c->dtype].bytes, count = bb_coll_count(c->kind, sizes[i], c->ranks, element);

    for (size_t k = 0; k < i && s->sizes.n > 0; k++)
        if (sizes[k] != sizes[i] && bb_coll_count(c->kind, sizes[k], c->ranks, element) == count)
            return true;
    return false;
}

static int each_size(const struct bb_sweep *s, struct bb_case *c, bb_sweep_fn *fn, void *arg)
{
    const bool from_file = bb_colls[c->kind].flags & BB_COLL_VARIABLE_COUNTS && c->alltoallv_counts->bytes;
    size_t n, *sizes = list_sizes(s, &n);
    int rc = 0;

    if (s->shuffled)
        bb_shuffle(sizes, n, s->seed);
    for (size_t i = 0; i < n && rc == 0; i++) {
        if (!from_file && is_rounded_again(s, c, sizes, i))
            continue;
        c->count = from_file ? 0 : bb_coll_count(c->kind, sizes[i], c->ranks, bb_dtypes[c->dtype].bytes);
        rc = fn(arg, c);
    }
    free(sizes);
    return rc;
}

static int each_root(const struct bb_sweep *s, struct bb_case *c, bb_sweep_fn *fn, void *arg)
{
    int rc = 0;

    if (!(bb_colls[c->kind].flags & BB_COLL_ROOTED) || s->root >= 0)
        return each_size(s, c, fn, arg);
    for (c->root = 0; c->root < c->ranks && rc == 0; c->root++)
        rc = each_size(s, c, fn, arg);
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
                                .ranks = ranks,
                                .unalign = s->unalign,
                                .alltoallv_counts = &s->alltoallv_counts};
            rc = each_root(s, &c, fn, arg);
        }
    return rc;
}

/* Returns the size in bytes of the largest slot (the buffers of one operation) over all ranks. Only with the
 * alltoallv counts of a matrix file do the slots of the ranks differ in size. */
static size_t widest_slot(const struct bb_case *c)
{
    bool differs = bb_colls[c->kind].flags & BB_COLL_VARIABLE_COUNTS && c->alltoallv_counts->bytes;
    size_t widest = 0;

    for (int r = 0; r < (differs ? c->ranks : 1); r++) {
        size_t bytes = bb_buffer_layout_of(c, r).slot_bytes;
        widest = bytes > widest ? bytes : widest;
    }
    return widest;
}

static size_t widest_of_sweep(const struct bb_sweep *s, int ranks, bool in_place)
{
    size_t widest = 0, largest = bb_sweep_largest(s);

    for (int i = 0; i < s->n_colls; i++)
        for (int d = 0; d < s->n_dtypes; d++) {
            struct bb_case c = {.kind = (enum bb_coll_kind)s->colls[i],
                                .dtype = s->dtypes[d],
                                .ranks = ranks,
                                .in_place = in_place,
                                .unalign = s->unalign,
                                .alltoallv_counts = &s->alltoallv_counts};
            c.count = bb_coll_count(c.kind, largest, ranks, bb_dtypes[c.dtype].bytes);
            size_t bytes = widest_slot(&c);
            widest = bytes > widest ? bytes : widest;
        }
    return widest;
}

size_t bb_sweep_arena_bytes(const struct bb_sweep *s, int ranks, bool tight)
{
    size_t out_of_place = widest_of_sweep(s, ranks, false), in_place = 2 * widest_of_sweep(s, ranks, true);

    if (!tight)
        return 2 * out_of_place;
    return out_of_place > in_place ? out_of_place : in_place;
}
