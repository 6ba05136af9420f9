/* memory_series.c - computes the memory of a rank over time (see memory_series.h). */
#include "proxies/simulation/timeline/memory_series.h"

#include "bootstrap/base/alloc.h"

#include <math.h>
#include <stdlib.h>

struct change {
    int64_t ns;
    double bytes;
};

/* Sorts by time. At the same time, memory is released before other memory is stored. */
static int by_time(const void *a, const void *b)
{
    const struct change *x = a, *y = b;

    if (x->ns != y->ns)
        return x->ns < y->ns ? -1 : 1;
    return (x->bytes > y->bytes) - (x->bytes < y->bytes);
}

/* Lists when activations are stored and released. list: out, [2 * operations]. Returns their number. */
static int list_changes(const struct bb_program *p, const struct bb_timed_op *ops, struct change *list)
{
    int n = 0;

    for (size_t i = 0; i < p->n_ops; i++) {
        if (p->ops[i].stores > 0)
            list[n++] = (struct change){ops[i].begin_ns, p->ops[i].stores};
        if (p->ops[i].releases > 0)
            list[n++] = (struct change){ops[i].end_ns, -p->ops[i].releases};
    }
    if (n > 0)
        qsort(list, (size_t)n, sizeof(*list), by_time);
    return n;
}

/* Sets the bytes of all uses to those of the role, and the name of the series. */
static void init_uses(struct bb_memory_series *m, const struct bb_role *role, double bytes[BB_USES])
{
    double training = 0;

    for (int use = 0; use < BB_USES; use++)
        training += role->training_bytes[use];
    m->name = training > 0 ? "training memory" : "buffers";
    for (int use = 0; use < BB_USES; use++)
        bytes[use] = training > 0 ? role->training_bytes[use] : (double)bb_program_bytes(&role->program, use);
}

void bb_memory_series_init(struct bb_memory_series *m, const struct bb_timeline *t, int i)
{
    const struct bb_role *role = &t->step->roles[t->step->role_of[t->ranks[i]]];
    struct bb_memory_point point = {0};
    double held = 0, most = 0, peak;
    struct change *list;
    int n;

    *m = (struct bb_memory_series){0};
    BB_NEW(list, 2 * role->program.n_ops + 1);
    n = list_changes(&role->program, t->ops[i], list);
    BB_NEW(m->points, n + 1);
    init_uses(m, role, point.bytes);
    peak = point.bytes[BB_USE_ACTIVATIONS];
    for (int k = 0; k < n; k++) {
        held += list[k].bytes;
        most = fmax(most, held);
    }
    if (most > 0)
        point.bytes[BB_USE_ACTIVATIONS] = held = 0;
    m->points[m->n++] = point;
    for (int k = 0; k < n && peak > 0; k++) {
        held += list[k].bytes;
        point.ns = list[k].ns;
        point.bytes[BB_USE_ACTIVATIONS] = fmax(0, held / most * peak);
        if (point.ns > m->points[m->n - 1].ns)
            m->n++;
        m->points[m->n - 1] = point;
    }
    free(list);
}

void bb_memory_series_release(struct bb_memory_series *m)
{
    free(m->points);
    *m = (struct bb_memory_series){0};
}
