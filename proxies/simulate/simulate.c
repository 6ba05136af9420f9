/*
 * simulate.c - the abstract execution of all ranks: a work list of tasks whose predecessors have ended. Every task
 * arrives once, every message meets once, so the work is proportional to the number of operations of one rank per
 * class.
 */
#include "proxies/simulate/match.h"

#include <stdlib.h>

struct run {
    const struct bb_sim *m;
    struct bb_sim_run *c;
    int *ready, n_ready; /* tasks that may arrive: class in the one, task in the other */
    int *class_of;       /* [tasks]                                                    */
};

static const struct bb_task_graph *graph_at(const struct run *r, int at, int *task)
{
    int class_id = r->class_of[at];

    *task = at - r->m->task_base[class_id];
    return bb_sim_task_graph(r->m, class_id);
}

static void raise_time(int64_t *time, int64_t other)
{
    if (other > *time)
        *time = other;
}

static void may_start(struct run *r, int at, int64_t when)
{
    raise_time(&r->c->begin_ns[at], when);
    if (--r->c->before[at] == 0)
        r->ready[r->n_ready++] = at;
}

static void end_task(struct run *r, int at)
{
    int task;
    const struct bb_task_graph *s = graph_at(r, at, &task);
    const struct bb_task *u = &s->tasks[task];

    r->c->ended[at] = true;
    r->c->n_ended++;
    if (r->c->serialised) {
        if (task + 1 < s->n_tasks)
            may_start(r, at + 1, r->c->end_ns[at]);
        return;
    }
    for (int i = 0; i < u->n_next; i++)
        may_start(r, at - task + s->next[u->next + i], r->c->end_ns[at]);
}

/* ---- the three kinds ---- */

static void run_compute(struct run *r, int at, const struct bb_op *op)
{
    r->c->end_ns[at] = r->c->arrival_ns[at];
    if (r->m->cluster)
        r->c->end_ns[at] = bb_cluster_compute_end_ns(r->m->cluster, op, r->c->arrival_ns[at], r->c->host_ns[at]);
    end_task(r, at);
}

static void run_collective(struct run *r, int at, const struct bb_task *u, const struct bb_op *op)
{
    const struct bb_sim *m = r->m;
    int class_id = r->class_of[at];
    const struct bb_rendezvous *one = &m->rendezvous[m->rendezvous_of[class_id * m->step->layout.n_comms + u->comm]];
    int gathering = one->base + u->order;
    int64_t lasts = m->cluster ? bb_cluster_collective_ns(m->cluster, op, one->size, one->one_node) : 0;

    raise_time(&r->c->latest_ns[gathering], r->c->arrival_ns[at]);
    raise_time(&r->c->latest_begin_ns[gathering], r->c->begin_ns[at]);
    if (++r->c->came[gathering] < one->n)
        return;
    for (int i = 0; i < one->n; i++) {
        int other = m->members[one->first + i].class_id;
        int their = m->task_base[other] + bb_sim_task_graph(m, other)->collectives[u->comm][u->order];

        r->c->met_ns[their] = r->c->latest_begin_ns[gathering];
        r->c->end_ns[their] = r->c->latest_ns[gathering] + lasts;
        end_task(r, their);
    }
}

static bool one_node(const struct bb_sim *m, int a, int b)
{
    return a / m->cluster->gpus_per_node == b / m->cluster->gpus_per_node;
}

static int peer_of(const struct bb_sim *m, int class_id, int op)
{
    const struct bb_task_graph *s = bb_sim_task_graph(m, class_id);

    return bb_channel_rank(&m->step->layout, &s->channels[s->channel_of[op]], m->classes.rank[class_id]);
}

