/*
 * simulate.c - abstract execution of all ranks with a work list of tasks whose dependencies have ended. Each task
 * starts once and each message is matched once, so the run time is proportional to the number of operations of one rank
 * per class of equivalent ranks.
 */
#include "proxies/simulate/engine/execution.h"

#include "bootstrap/base/alloc.h"
#include "proxies/simulate/engine/contention_sim.h"
#include "proxies/simulate/engine/op_time.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static void release_task(struct bb_execution *r, int at, int64_t when)
{
    bb_raise_time(&r->c->tasks[at].begin_ns, when);
    if (--r->c->tasks[at].before > 0)
        return;
    if (r->contention)
        bb_contention_sim_arrive(r->contention, at);
    else
        r->ready[r->n_ready++] = at;
}

void bb_execution_end(struct bb_execution *r, int at)
{
    int task;
    const struct bb_task_graph *s = bb_execution_graph(r, at, &task);
    const struct bb_task *u = &s->tasks[task];

    r->c->tasks[at].ended = true;
    r->c->n_ended++;
    if (r->c->serialised) {
        if (task + 1 < s->n_tasks)
            release_task(r, at + 1, r->c->tasks[at].end_ns);
        return;
    }
    for (int i = 0; i < u->n_next; i++)
        release_task(r, at - task + s->next[u->next + i], r->c->tasks[at].end_ns);
}

/* ---- execution of each kind of task ---- */

/* Returns the kernel time `ns` multiplied by the slowdown factor of the GPU and by the random jitter factor of task
 * `at`. */
static int64_t perturbed_ns(const struct bb_execution *r, int at, int64_t ns)
{
    double slowdowns = r->slowdowns ? r->slowdowns[r->class_of[at]] : 1;

    if (r->m->conditions.jitter > 0)
        slowdowns *= bb_jitter_factor(&r->m->conditions, at);
    return bb_op_slowed_ns(ns, slowdowns);
}

static void run_compute(struct bb_execution *r, int at, const struct bb_op *op)
{
    int64_t start_ns = r->c->tasks[at].arrival_ns, ns;
    struct bb_work_time work;

    r->c->tasks[at].end_ns = start_ns;
    if (r->m->cluster) {
        work = bb_op_times_work(&r->op_times, op);
        ns = perturbed_ns(r, at, bb_work_end_ns(&work, start_ns, r->c->tasks[at].host_ns) - start_ns);
        if (r->contention) {
            bb_contention_sim_start_kernel(r->contention, at, op, ns);
            return;
        }
        r->c->tasks[at].end_ns += ns;
    }
    bb_execution_end(r, at);
}

static void end_members(struct bb_execution *r, const struct bb_sim_instance *inst, int order, int64_t lasts_ns)
{
    const struct bb_sim *m = r->m;
    const struct bb_sim_collective *state = &r->c->collectives[inst->base + order];

    for (int i = 0; i < inst->n; i++) {
        int their = bb_sim_member_task(m, inst, i, order);

        r->c->tasks[their].met_ns = state->latest_begin_ns;
        r->c->tasks[their].end_ns = r->c->tasks[their].alone_end_ns = state->latest_ns + lasts_ns;
        if (!r->contention)
            bb_execution_end(r, their);
    }
}

/* Computes the cost of a collective call on the communicator bb_sim.instances[index]. Returns the index of the cost
 * in the cache of operation times (bb_op_times_call). */
static int cost_of_call(struct bb_execution *r, int index, const struct bb_op *op, struct bb_cost *cost)
{
    const struct bb_sim_instance *inst = &r->m->instances[index];
    struct bb_collective call = bb_op_collective(op, inst->size, inst->nodes, &inst->placement);

    call.members_on_root_node =
        bb_group_count_on_root_node(&r->m->step->layout, op, r->m->members[inst->first].rank, r->m->cluster);
    return bb_op_times_call(&r->op_times, index, &call, cost);
}

