/*
 * simulate.c - the abstract execution of a machine: a work list of units whose predecessors have ended. Every unit
 * arrives once, every message meets once, so the work is proportional to the number of operations of one rank per
 * class.
 */
#include "proxies/simulate/match.h"

#include <stdlib.h>

struct run {
    const struct bb_sim *m;
    struct bb_sim_run *c;
    int *ready, n_ready; /* units that may arrive: class in the one, unit in the other */
    int *class_of;       /* [units]                                                    */
};

static const struct bb_task_graph *shape_at(const struct run *r, int at, int *unit)
{
    int class_id = r->class_of[at];

    *unit = at - r->m->unit_base[class_id];
    return bb_sim_task_graph(r->m, class_id);
}

static void later(int64_t *time, int64_t other)
{
    if (other > *time)
        *time = other;
}

static void may_start(struct run *r, int at, int64_t when)
{
    later(&r->c->begin_ns[at], when);
    if (--r->c->before[at] == 0)
        r->ready[r->n_ready++] = at;
}

static void end_unit(struct run *r, int at)
{
    int unit;
    const struct bb_task_graph *s = shape_at(r, at, &unit);
    const struct bb_task *u = &s->units[unit];

    r->c->ended[at] = true;
    r->c->n_ended++;
    if (r->c->serialised) {
        if (unit + 1 < s->n_units)
            may_start(r, at + 1, r->c->end_ns[at]);
        return;
    }
    for (int i = 0; i < u->n_next; i++)
        may_start(r, at - unit + s->next[u->next + i], r->c->end_ns[at]);
}

/* ---- the three kinds ---- */

static void run_compute(struct run *r, int at, const struct bb_op *op)
{
    r->c->end_ns[at] = r->c->arrival_ns[at];
    if (r->m->cluster)
        r->c->end_ns[at] = bb_cluster_compute_end_ns(r->m->cluster, op, r->c->arrival_ns[at], r->c->host_ns[at]);
    end_unit(r, at);
}

static void run_collective(struct run *r, int at, const struct bb_task *u, const struct bb_op *op)
{
    const struct bb_sim *m = r->m;
    int class_id = r->class_of[at];
    const struct bb_rendezvous *meeting = &m->meetings[m->meeting_of[class_id * m->step->layout.n_comms + u->comm]];
    int gathering = meeting->base + u->order;
    int64_t lasts = m->cluster ? bb_cluster_collective_ns(m->cluster, op, meeting->size, meeting->one_node) : 0;

    later(&r->c->latest_ns[gathering], r->c->arrival_ns[at]);
    if (++r->c->came[gathering] < meeting->n)
        return;
    for (int i = 0; i < meeting->n; i++) {
        int other = m->members[meeting->first + i].class_id;
        int their = m->unit_base[other] + bb_sim_task_graph(m, other)->collectives[u->comm][u->order];

        r->c->end_ns[their] = r->c->latest_ns[gathering] + lasts;
        end_unit(r, their);
    }
}

static bool one_node(const struct bb_sim *m, int a, int b)
{
    return a / m->cluster->gpus_per_node == b / m->cluster->gpus_per_node;
}

