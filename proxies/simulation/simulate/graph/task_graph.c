/* task_graph.c - divides the program of a role into tasks and groups its sends and receives by peer (see
 * task_graph.h). */
#include "proxies/simulation/simulate/graph/task_graph.h"

#include "bootstrap/base/alloc.h"
#include "proxies/form/step/alltoallv.h"

#include <stdlib.h>
#include <string.h>

static int add_task(struct bb_task_graph *s, enum bb_task_kind kind, int op, int issue)
{
    struct bb_task *u = &s->tasks[s->n_tasks];

    *u = (struct bb_task){.kind = kind, .comm = s->program->ops[op].comm, .first = op, .n = 1, .issue = issue};
    s->task_of[op] = s->n_tasks;
    return s->n_tasks++;
}

/* Adds the task of a collective or an alltoallv, and appends it to the list of its kind on its communicator.
 * lists: s->collectives or s->alltoallvs; n: lengths of these lists. */
static void add_ordered_task(struct bb_task_graph *s, enum bb_task_kind kind, int op, int issue, int **lists, int *n)
{
    int comm = s->program->ops[op].comm, task = add_task(s, kind, op, issue);

    s->tasks[task].order = n[comm];
    lists[comm][n[comm]++] = task;
}

/* Combines the sends and receives on communicator `comm` in ops[first .. end) into one task. issue: index of the
 * kernel launch or NCCL call on the host; n_exchanged: in, out: number of elements in s->exchanged. */
static void add_exchange(struct bb_task_graph *s, int comm, int first, int end, int issue, int *n_exchanged)
{
    const struct bb_op *ops = s->program->ops;
    int task = BB_NONE;

    for (int i = first; i < end; i++) {
        if (ops[i].comm != comm || (ops[i].kind != BB_OP_SEND && ops[i].kind != BB_OP_RECV))
            continue;
        if (task == BB_NONE) {
            task = add_task(s, BB_TASK_EXCHANGE, i, issue);
            s->tasks[task].first = *n_exchanged;
            s->tasks[task].n = 0;
        }
        s->task_of[i] = task;
        s->exchanged[(*n_exchanged)++] = i;
        s->tasks[task].n++;
    }
}

/* Creates the tasks of one host call, ops[first .. end): a kernel launch, an NCCL call or an NCCL group call. On
 * each communicator of a group call, the collectives run before the sends and receives. */
static void cut_launch(struct bb_task_graph *s, int first, int end, int issue, int *n_exchanged)
{
    const struct bb_op *ops = s->program->ops;

    s->issue_computes[issue] = ops[first].kind == BB_OP_COMPUTE;
    for (int i = first; i < end; i++) {
        int comm = ops[i].comm;
        bool done = s->task_of[i] != BB_NONE;

        if (ops[i].kind == BB_OP_COMPUTE)
            add_task(s, BB_TASK_COMPUTE, i, issue);
        if (ops[i].kind == BB_OP_ALLTOALLV)
            add_ordered_task(s, BB_TASK_ALLTOALLV, i, issue, s->alltoallvs, s->n_alltoallvs);
        for (int j = i; comm != BB_NONE && !done && j < end; j++)
            if (ops[j].comm == comm && ops[j].kind == BB_OP_COLLECTIVE && s->task_of[j] == BB_NONE)
                add_ordered_task(s, BB_TASK_COLLECTIVE, j, issue, s->collectives, s->n_collectives);
        if (comm != BB_NONE && !done)
            add_exchange(s, comm, first, end, issue, n_exchanged);
    }
}

static void cut_program(struct bb_task_graph *s)
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

/* ---- dependencies between tasks ---- */

/* Callback for two tasks, of which `after` depends on `before`. All pairs are enumerated twice: first to count them,
 * then to fill s->next. */
typedef void pair_fn(struct bb_task_graph *s, int before, int after);

static void count_pair(struct bb_task_graph *s, int before, int after)
{
    s->tasks[before].n_next++;
    s->tasks[after].n_before++;
}

