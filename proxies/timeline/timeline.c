/* timeline.c - selects the ranks to show in a trace and allocates the arrays of their times (see timeline.h).
 * trace_write.c writes the trace. */
#include "proxies/timeline/timeline.h"

#include "bootstrap/base/alloc.h"
#include "proxies/timeline/op_names.h"

#include <stdlib.h>
#include <string.h>

/* ---- selection of the ranks to show ---- */

struct choice {
    const struct bb_step *step;
    bool *shown; /* [ranks] true: the rank is selected */
    int n;       /* number of selected ranks */
    size_t ops;  /* total number of operations in the programs of the selected ranks */
};

/* Selects a rank unless the selected ranks or their operations would then exceed BB_TRACE_RANKS or BB_TRACE_OPS. The
 * rank of the first call is always selected. */
static void show_rank(struct choice *c, int rank)
{
    size_t ops = bb_step_program(c->step, rank)->n_ops;

    if (c->shown[rank] || (c->n > 0 && (c->n >= BB_TRACE_RANKS || c->ops + ops > BB_TRACE_OPS)))
        return;
    c->shown[rank] = true;
    c->n++;
    c->ops += ops;
}

static void choose_ranks(struct choice *c, const int *wanted, int n_wanted)
{
    const int ranks = c->step->layout.ranks;
    int first, last;

    for (int i = 0; i < n_wanted; i++)
        if (wanted[i] != BB_NONE)
            show_rank(c, wanted[i]);
    for (int role = 0; role < c->step->n_roles && c->n < BB_TRACE_RANKS; role++) {
        for (first = 0; first < ranks && c->step->role_of[first] != role; first++)
            continue;
        if (first == ranks)
            continue;
        for (last = ranks - 1; c->step->role_of[last] != role; last--)
            continue;
        show_rank(c, first);
        show_rank(c, last);
    }
    for (int rank = 0; rank < ranks && c->n < BB_TRACE_RANKS; rank++)
        show_rank(c, rank);
}

static void allocate_ranks(struct bb_timeline *t, const struct choice *c)
{
    const struct bb_step *step = c->step;

    BB_NEW(t->ranks, c->n);
    BB_NEW(t->ops, c->n);
    BB_NEW(t->step_ns, c->n);
    BB_NEW(t->location, c->n);
    for (int rank = 0; rank < step->layout.ranks; rank++) {
        if (!c->shown[rank])
            continue;
        t->ranks[t->n] = rank;
        BB_NEW(t->ops[t->n++], bb_step_program(step, rank)->n_ops);
    }
}

void bb_timeline_init(struct bb_timeline *t, const struct bb_step *step, const int *wanted, int n_wanted)
{
    struct choice c = {.step = step};

    *t = (struct bb_timeline){.step = step, .source = "", .clock = ""};
    BB_NEW(c.shown, step->layout.ranks);
    choose_ranks(&c, wanted, n_wanted);
    allocate_ranks(t, &c);
    free(c.shown);
}

void bb_timeline_init_ranks(struct bb_timeline *t, const struct bb_step *step, const bool *shown)
{
    struct choice c = {.step = step, .shown = (bool *)shown};

    *t = (struct bb_timeline){.step = step, .source = "", .clock = ""};
    for (int rank = 0; rank < step->layout.ranks; rank++)
        c.n += shown[rank];
    allocate_ranks(t, &c);
}

void bb_timeline_release(struct bb_timeline *t)
{
    for (int i = 0; t->ops && i < t->n; i++)
        free(t->ops[i]);
    free(t->ops);
    free(t->ranks);
    free(t->step_ns);
    free(t->location);
    *t = (struct bb_timeline){0};
}

/* ---- for modules that write a timeline to a file ---- */

const char *bb_timeline_rank_name(const struct bb_timeline *t, int i, char text[BB_TIMELINE_NAME])
{
    const int rank = t->ranks[i];
    const char *role = t->step->roles[t->step->role_of[rank]].name, *location = t->location[i];

    snprintf(text, BB_TIMELINE_NAME, "rank %d (%s%s%.64s)", rank, location, *location ? ", " : "", role ? role : "");
    return text;
}

int bb_timeline_span(const struct bb_timeline *t, int i, int first, int end, struct bb_timed_op *span)
{
    const struct bb_op *ops = bb_step_program(t->step, t->ranks[i])->ops;
    const struct bb_timed_op *at = t->ops[i];
    int n = 0;

    *span = (struct bb_timed_op){0};
    for (int k = first; k < end; k++) {
        if (ops[k].stream != ops[first].stream)
            continue;
        span->begin_ns = n == 0 || at[k].begin_ns < span->begin_ns ? at[k].begin_ns : span->begin_ns;
        span->end_ns = n == 0 || at[k].end_ns > span->end_ns ? at[k].end_ns : span->end_ns;
        span->wait_ns = at[k].wait_ns > span->wait_ns ? at[k].wait_ns : span->wait_ns;
        n++;
    }
    return n;
}

static bool is_first_of_stream(const struct bb_op *ops, int first, int k)
{
    for (int i = first; i < k; i++)
        if (ops[i].stream == ops[k].stream)
            return false;
    return true;
}

void bb_timeline_each_call(const struct bb_timeline *t, int i, bb_timeline_visit *visit, void *arg)
{
    const struct bb_program *p = bb_step_program(t->step, t->ranks[i]);
    int end;

    for (int first = 0; first < (int)p->n_ops; first = end) {
        for (end = first + 1; end < (int)p->n_ops && p->ops[first].call != BB_NONE; end++)
            if (p->ops[end].call != p->ops[first].call)
                break;
        for (int k = first; k < end; k++)
            if (bb_op_launches(&p->ops[k]) && is_first_of_stream(p->ops, first, k))
                visit(arg, i, k, end);
    }
}