/* Time that the links of a rank of the class need for one of its exchanges. */
static double load_ns(const struct bb_sim *m, int class_id, const struct bb_task *u)
{
    const struct bb_task_graph *s = bb_sim_task_graph(m, class_id);
    struct bb_load load = {{0}, {0}};
    int rank = m->classes.rank[class_id];

    for (int i = 0; i < u->n; i++) {
        int op = s->exchanged[u->first + i], peer = peer_of(m, class_id, op);
        const struct bb_op *o = &s->program->ops[op];
        double *side = o->kind == BB_OP_SEND ? load.out : load.in;

        if (peer != rank)
            side[one_node(m, rank, peer)] += (double)bb_op_payload_bytes(o, 1);
    }
    return bb_cluster_load_ns(m->cluster, &load);
}

static int64_t message_ns(const struct bb_sim *m, int class_id, int op, const struct bb_task *mine, int other,
                          const struct bb_task *theirs)
{
    int rank = m->classes.rank[class_id], peer = peer_of(m, class_id, op);
    double load, their_load;

    if (!m->cluster)
        return 0;
    if (peer == rank)
        return bb_cluster_self_ns(m->cluster,
                                  (double)bb_op_payload_bytes(&bb_sim_task_graph(m, class_id)->program->ops[op], 1));
    load = load_ns(m, class_id, mine);
    their_load = load_ns(m, other, theirs);
    return bb_cluster_message_ns(m->cluster, one_node(m, rank, peer), load > their_load ? load : their_load);
}

/* A message whose other side has come already ends for both; the others wait for theirs to come. */
static void complete_message(struct run *r, int at, int op)
{
    const struct bb_sim *m = r->m;
    int class_id = r->class_of[at], cell = m->op_base[class_id] + op, other = m->peer_class[cell], there, task;
    const struct bb_task_graph *mine = graph_at(r, at, &task), *theirs;
    int64_t end;

    if (other == BB_NONE)
        return;
    theirs = bb_sim_task_graph(m, other);
    there = m->task_base[other] + theirs->task_of[m->peer_op[cell]];
    if (!r->c->arrived[there])
        return;
    raise_time(&r->c->met_ns[at], r->c->begin_ns[there]);
    raise_time(&r->c->met_ns[there], r->c->begin_ns[at]);
    end = r->c->arrival_ns[at];
    raise_time(&end, r->c->arrival_ns[there]);
    end += message_ns(m, class_id, op, &mine->tasks[task], other, &theirs->tasks[there - m->task_base[other]]);
    raise_time(&r->c->end_ns[at], end);
    raise_time(&r->c->end_ns[there], end);
    r->c->open[at]--;
    if (there != at && --r->c->open[there] == 0)
        end_task(r, there);
}

static void run_exchange(struct run *r, int at, const struct bb_task_graph *s, const struct bb_task *u)
{
    r->c->end_ns[at] = r->c->arrival_ns[at];
    for (int i = 0; i < u->n; i++)
        complete_message(r, at, s->exchanged[u->first + i]);
    if (r->c->open[at] == 0)
        end_task(r, at);
}

static void start_task(struct run *r, int at)
{
    int task;
    const struct bb_task_graph *s = graph_at(r, at, &task);
    const struct bb_task *u = &s->tasks[task];

    raise_time(&r->c->arrival_ns[at], r->c->begin_ns[at]);
    r->c->arrived[at] = true;
    if (u->kind == BB_TASK_COMPUTE)
        run_compute(r, at, &s->program->ops[u->first]);
    else if (u->kind == BB_TASK_COLLECTIVE)
        run_collective(r, at, u, &s->program->ops[u->first]);
    else
        run_exchange(r, at, s, u);
}

/* ---- the beginning ---- */

