/*
 * simulate.c - the abstract execution of all ranks: a work list of tasks whose predecessors have ended. Every task
 * arrives once, every message meets once, so the work is proportional to the number of operations of one rank per
 * class.
 */
#include "proxies/simulate/match.h"

#include "bootstrap/base/grow.h"
#include "proxies/simulate/op_time.h"

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
    raise_time(&r->c->tasks[at].begin_ns, when);
    if (--r->c->tasks[at].before == 0)
        r->ready[r->n_ready++] = at;
}

static void end_task(struct run *r, int at)
{
    int task;
    const struct bb_task_graph *s = graph_at(r, at, &task);
    const struct bb_task *u = &s->tasks[task];

    r->c->tasks[at].ended = true;
    r->c->n_ended++;
    if (r->c->serialised) {
        if (task + 1 < s->n_tasks)
            may_start(r, at + 1, r->c->tasks[at].end_ns);
        return;
    }
    for (int i = 0; i < u->n_next; i++)
        may_start(r, at - task + s->next[u->next + i], r->c->tasks[at].end_ns);
}

/* ---- the three kinds ---- */

static void run_compute(struct run *r, int at, const struct bb_op *op)
{
    r->c->tasks[at].end_ns = r->c->tasks[at].arrival_ns;
    if (r->m->cluster)
        r->c->tasks[at].end_ns =
            bb_op_compute_end_ns(r->m->cluster, op, r->c->tasks[at].arrival_ns, r->c->tasks[at].host_ns);
    end_task(r, at);
}

static void run_collective(struct run *r, int at, const struct bb_task *u, const struct bb_op *op)
{
    const struct bb_sim *m = r->m;
    int class_id = r->class_of[at];
    const struct bb_rendezvous *one = &m->rendezvous[m->rendezvous_of[class_id * m->step->layout.n_comms + u->comm]];
    int gathering = one->base + u->order;
    struct bb_collective call = bb_op_collective(op, one->size, one->nodes);
    int64_t lasts = m->cluster ? bb_cluster_collective_ns(m->cluster, &call, NULL) : 0;

    raise_time(&r->c->gatherings[gathering].latest_ns, r->c->tasks[at].arrival_ns);
    raise_time(&r->c->gatherings[gathering].latest_begin_ns, r->c->tasks[at].begin_ns);
    if (++r->c->gatherings[gathering].came < one->n)
        return;
    for (int i = 0; i < one->n; i++) {
        int other = m->members[one->first + i].class_id;
        int their = m->task_base[other] + bb_sim_task_graph(m, other)->collectives[u->comm][u->order];

        r->c->tasks[their].met_ns = r->c->gatherings[gathering].latest_begin_ns;
        r->c->tasks[their].end_ns = r->c->gatherings[gathering].latest_ns + lasts;
        end_task(r, their);
    }
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
            side[bb_same_node(m->cluster->gpus_per_node, rank, peer)] += (double)bb_op_payload_bytes(o, 1);
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
    return bb_cluster_message_ns(m->cluster, bb_same_node(m->cluster->gpus_per_node, rank, peer),
                                 load > their_load ? load : their_load);
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
    if (!r->c->tasks[there].arrived)
        return;
    raise_time(&r->c->tasks[at].met_ns, r->c->tasks[there].begin_ns);
    raise_time(&r->c->tasks[there].met_ns, r->c->tasks[at].begin_ns);
    end = r->c->tasks[at].arrival_ns;
    raise_time(&end, r->c->tasks[there].arrival_ns);
    end += message_ns(m, class_id, op, &mine->tasks[task], other, &theirs->tasks[there - m->task_base[other]]);
    raise_time(&r->c->tasks[at].end_ns, end);
    raise_time(&r->c->tasks[there].end_ns, end);
    r->c->tasks[at].open--;
    if (there != at && --r->c->tasks[there].open == 0)
        end_task(r, there);
}

static void run_exchange(struct run *r, int at, const struct bb_task_graph *s, const struct bb_task *u)
{
    r->c->tasks[at].end_ns = r->c->tasks[at].arrival_ns;
    for (int i = 0; i < u->n; i++)
        complete_message(r, at, s->exchanged[u->first + i]);
    if (r->c->tasks[at].open == 0)
        end_task(r, at);
}

static void start_task(struct run *r, int at)
{
    int task;
    const struct bb_task_graph *s = graph_at(r, at, &task);
    const struct bb_task *u = &s->tasks[task];

    raise_time(&r->c->tasks[at].arrival_ns, r->c->tasks[at].begin_ns);
    r->c->tasks[at].arrived = true;
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
            launches = s->issue_computes[launch] ? bb_op_launches(op) : 1;
            one = bb_cluster_issue_ns(r->m->cluster, s->issue_computes[launch]);
            host += launches * one;
        }
        r->c->tasks[at].begin_ns = r->c->tasks[at].host_ns = before;
        r->c->tasks[at].arrival_ns = launches ? before + one : before;
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
        r->c->tasks[at].open = s->tasks[u].kind == BB_TASK_EXCHANGE ? s->tasks[u].n : 0;
        r->c->tasks[at].before = r->c->serialised ? u > 0 : s->tasks[u].n_before;
        if (r->c->tasks[at].before == 0)
            r->ready[r->n_ready++] = at;
    }
}

static int make_room(struct run *r)
{
    int tasks = r->m->task_base[r->m->classes.n];
    struct bb_sim_run *c = r->c;
    int rc;

    TRY(BB_NEW(r->ready, tasks));
    TRY(BB_NEW(r->class_of, tasks));
    TRY(BB_NEW(c->tasks, tasks));
    TRY(BB_NEW(c->gatherings, r->m->n_collectives));
    TRY(BB_NEW(c->issued_ns, r->m->classes.n));
out:
    return rc;
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
    free(c->tasks);
    free(c->gatherings);
    free(c->issued_ns);
    *c = (struct bb_sim_run){0};
}