static void run_collective(struct bb_execution *r, int at, const struct bb_task *u, const struct bb_op *op)
{
    const struct bb_sim *m = r->m;
    int index = m->instance_of[r->class_of[at] * m->step->layout.n_comms + u->comm];
    const struct bb_sim_instance *inst = &m->instances[index];
    struct bb_sim_collective *state = &r->c->collectives[inst->base + u->order];
    struct bb_cost cost = {0};
    int call = BB_NONE;

    if (r->contention && inst->size > 1)
        bb_contention_sim_join_collective(r->contention, r->class_of[at]);
    bb_raise_time(&state->latest_ns, r->c->tasks[at].arrival_ns);
    bb_raise_time(&state->latest_begin_ns, r->c->tasks[at].begin_ns);
    if (++state->n_arrived < inst->n)
        return;
    if (m->cluster)
        call = cost_of_call(r, index, op, &cost);
    end_members(r, inst, u->order, llround(cost.latency_ns + cost.transfer_ns));
    if (r->contention)
        bb_contention_sim_start_collective(r->contention, index, u->order, call, &cost);
}

static double message_bytes(const struct bb_op *op)
{
    return (double)(op->count * bb_dtypes[op->dtype].bytes);
}

/* Sums the bytes of all messages of an exchange (one rank's sends and receives of one group call), separately for
 * each kind of link and direction. load: out. Returns the number of messages to and from other ranks. */
static int sum_load(const struct bb_sim *m, int class_id, const struct bb_task *u, struct bb_link_load *load)
{
    const struct bb_task_graph *s = bb_sim_task_graph(m, class_id);
    const struct bb_sim_side *sides = &m->sides[m->op_base[class_id]];
    const int rank = m->classes.rank[class_id];
    int others = 0;

    *load = (struct bb_link_load){0};
    for (int i = 0; i < u->n; i++) {
        const int op = s->exchanged[u->first + i], peer = sides[op].rank;
        const struct bb_op *o = &s->program->ops[op];

        if (peer != rank)
            bb_fabric_add_message(m->cluster, load, rank, peer, message_bytes(o), o->kind == BB_OP_SEND);
        others += peer != rank;
    }
    return others;
}

/* The two ranks of a message. `from` is the rank whose task is being started: the sender or the receiver. */
struct link {
    int from, to;
    double bytes; /* bytes of the message; used only for a message of a rank to itself */
};

static int64_t link_ns(const struct bb_sim *m, const struct link *link, double load_ns)
{
    if (!m->cluster)
        return 0;
    return link->from == link->to ? bb_cluster_self_message_ns(m->cluster, link->bytes)
                                  : bb_fabric_message_ns(m->cluster, link->from, link->to, load_ns);
}

static void end_message(struct bb_execution *r, int at, int there, int64_t end)
{
    bb_raise_time(&r->c->tasks[at].end_ns, end);
    bb_raise_time(&r->c->tasks[there].end_ns, end);
    r->c->tasks[at].open--;
    if (there != at && --r->c->tasks[there].open == 0)
        bb_execution_end(r, there);
}

/* Computes the end of a message for its two tasks: `at`, which starts now, and `there`, the peer's task. If the
 * peer's task has not started yet, does nothing; the call at the start of the peer's task then computes the end. */
static void match_sides(struct bb_execution *r, int at, int there, const struct link *link)
{
    struct bb_sim_task *mine = &r->c->tasks[at], *theirs = &r->c->tasks[there];
    double load_ns;

    if (!theirs->arrived)
        return;
    bb_raise_time(&mine->met_ns, theirs->begin_ns);
    bb_raise_time(&theirs->met_ns, mine->begin_ns);
    load_ns = mine->load_ns > theirs->load_ns ? mine->load_ns : theirs->load_ns;
    if (r->contention)
        bb_contention_sim_start_message(r->contention, at, there, link_ns(r->m, link, 0), link->from == link->to);
    else
        end_message(r, at, there,
                    (mine->arrival_ns > theirs->arrival_ns ? mine : theirs)->arrival_ns + link_ns(r->m, link, load_ns));
}