static void fill_pair(struct bb_task_graph *s, int before, int after)
{
    struct bb_task *u = &s->tasks[before];

    s->next[u->next + u->n_next++] = after;
}

static void waits_of_op(struct bb_task_graph *s, int op, int *last_on_stream, pair_fn *pair)
{
    const struct bb_op *o = &s->program->ops[op];
    int task = s->task_of[op], *last = &last_on_stream[o->stream];

    if (*last != BB_NONE && *last != task)
        pair(s, *last, task);
    if (*last < task)
        *last = task;
    for (int w = 0; w < o->waits; w++) {
        int before = s->task_of[s->program->wait_list[o->first_wait + w]];

        if (before < task)
            pair(s, before, task);
    }
}

/* Calls `pair` for each pair of dependent tasks. Tasks are visited in the order in which the host issues them, so
 * the operations of each stream are visited in the order in which the GPU executes them. */
static void each_pair(struct bb_task_graph *s, pair_fn *pair)
{
    int last_on_stream[BB_MAX_STREAMS], last_on_comm[BB_MAX_COMMS];

    for (int i = 0; i < BB_MAX_STREAMS; i++)
        last_on_stream[i] = BB_NONE;
    for (int i = 0; i < BB_MAX_COMMS; i++)
        last_on_comm[i] = BB_NONE;
    for (int u = 0; u < s->n_tasks; u++) {
        const struct bb_task *task = &s->tasks[u];
        bool exchange = task->kind == BB_TASK_EXCHANGE;

        for (int i = 0; i < task->n; i++)
            waits_of_op(s, exchange ? s->exchanged[task->first + i] : task->first, last_on_stream, pair);
        if (task->comm == BB_NONE)
            continue;
        if (last_on_comm[task->comm] != BB_NONE)
            pair(s, last_on_comm[task->comm], u);
        last_on_comm[task->comm] = u;
    }
}

static void connect_tasks(struct bb_task_graph *s)
{
    int total = 0;

    each_pair(s, count_pair);
    for (int u = 0; u < s->n_tasks; u++) {
        s->tasks[u].next = total;
        total += s->tasks[u].n_next;
        s->tasks[u].n_next = 0;
    }
    BB_NEW(s->next, total);
    each_pair(s, fill_pair);
}

/* ---- sends and receives by peer address (struct bb_channel) ---- */

int bb_task_graph_channel(const struct bb_task_graph *s, int comm, enum bb_peer_kind kind, int peer)
{
    return bb_key_index_find(&s->channel_index, (const int[]){comm, (int)kind, peer});
}

static void span_offsets(struct bb_task_graph *s, int comm, int offset)
{
    bool none = s->min_offset[comm] > s->max_offset[comm];

    if (none || offset < s->min_offset[comm])
        s->min_offset[comm] = offset;
    if (none || offset > s->max_offset[comm])
        s->max_offset[comm] = offset;
}

static int channel_for(struct bb_task_graph *s, const struct bb_op *op)
{
    int channel = bb_key_index_add(&s->channel_index, (const int[]){op->comm, (int)op->peer_kind, op->peer});

    if (channel < s->n_channels)
        return channel;
    BB_GROW(s->channels, s->n_channels);
    s->channels[s->n_channels++] = (struct bb_channel){.comm = op->comm, .peer = op->peer, .peer_kind = op->peer_kind};
    if (op->peer_kind == BB_PEER_OFFSET)
        span_offsets(s, op->comm, op->peer);
    return channel;
}

static void add_message(struct bb_task_graph *s, int op)
{
    struct bb_channel *c = &s->channels[s->channel_of[op]];
    bool send = s->program->ops[op].kind == BB_OP_SEND;
    int **list = send ? &c->sends : &c->recvs, *n = send ? &c->n_sends : &c->n_recvs;

    BB_GROW(*list, *n);
    (*list)[(*n)++] = op;
}

/* Adds a peer address (struct bb_channel) for each peer of an alltoallv. The peers depend only on the table of
 * counts and on the communicator, not on the row size or on transposition, so each pair of table and communicator is
 * visited only once. */
