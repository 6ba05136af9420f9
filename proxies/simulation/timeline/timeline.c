/* timeline.c - selects the ranks to show in a trace and allocates the arrays of their times (see timeline.h).
 * trace_write.c writes the trace. */
#include "proxies/simulation/timeline/timeline.h"

#include "bootstrap/base/alloc.h"
#include "proxies/simulation/timeline/critical_path.h"

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

void bb_timeline_init(struct bb_timeline *t, const struct bb_step *step, const int *wanted, int n_wanted)
{
    const int ranks = step->layout.ranks;
    struct choice c = {.step = step};
    int first, last;

    BB_NEW(c.shown, ranks);
    for (int i = 0; i < n_wanted; i++)
        if (wanted[i] != BB_NONE)
            show_rank(&c, wanted[i]);
    for (int role = 0; role < step->n_roles && c.n < BB_TRACE_RANKS; role++) {
        for (first = 0; first < ranks && step->role_of[first] != role; first++)
            continue;
        if (first == ranks)
            continue;
        for (last = ranks - 1; step->role_of[last] != role; last--)
            continue;
        show_rank(&c, first);
        show_rank(&c, last);
    }
    for (int rank = 0; rank < ranks && c.n < BB_TRACE_RANKS; rank++)
        show_rank(&c, rank);
    bb_timeline_init_ranks(t, step, c.shown);
    free(c.shown);
}

void bb_timeline_init_ranks(struct bb_timeline *t, const struct bb_step *step, const bool *shown)
{
    *t = (struct bb_timeline){.step = step, .source = "", .clock = ""};
    BB_NEW(t->ranks, step->layout.ranks);
    for (int rank = 0; rank < step->layout.ranks; rank++)
        if (shown[rank])
            t->ranks[t->n++] = rank;
    BB_NEW(t->ops, t->n);
    BB_NEW(t->step_ns, t->n);
    BB_NEW(t->location, t->n);
    for (int i = 0; i < t->n; i++)
        BB_NEW(t->ops[i], bb_step_program(step, t->ranks[i])->n_ops);
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

/* Computes the members of *call from those operations in [call->first, call->end) that run on the same stream as
 * `first`. */
static void describe_call(const struct bb_timeline *t, struct bb_timeline_call *call)
{
    const struct bb_layout *l = &t->step->layout;
    const struct bb_op *ops = bb_step_program(t->step, t->ranks[call->shown])->ops, *op = &ops[call->first];
    struct bb_group_traffic traffic = {0};

    call->op = op;
    call->at = t->ops[call->shown][call->first];
    for (int k = call->first; k < call->end; k++) {
        const struct bb_timed_op *at = &t->ops[call->shown][k];

        if (ops[k].stream != op->stream)
            continue;
        call->n++;
        call->at.begin_ns = at->begin_ns < call->at.begin_ns ? at->begin_ns : call->at.begin_ns;
        call->at.end_ns = at->end_ns > call->at.end_ns ? at->end_ns : call->at.end_ns;
        call->at.wait_ns = at->wait_ns > call->at.wait_ns ? at->wait_ns : call->at.wait_ns;
        call->critical |= bb_critical_path_has(t->critical, t->ranks[call->shown], k);
        if (bb_op_is_comm(&ops[k]))
            bb_group_traffic_add(&traffic, l, &ops[k]);
    }
    call->bytes = (uint64_t)bb_group_traffic_bytes(&traffic);
    call->bus_bytes = bb_group_traffic_bus_bytes(&traffic);
    if (call->n == 1)
        bb_op_name(l, op, call->name);
    else
        bb_call_name(l, op, call->end - call->first, call->name);
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
            if (bb_op_launches(&p->ops[k]) && is_first_of_stream(p->ops, first, k)) {
                struct bb_timeline_call call = {.shown = i, .first = k, .end = end};

                describe_call(t, &call);
                visit(arg, &call);
            }
    }
}