static int peer_of(const struct bb_sim *m, int class_id, int op)
{
    const struct bb_task_graph *s = bb_sim_task_graph(m, class_id);

    return bb_channel_rank(&m->step->layout, &s->contacts[s->contact_of[op]], m->classes.rank[class_id]);
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
static void meet(struct run *r, int at, int op)
{
    const struct bb_sim *m = r->m;
    int class_id = r->class_of[at], cell = m->op_base[class_id] + op, other = m->mate_class[cell], there, unit;
    const struct bb_task_graph *mine = shape_at(r, at, &unit), *theirs;
    int64_t end;

    if (other == BB_NONE)
        return;
    theirs = bb_sim_task_graph(m, other);
    there = m->unit_base[other] + theirs->unit_of[m->mate_op[cell]];
    if (!r->c->arrived[there])
        return;
    end = r->c->arrival_ns[at];
    later(&end, r->c->arrival_ns[there]);
    end += message_ns(m, class_id, op, &mine->units[unit], other, &theirs->units[there - m->unit_base[other]]);
    later(&r->c->end_ns[at], end);
    later(&r->c->end_ns[there], end);
    r->c->open[at]--;
    if (there != at && --r->c->open[there] == 0)
        end_unit(r, there);
}

static void run_exchange(struct run *r, int at, const struct bb_task_graph *s, const struct bb_task *u)
{
    r->c->end_ns[at] = r->c->arrival_ns[at];
    for (int i = 0; i < u->n; i++)
        meet(r, at, s->exchanged[u->first + i]);
    if (r->c->open[at] == 0)
        end_unit(r, at);
}

static void arrive(struct run *r, int at)
{
    int unit;
    const struct bb_task_graph *s = shape_at(r, at, &unit);
    const struct bb_task *u = &s->units[unit];

    later(&r->c->arrival_ns[at], r->c->begin_ns[at]);
    r->c->arrived[at] = true;
    if (u->kind == BB_TASK_COMPUTE)
        run_compute(r, at, &s->program->ops[u->first]);
    else if (u->kind == BB_TASK_COLLECTIVE)
        run_collective(r, at, u, &s->program->ops[u->first]);
    else
        run_exchange(r, at, s, u);
}

/* ---- the beginning ---- */

/* Host time before (begin) and after (arrival) the launch of each unit: nothing can start on the GPU earlier. */
static void issue(struct run *r, int class_id)
{
    const struct bb_task_graph *s = bb_sim_task_graph(r->m, class_id);
    int64_t host = 0, before = 0, one = 0;
    int launch = BB_NONE, launches = 0;

    for (int u = 0; u < s->n_units; u++) {
        int at = r->m->unit_base[class_id] + u;
        const struct bb_op *op = &s->program->ops[s->units[u].first];

        if (s->units[u].issue != launch) {
            launch = s->units[u].issue;
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

static void set_out(struct run *r, int class_id)
{
    const struct bb_task_graph *s = bb_sim_task_graph(r->m, class_id);

    if (r->m->cluster)
        issue(r, class_id);
    for (int u = 0; u < s->n_units; u++) {
        int at = r->m->unit_base[class_id] + u;

        r->class_of[at] = class_id;
        r->c->open[at] = s->units[u].kind == BB_TASK_EXCHANGE ? s->units[u].n : 0;
        r->c->before[at] = r->c->serialised ? u > 0 : s->units[u].n_before;
        if (r->c->before[at] == 0)
            r->ready[r->n_ready++] = at;
    }
}

static int make_room(struct run *r)
{
    size_t units = (size_t)r->m->unit_base[r->m->classes.n] + 1, gatherings = (size_t)r->m->n_gatherings + 1;
    struct bb_sim_run *c = r->c;

    r->ready = calloc(units, sizeof(int));
    r->class_of = calloc(units, sizeof(int));
    c->before = calloc(units, sizeof(int));
    c->open = calloc(units, sizeof(int));
    c->arrived = calloc(units, sizeof(bool));
    c->ended = calloc(units, sizeof(bool));
    c->begin_ns = calloc(units, sizeof(int64_t));
    c->host_ns = calloc(units, sizeof(int64_t));
    c->arrival_ns = calloc(units, sizeof(int64_t));
    c->end_ns = calloc(units, sizeof(int64_t));
    c->came = calloc(gatherings, sizeof(int));
    c->latest_ns = calloc(gatherings, sizeof(int64_t));
    c->issued_ns = calloc((size_t)r->m->classes.n + 1, sizeof(int64_t));
    if (r->ready && r->class_of && c->before && c->open && c->arrived && c->ended && c->begin_ns && c->host_ns &&
        c->arrival_ns && c->end_ns && c->came && c->latest_ns && c->issued_ns)
        return 0;
    return bb_err(BB_EFAIL, "out of memory for the execution of %zu units", units);
}

int bb_simulate(const struct bb_sim *m, bool serialised, struct bb_sim_run *course)
{
    struct run r = {.m = m, .c = course};
    int rc;

    *course = (struct bb_sim_run){.serialised = serialised};
    TRY(make_room(&r));
    for (int c = 0; c < m->classes.n; c++)
        set_out(&r, c);
    while (r.n_ready > 0)
        arrive(&r, r.ready[--r.n_ready]);
out:
    free(r.ready);
    free(r.class_of);
    if (rc)
        bb_sim_run_release(course);
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
    free(c->came);
    free(c->latest_ns);
    free(c->issued_ns);
    *c = (struct bb_sim_run){0};
}