static void add_table_peers(struct bb_task_graph *s, const struct bb_op *op, struct bb_key_index *tables)
{
    struct {
        const struct bb_alltoallv *table;
        int64_t comm;
    } key = {op->table, op->comm};
    const int known = tables->n, which = bb_key_index_add(tables, &key);

    if (which < known)
        return;
    for (int index = 0; index < op->table->n; index++) {
        const struct bb_op to = {.comm = op->comm, .peer = index, .peer_kind = BB_PEER_ABSOLUTE};

        if (bb_alltoallv_exchanges_with(op, index))
            channel_for(s, &to);
    }
}

static void find_table_peers(struct bb_task_graph *s)
{
    struct bb_key_index tables = {.key_bytes = sizeof(const void *) + sizeof(int64_t)};

    for (size_t i = 0; i < s->program->n_ops; i++)
        if (s->program->ops[i].kind == BB_OP_ALLTOALLV)
            add_table_peers(s, &s->program->ops[i], &tables);
    bb_key_index_release(&tables);
}

static void find_channels(struct bb_task_graph *s)
{
    for (size_t i = 0; i < s->program->n_ops; i++) {
        const struct bb_op *op = &s->program->ops[i];

        s->channel_of[i] = BB_NONE;
        if (op->comm != BB_NONE)
            s->uses[op->comm] = true;
        if (op->kind == BB_OP_COLLECTIVE && (bb_colls[op->coll].flags & BB_COLL_ROOTED) &&
            op->peer_kind == BB_PEER_OFFSET)
            s->rooted_by_offset = true;
        if (op->kind != BB_OP_SEND && op->kind != BB_OP_RECV)
            continue;
        s->channel_of[i] = channel_for(s, op);
        add_message(s, (int)i);
    }
    find_table_peers(s);
}

static void make_lists(const struct bb_program *p, enum bb_op_kind kind, int *lists[BB_MAX_COMMS])
{
    int of_comm[BB_MAX_COMMS] = {0};

    for (size_t i = 0; i < p->n_ops; i++)
        if (p->ops[i].kind == kind)
            of_comm[p->ops[i].comm]++;
    for (int c = 0; c < BB_MAX_COMMS; c++)
        if (of_comm[c])
            BB_NEW(lists[c], of_comm[c]);
}

static void make_arrays(struct bb_task_graph *s)
{
    const struct bb_program *p = s->program;

    make_lists(p, BB_OP_COLLECTIVE, s->collectives);
    make_lists(p, BB_OP_ALLTOALLV, s->alltoallvs);
    BB_NEW(s->tasks, p->n_ops);
    BB_NEW(s->task_of, p->n_ops);
    BB_NEW(s->exchanged, p->n_ops);
    BB_NEW(s->channel_of, p->n_ops);
    BB_NEW(s->issue_computes, p->n_ops);
    for (size_t i = 0; i < p->n_ops; i++)
        s->task_of[i] = BB_NONE;
}

void bb_task_graph_init(struct bb_task_graph *s, const struct bb_program *p)
{
    *s = (struct bb_task_graph){.program = p, .channel_index = {.key_bytes = 3 * sizeof(int)}};
    for (int c = 0; c < BB_MAX_COMMS; c++)
        s->min_offset[c] = 1;
    make_arrays(s);
    cut_program(s);
    connect_tasks(s);
    find_channels(s);
}

void bb_task_graph_release(struct bb_task_graph *s)
{
    for (int c = 0; c < s->n_channels; c++) {
        free(s->channels[c].sends);
        free(s->channels[c].recvs);
    }
    for (int c = 0; c < BB_MAX_COMMS; c++) {
        free(s->collectives[c]);
        free(s->alltoallvs[c]);
    }
    free(s->tasks);
    free(s->task_of);
    free(s->exchanged);
    free(s->channel_of);
    free(s->issue_computes);
    free(s->next);
    free(s->channels);
    bb_key_index_release(&s->channel_index);
    *s = (struct bb_task_graph){0};
}
