/* task_graph.c - cuts a program into units and sorts its messages by peer (see task_graph.h). */
#include "proxies/simulate/task_graph.h"

#include "bootstrap/base/grow.h"

#include <stdlib.h>
#include <string.h>

static void *room(size_t n, size_t element)
{
    return calloc(n + 1, element);
}

static int add_unit(struct bb_task_graph *s, enum bb_task_kind kind, int op, int issue)
{
    struct bb_task *u = &s->units[s->n_units];

    *u = (struct bb_task){.kind = kind, .comm = s->program->ops[op].comm, .first = op, .n = 1, .issue = issue};
    s->unit_of[op] = s->n_units;
    return s->n_units++;
}

static void add_collective(struct bb_task_graph *s, int op, int issue)
{
    int comm = s->program->ops[op].comm, unit = add_unit(s, BB_TASK_COLLECTIVE, op, issue);

    s->units[unit].order = s->n_collectives[comm];
    s->collectives[comm][s->n_collectives[comm]++] = unit;
}

/* The sends and receives on one communicator among ops[first..end) as one unit. */
static void add_exchange(struct bb_task_graph *s, int comm, int first, int end, int issue, int *n_exchanged)
{
    const struct bb_op *ops = s->program->ops;
    int unit = BB_NONE;

    for (int i = first; i < end; i++) {
        if (ops[i].comm != comm || (ops[i].kind != BB_OP_SEND && ops[i].kind != BB_OP_RECV))
            continue;
        if (unit == BB_NONE) {
            unit = add_unit(s, BB_TASK_EXCHANGE, i, issue);
            s->units[unit].first = *n_exchanged;
            s->units[unit].n = 0;
        }
        s->unit_of[i] = unit;
        s->exchanged[(*n_exchanged)++] = i;
        s->units[unit].n++;
    }
}

/* One launch: an operation alone or a group call. On each communicator its collectives run first, then its messages. */
static void cut_launch(struct bb_task_graph *s, int first, int end, int issue, int *n_exchanged)
{
    const struct bb_op *ops = s->program->ops;

    s->issue_computes[issue] = ops[first].kind == BB_OP_COMPUTE;
    for (int i = first; i < end; i++) {
        int comm = ops[i].comm;
        bool done = s->unit_of[i] != BB_NONE;

        if (ops[i].kind == BB_OP_COMPUTE)
            add_unit(s, BB_TASK_COMPUTE, i, issue);
        for (int j = i; comm != BB_NONE && !done && j < end; j++)
            if (ops[j].comm == comm && ops[j].kind == BB_OP_COLLECTIVE && s->unit_of[j] == BB_NONE)
                add_collective(s, j, issue);
        if (comm != BB_NONE && !done)
            add_exchange(s, comm, first, end, issue, n_exchanged);
    }
}

static void cut(struct bb_task_graph *s)
{
    const struct bb_program *p = s->program;
    int n_exchanged = 0, end;

    for (int first = 0; first < (int)p->n_ops; first = end) {
        end = first + 1;
        while (p->ops[first].call != BB_NONE && end < (int)p->n_ops && p->ops[end].call == p->ops[first].call)
            end++;
        cut_launch(s, first, end, s->n_issues++, &n_exchanged);
    }
}

/* ---- who waits for whom ---- */

/* Called for every pair (before, after): first to count, then to fill s->next. */
typedef void pair_fn(struct bb_task_graph *s, int before, int after);

static void count_pair(struct bb_task_graph *s, int before, int after)
{
    s->units[before].n_next++;
    s->units[after].n_before++;
}

static void fill_pair(struct bb_task_graph *s, int before, int after)
{
    struct bb_task *u = &s->units[before];

    s->next[u->next + u->n_next++] = after;
}

static void waits_of_op(struct bb_task_graph *s, int op, int *last_on_stream, pair_fn *pair)
{
    const struct bb_op *o = &s->program->ops[op];
    int unit = s->unit_of[op], *last = &last_on_stream[o->stream];

    if (*last != BB_NONE && *last != unit)
        pair(s, *last, unit);
    if (*last < unit)
        *last = unit;
    for (int w = 0; w < o->waits; w++) {
        int before = s->unit_of[s->program->wait_list[o->first_wait + w]];

        if (before < unit)
            pair(s, before, unit);
    }
}

/* Units in order, the operations of each in order, so that "the last on its stream" means what the GPU sees. */
static void each_pair(struct bb_task_graph *s, pair_fn *pair)
{
    int last_on_stream[BB_MAX_STREAMS], last_on_comm[BB_MAX_COMMS];

    for (int i = 0; i < BB_MAX_STREAMS; i++)
        last_on_stream[i] = BB_NONE;
    for (int i = 0; i < BB_MAX_COMMS; i++)
        last_on_comm[i] = BB_NONE;
    for (int u = 0; u < s->n_units; u++) {
        const struct bb_task *unit = &s->units[u];
        bool exchange = unit->kind == BB_TASK_EXCHANGE;

        for (int i = 0; i < unit->n; i++)
            waits_of_op(s, exchange ? s->exchanged[unit->first + i] : unit->first, last_on_stream, pair);
        if (unit->comm == BB_NONE)
            continue;
        if (last_on_comm[unit->comm] != BB_NONE)
            pair(s, last_on_comm[unit->comm], u);
        last_on_comm[unit->comm] = u;
    }
}

static int connect(struct bb_task_graph *s)
{
    int total = 0;

    each_pair(s, count_pair);
    for (int u = 0; u < s->n_units; u++) {
        s->units[u].next = total;
        total += s->units[u].n_next;
        s->units[u].n_next = 0;
    }
    s->next = room((size_t)total, sizeof(int));
    if (!s->next)
        return -BB_EFAIL;
    each_pair(s, fill_pair);
    return 0;
}