/* Host time before (begin) and after (arrival) the launch of each task: nothing can start on the GPU earlier. */
static void issue_class(struct run *r, int class_id)
{
    const struct bb_task_graph *s = bb_sim_task_graph(r->m, class_id);
    int64_t host = 0, before = 0, one = 0;
    int launch = BB_NONE, launches = 0;

    for (int u = 0; u < s->n_tasks; u++) {
        int at = r->m->task_base[class_id] + u;
        const struct bb_op *op = &s->program->ops[s->tasks[u].first];

        if (s->tasks[u].issue != launch) {
            launch = s->tasks[u].issue;
            before = host;
            launches = s->issue_computes[launch] ? bb_cluster_launches(op) : 1;
            one = bb_cluster_issue_ns(r->m->cluster, s->issue_computes[launch]);
            host += launches * one;
        }
        r->c->begin_ns[at] = r->c->host_ns[at] = before;
        r->c->arrival_ns[at] = launches ? before + one : before;
    }
    r->c->issued_ns[class_id] = host;
}

static void start_class(struct run *r, int class_id)
{
    const struct bb_task_graph *s = bb_sim_task_graph(r->m, class_id);

    if (r->m->cluster)
        issue_class(r, class_id);
    for (int u = 0; u < s->n_tasks; u++) {
        int at = r->m->task_base[class_id] + u;

        r->class_of[at] = class_id;
        r->c->open[at] = s->tasks[u].kind == BB_TASK_EXCHANGE ? s->tasks[u].n : 0;
        r->c->before[at] = r->c->serialised ? u > 0 : s->tasks[u].n_before;
        if (r->c->before[at] == 0)
            r->ready[r->n_ready++] = at;
    }
}

static int make_room(struct run *r)
{
    size_t tasks = (size_t)r->m->task_base[r->m->classes.n] + 1, collectives = (size_t)r->m->n_collectives + 1;
    struct bb_sim_run *c = r->c;

    r->ready = calloc(tasks, sizeof(int));
    r->class_of = calloc(tasks, sizeof(int));
    c->before = calloc(tasks, sizeof(int));
    c->open = calloc(tasks, sizeof(int));
    c->arrived = calloc(tasks, sizeof(bool));
    c->ended = calloc(tasks, sizeof(bool));
    c->begin_ns = calloc(tasks, sizeof(int64_t));
    c->host_ns = calloc(tasks, sizeof(int64_t));
    c->arrival_ns = calloc(tasks, sizeof(int64_t));
    c->end_ns = calloc(tasks, sizeof(int64_t));
    c->met_ns = calloc(tasks, sizeof(int64_t));
    c->came = calloc(collectives, sizeof(int));
    c->latest_ns = calloc(collectives, sizeof(int64_t));
    c->latest_begin_ns = calloc(collectives, sizeof(int64_t));
    c->issued_ns = calloc((size_t)r->m->classes.n + 1, sizeof(int64_t));
    if (r->ready && r->class_of && c->before && c->open && c->arrived && c->ended && c->begin_ns && c->host_ns &&
        c->arrival_ns && c->end_ns && c->met_ns && c->came && c->latest_ns && c->latest_begin_ns && c->issued_ns)
        return 0;
    return bb_err(BB_EFAIL, "out of memory for the execution of %zu tasks", tasks);
}

int bb_simulate(const struct bb_sim *m, bool serialised, struct bb_sim_run *run)
{
    struct run r = {.m = m, .c = run};
    int rc;

    *run = (struct bb_sim_run){.serialised = serialised};
    TRY(make_room(&r));
    for (int c = 0; c < m->classes.n; c++)
        start_class(&r, c);
    while (r.n_ready > 0)
        start_task(&r, r.ready[--r.n_ready]);
out:
    free(r.ready);
    free(r.class_of);
    if (rc)
        bb_sim_run_release(run);
    return rc;
}

void bb_sim_run_release(struct bb_sim_run *c)
{
    free(c->before);
    free(c->open);
    free(c->arrived);
    free(c->ended);
    free(c->begin_ns);
    free(c->host_ns);
    free(c->arrival_ns);
    free(c->end_ns);
    free(c->met_ns);
    free(c->came);
    free(c->latest_ns);
    free(c->latest_begin_ns);
    free(c->issued_ns);
    *c = (struct bb_sim_run){0};
}