static void match_message(struct bb_execution *r, int at, int op)
{
    const struct bb_sim *m = r->m;
    const int class_id = r->class_of[at], rank = m->classes.rank[class_id];
    const struct bb_sim_side side = m->sides[m->op_base[class_id] + op];
    const struct bb_op *o = &bb_sim_task_graph(m, class_id)->program->ops[op];

    if (side.task == BB_NONE || (r->contention && side.rank == rank && o->kind == BB_OP_RECV))
        return; /* no operation matches; or a rank receives from itself, and with contention the matching send starts
                   the copy for both tasks */
    match_sides(r, at, side.task, &(struct link){rank, side.rank, message_bytes(o)});
}

/* Adds the bytes of an exchange to the traffic of the rank's links. Without contention, stores the time that the
 * links need; with contention, starts a transfer in the contention simulator. others: number of messages to and from
 * other ranks. */
static void load_links(struct bb_execution *r, int at, int comm, const struct bb_link_load *load, int others)
{
    if (r->contention)
        bb_contention_sim_start_exchange(r->contention, at, comm, load, others);
    else
        r->c->tasks[at].load_ns = bb_cluster_link_load_ns(r->m->cluster, load, 1);
}

static void run_exchange(struct bb_execution *r, int at, const struct bb_task_graph *s, const struct bb_task *u)
{
    struct bb_link_load load;

    r->c->tasks[at].end_ns = r->c->tasks[at].arrival_ns;
    if (r->m->cluster) {
        const int others = sum_load(r->m, r->class_of[at], u, &load);

        load_links(r, at, u->comm, &load, others);
    }
    for (int i = 0; i < u->n; i++)
        match_message(r, at, s->exchanged[u->first + i]);
    if (r->c->tasks[at].open == 0 && !r->contention)
        bb_execution_end(r, at);
}

/* ---- alltoallv: one task for the messages to and from all members of the communicator ---- */

static const struct bb_alltoallv_peer *first_peer_of(const struct bb_sim *m, int class_id, int comm)
{
    return &m->peers[m->first_peer_of[class_id * m->step->layout.n_comms + comm]];
}

/* Sums the bytes that the rank sends and receives in its alltoallv, separately for each kind of link and direction.
 * load: out. Returns the number of messages to and from other ranks. */
static int sum_rows(const struct bb_sim *m, int rank, const struct bb_op *op, const struct bb_alltoallv_peer *peers,
                    struct bb_link_load *load)
{
    const double bytes = (double)bb_dtypes[op->dtype].bytes;
    int messages = 0;

    *load = (struct bb_link_load){0};
    for (int index = 0; index < op->table->n; index++) {
        const size_t sends = bb_alltoallv_sends(op, index), receives = bb_alltoallv_receives(op, index);

        if (sends)
            bb_fabric_add_message(m->cluster, load, rank, peers[index].rank, (double)sends * bytes, true);
        if (receives)
            bb_fabric_add_message(m->cluster, load, rank, peers[index].rank, (double)receives * bytes, false);
        messages += (sends > 0) + (receives > 0);
    }
    return messages;
}

static void run_alltoallv(struct bb_execution *r, int at, const struct bb_task *u, const struct bb_op *op)
{
    const struct bb_alltoallv_peer *peers = first_peer_of(r->m, r->class_of[at], u->comm);
    const int rank = r->m->classes.rank[r->class_of[at]];
    struct bb_link_load load;

    r->c->tasks[at].end_ns = r->c->tasks[at].alone_end_ns = r->c->tasks[at].arrival_ns;
    if (bb_alltoallv_peers(op) == 0) {
        bb_execution_end(r, at);
        return;
    }
    if (r->m->cluster) {
        const int messages = sum_rows(r->m, rank, op, peers, &load);

        load_links(r, at, u->comm, &load, messages);
    }
    for (int index = 0; index < op->table->n; index++) {
        const int there = bb_alltoallv_exchanges_with(op, index)
                              ? bb_sim_alltoallv_task(r->m, peers[index].class_id, u->comm, u->order)
                              : BB_NONE;

        if (there != BB_NONE)
            match_sides(r, at, there, &(struct link){.from = rank, .to = peers[index].rank});
    }
    if (r->c->tasks[at].open == 0 && !r->contention)
        bb_execution_end(r, at);
}