/* ---- contacts ---- */

int bb_task_graph_channel(const struct bb_task_graph *s, int comm, enum bb_peer_kind kind, int peer)
{
    return bb_key_index_find(&s->channel_index, (const int[]){comm, (int)kind, peer});
}

static void span_offsets(struct bb_task_graph *s, int comm, int offset)
{
    bool none = s->least_offset[comm] > s->most_offset[comm];

    if (none || offset < s->least_offset[comm])
        s->least_offset[comm] = offset;
    if (none || offset > s->most_offset[comm])
        s->most_offset[comm] = offset;
}

static int contact_for(struct bb_task_graph *s, const struct bb_op *op)
{
    int contact = bb_key_index_add(&s->channel_index, (const int[]){op->comm, (int)op->peer_kind, op->peer});

    if (contact < s->n_contacts)
        return contact;
    if (BB_GROW(s->contacts, s->n_contacts))
        return -BB_EFAIL;
    s->contacts[s->n_contacts++] = (struct bb_channel){.comm = op->comm, .peer = op->peer, .peer_kind = op->peer_kind};
    if (op->peer_kind == BB_PEER_OFFSET)
        span_offsets(s, op->comm, op->peer);
    return contact;
}

static void count_messages(struct bb_task_graph *s)
{
    for (size_t i = 0; i < s->program->n_ops; i++) {
        struct bb_channel *c = s->contact_of[i] == BB_NONE ? NULL : &s->contacts[s->contact_of[i]];

        if (c && s->program->ops[i].kind == BB_OP_SEND)
            c->n_sends++;
        else if (c)
            c->n_recvs++;
    }
}

static int list_messages(struct bb_task_graph *s)
{
    count_messages(s);
    for (int c = 0; c < s->n_contacts; c++) {
        struct bb_channel *contact = &s->contacts[c];

        contact->sends = room((size_t)contact->n_sends, sizeof(int));
        contact->recvs = room((size_t)contact->n_recvs, sizeof(int));
        if (!contact->sends || !contact->recvs)
            return -BB_EFAIL;
        contact->n_sends = contact->n_recvs = 0;
    }
    for (size_t i = 0; i < s->program->n_ops; i++) {
        struct bb_channel *c = s->contact_of[i] == BB_NONE ? NULL : &s->contacts[s->contact_of[i]];

        if (c && s->program->ops[i].kind == BB_OP_SEND)
            c->sends[c->n_sends++] = (int)i;
        else if (c)
            c->recvs[c->n_recvs++] = (int)i;
    }
    return 0;
}

static int find_contacts(struct bb_task_graph *s)
{
    for (size_t i = 0; i < s->program->n_ops; i++) {
        const struct bb_op *op = &s->program->ops[i];

        s->contact_of[i] = BB_NONE;
        if (op->comm != BB_NONE)
            s->uses[op->comm] = true;
        if (op->kind == BB_OP_COLLECTIVE && (bb_colls[op->coll].flags & BB_COLL_ROOTED) &&
            op->peer_kind == BB_PEER_OFFSET)
            s->rooted_by_offset = true;
        if (op->kind != BB_OP_SEND && op->kind != BB_OP_RECV)
            continue;
        s->contact_of[i] = contact_for(s, op);
        if (s->contact_of[i] < 0)
            return -BB_EFAIL;
    }
    return list_messages(s);
}

static int make_arrays(struct bb_task_graph *s)
{
    const struct bb_program *p = s->program;
    int of_comm[BB_MAX_COMMS] = {0};

    for (size_t i = 0; i < p->n_ops; i++)
        if (p->ops[i].kind == BB_OP_COLLECTIVE)
            of_comm[p->ops[i].comm]++;
    for (int c = 0; c < BB_MAX_COMMS; c++)
        if (of_comm[c] && !(s->collectives[c] = room((size_t)of_comm[c], sizeof(int))))
            return -BB_EFAIL;
    s->units = room(p->n_ops, sizeof(*s->units));
    s->unit_of = room(p->n_ops, sizeof(int));
    s->exchanged = room(p->n_ops, sizeof(int));
    s->contact_of = room(p->n_ops, sizeof(int));
    s->issue_computes = room(p->n_ops, sizeof(bool));
    if (!s->units || !s->unit_of || !s->exchanged || !s->contact_of || !s->issue_computes)
        return -BB_EFAIL;
    for (size_t i = 0; i < p->n_ops; i++)
        s->unit_of[i] = BB_NONE;
    return 0;
}

int bb_task_graph_init(struct bb_task_graph *s, const struct bb_program *p)
{
    int rc;

    *s = (struct bb_task_graph){.program = p, .channel_index = {.key_bytes = 3 * sizeof(int)}};
    for (int c = 0; c < BB_MAX_COMMS; c++)
        s->least_offset[c] = 1;
    TRY(make_arrays(s));
    cut(s);
    TRY(connect(s));
    TRY(find_contacts(s));
    return 0;
out:
    bb_task_graph_release(s);
    return bb_err(BB_EFAIL, "out of memory for the execution of a step of %zu operations", p->n_ops);
}

void bb_task_graph_release(struct bb_task_graph *s)
{
    for (int c = 0; c < s->n_contacts; c++) {
        free(s->contacts[c].sends);
        free(s->contacts[c].recvs);
    }
    for (int c = 0; c < BB_MAX_COMMS; c++)
        free(s->collectives[c]);
    free(s->units);
    free(s->unit_of);
    free(s->exchanged);
    free(s->contact_of);
    free(s->issue_computes);
    free(s->next);
    free(s->contacts);
    bb_key_index_release(&s->channel_index);
    *s = (struct bb_task_graph){0};
}