void bb_execution_start(struct bb_execution *r, int at)
{
    int task;
    const struct bb_task_graph *s = bb_execution_graph(r, at, &task);
    const struct bb_task *u = &s->tasks[task];

    bb_raise_time(&r->c->tasks[at].arrival_ns, r->c->tasks[at].begin_ns);
    r->c->tasks[at].arrived = true;
    if (u->kind == BB_TASK_COMPUTE)
        run_compute(r, at, &s->program->ops[u->first]);
    else if (u->kind == BB_TASK_COLLECTIVE)
        run_collective(r, at, u, &s->program->ops[u->first]);
    else if (u->kind == BB_TASK_ALLTOALLV)
        run_alltoallv(r, at, u, &s->program->ops[u->first]);
    else
        run_exchange(r, at, s, u);
}

/* ---- start of the execution ---- */

static bool transfers_data(const struct bb_task *u, const struct bb_op *op)
{
    return u->kind != BB_TASK_ALLTOALLV || bb_alltoallv_peers(op) > 0;
}

/* Sets, for each task of the class of equivalent ranks, the host time before (begin_ns) and after (arrival_ns) its
 * kernel launch or NCCL call. No task starts on the GPU before arrival_ns. */
static void issue_class(struct bb_execution *r, int class_id)
{
    const struct bb_task_graph *s = bb_sim_task_graph(r->m, class_id);
    int64_t host = 0, before = 0, first = 0;
    struct bb_work_time work;
    int launch = BB_NONE;

    for (int u = 0; u < s->n_tasks; u++) {
        int at = r->m->task_base[class_id] + u;
        const struct bb_op *op = &s->program->ops[s->tasks[u].first];

        if (s->tasks[u].issue != launch) {
            launch = s->tasks[u].issue;
            before = host;
            if (s->issue_computes[launch]) {
                work = bb_op_times_work(&r->op_times, op);
                first = work.first_ns;
                host += work.issue_ns;
            } else
                host += first = transfers_data(&s->tasks[u], op) ? bb_cluster_issue_ns(r->m->cluster, false) : 0;
        }
        r->c->tasks[at].begin_ns = r->c->tasks[at].host_ns = before;
        r->c->tasks[at].arrival_ns = before + first;
    }
    r->c->issued_ns[class_id] = host;
}

/* Returns how many messages (exchange) or peers (alltoallv) of the task must be matched; 0 for other kinds of task. */
static int count_messages(const struct bb_task_graph *s, const struct bb_task *u)
{
    if (u->kind == BB_TASK_ALLTOALLV)
        return bb_alltoallv_peers(&s->program->ops[u->first]);
    return u->kind == BB_TASK_EXCHANGE ? u->n : 0;
}

static void start_class(struct bb_execution *r, int class_id)
{
    const struct bb_task_graph *s = bb_sim_task_graph(r->m, class_id);

    if (r->m->cluster)
        issue_class(r, class_id);
    for (int u = 0; u < s->n_tasks; u++) {
        int at = r->m->task_base[class_id] + u;

        r->class_of[at] = class_id;
        r->c->tasks[at].open = count_messages(s, &s->tasks[u]);
        r->c->tasks[at].before = r->c->serialised ? u > 0 : s->tasks[u].n_before;
    }
    for (int at = r->m->task_base[class_id]; at < r->m->task_base[class_id] + s->n_tasks; at++)
        if (r->c->tasks[at].before == 0 && r->contention)
            bb_contention_sim_arrive(r->contention, at);
        else if (r->c->tasks[at].before == 0)
            r->ready[r->n_ready++] = at;
}

static void list_slowdowns(struct bb_execution *r)
{
    const struct bb_slow *slow = &r->m->conditions.slow;

    if (slow->n == 0)
        return;
    BB_NEW(r->slowdowns, r->m->classes.n);
    for (int c = 0; c < r->m->classes.n; c++)
        r->slowdowns[c] = bb_slow_compute_factor(slow, r->m->classes.rank[c]);
}

/* Prepares an execution. The caller releases *r. */
static void init_execution(struct bb_execution *r, const struct bb_sim *m, struct bb_sim_run *run)
{
    const int tasks = m->task_base[m->classes.n];

    *r = (struct bb_execution){.m = m, .c = run, .op_times = BB_OP_TIMES(m->cluster)};
    BB_NEW(r->ready, tasks);
    BB_NEW(r->class_of, tasks);
    BB_NEW_ALIGNED(run->tasks, tasks);
    BB_NEW(run->collectives, m->n_collectives);
    BB_NEW(run->issued_ns, m->classes.n);
    list_slowdowns(r);
    if (m->cluster && m->cluster->has_sharing)
        r->contention = bb_contention_sim_new(r);
}

/* Resets the state of all tasks and collectives for another execution of the step. */
static void clear_execution(struct bb_execution *r)
{
    struct bb_sim_run *c = r->c;

    memset(c->tasks, 0, sizeof(*c->tasks) * (size_t)r->m->task_base[r->m->classes.n]);
    memset(c->collectives, 0, sizeof(*c->collectives) * (size_t)r->m->n_collectives);
    c->n_ended = 0;
    if (r->contention)
        bb_contention_sim_reset(r->contention);
}

static void release_execution(struct bb_execution *r)
{
    bb_op_times_release(&r->op_times);
    bb_contention_sim_release(r->contention);
    free(r->ready);
    free(r->class_of);
    free(r->slowdowns);
}

static void execute_all(struct bb_execution *r)
{
    for (int c = 0; c < r->m->classes.n; c++)
        start_class(r, c);
    if (r->contention)
        bb_contention_sim_run(r->contention);
    while (r->n_ready > 0)
        bb_execution_start(r, r->ready[--r->n_ready]);
}

void bb_simulate(const struct bb_sim *m, bool serialised, struct bb_sim_run *run)
{
    struct bb_execution r;

    *run = (struct bb_sim_run){.serialised = serialised};
    init_execution(&r, m, run);
    execute_all(&r);
    release_execution(&r);
}

void bb_simulate_samples(struct bb_sim *m, int samples, int64_t *step_ns)
{
    struct bb_sim_run run = {0};
    struct bb_execution r;

    init_execution(&r, m, &run);
    for (int i = 0; i < samples; i++) {
        m->conditions.sample = i;
        if (i > 0)
            clear_execution(&r);
        execute_all(&r);
        step_ns[i] = bb_sim_step_ns(m, &run);
    }
    release_execution(&r);
    bb_sim_run_release(&run);
}

int64_t bb_sim_step_ns(const struct bb_sim *m, const struct bb_sim_run *run)
{
    int64_t step_ns = 0;

    for (int c = 0; c < m->classes.n; c++)
        bb_raise_time(&step_ns, run->issued_ns[c]);
    for (int at = 0; at < m->task_base[m->classes.n]; at++)
        bb_raise_time(&step_ns, run->tasks[at].end_ns);
    return step_ns;
}

void bb_sim_run_release(struct bb_sim_run *c)
{
    free(c->tasks);
    free(c->collectives);
    free(c->issued_ns);
    free(c->busy);
    *c = (struct bb_sim_run){0};
}
