/*
 * simulate.c - abstract execution of all ranks with a work list of tasks whose dependencies have ended. Each task
 * starts once and each message is matched once, so the run time is proportional to the number of operations of one rank
 * per class of equivalent ranks.
 */
#include "proxies/simulation/simulate/engine/execution.h"

#include "bootstrap/base/alloc.h"
#include "proxies/simulation/simulate/engine/contention_sim.h"
#include "proxies/simulation/simulate/engine/op_time.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/param.h>

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

/* Returns whether the host waits for the end of a task before it issues the next one. */
static bool host_waits(const struct bb_execution *r, const struct bb_task_graph *s, int task)
{
    return r->m->cluster && r->m->cluster->eager && !r->c->serialised &&
           s->program->ops[s->tasks[task].first].host_reads && s->tasks[task].kind == BB_TASK_COLLECTIVE;
}

/* The host, which waited for the end of task `at`, issues the tasks up to the next one for which it waits. issue_class set their
 * times as if the host had never waited. */
static void resume_host(struct bb_execution *r, int at, int task, const struct bb_task_graph *s)
{
    int64_t *late_ns = &r->c->late_ns[r->class_of[at]];

    if (task + 1 < s->n_tasks)
        bb_raise_time(late_ns, r->c->tasks[at].end_ns - r->c->tasks[at + 1].host_ns);
    while (++task < s->n_tasks) {
        at++;
        r->c->tasks[at].host_ns += *late_ns;
        r->c->tasks[at].arrival_ns += *late_ns;
        release_task(r, at, r->c->tasks[at].host_ns);
        if (host_waits(r, s, task))
            return;
    }
    r->c->issued_ns[r->class_of[at]] += *late_ns;
}

void bb_execution_end(struct bb_execution *r, int at)
{
    int task;
    const struct bb_task_graph *s = bb_execution_graph(r, at, &task);
    const struct bb_task *u = &s->tasks[task];

    r->c->tasks[at].ended = true;
    r->c->n_ended++;
    if (host_waits(r, s, task))
        resume_host(r, at, task, s);
    if (r->c->serialised) {
        if (task + 1 < s->n_tasks)
            release_task(r, at + 1, r->c->tasks[at].end_ns);
        return;
    }
    for (int i = 0; i < u->n_next; i++)
        release_task(r, at - task + s->next[u->next + i], r->c->tasks[at].end_ns);
}

/* ---- execution of each kind of task ---- */

/* Starts a kernel. The slowdown of the GPU and the random factor of --jitter multiply its time. */
static void run_compute(struct bb_execution *r, int at, const struct bb_op *op)
{
    const int64_t start_ns = r->c->tasks[at].arrival_ns;

    r->c->tasks[at].end_ns = start_ns;
    if (r->m->cluster) {
        const struct bb_work_time work = bb_op_times_work(&r->op_times, op);
        int64_t ns = bb_work_end_ns(&work, start_ns, r->c->tasks[at].host_ns) - start_ns;
        double slowdown = r->slowdowns ? r->slowdowns[r->class_of[at]] : 1;

        if (r->m->conditions.jitter > 0)
            slowdown *= bb_jitter_factor(&r->m->conditions, at);
        ns = bb_op_slowed_ns(ns, slowdown);
        if (r->contention) {
            bb_contention_sim_start_kernel(r->contention, at, op, ns);
            return;
        }
        r->c->tasks[at].end_ns += ns;
    }
    bb_execution_end(r, at);
}

/* Computes the cost of a collective call on the communicator bb_sim.instances[index]. Returns the index of the cost
 * in the cache of operation times (bb_op_times_call). */
static int cost_of_call(struct bb_execution *r, int index, const struct bb_op *op, struct bb_cost *cost)
{
    const struct bb_sim_instance *inst = &r->m->instances[index];
    struct bb_collective call = bb_op_collective(op, inst->size, inst->nodes, &inst->placement);

    bb_group_find_root(&r->m->step->layout, op, r->m->members[inst->first].rank, r->m->cluster, &call);
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
    double alone_ns;

    if (r->contention && inst->size > 1)
        bb_contention_sim_join_collective(r->contention, r->class_of[at]);
    bb_raise_time(&state->latest_ns, r->c->tasks[at].arrival_ns);
    bb_raise_time(&state->latest_begin_ns, r->c->tasks[at].begin_ns);
    if (++state->n_arrived < inst->n)
        return;
    if (m->cluster)
        call = cost_of_call(r, index, op, &cost);
    alone_ns = r->contention ? bb_contention_sim_start_collective(r->contention, index, u->order, call, &cost)
                             : cost.latency_ns + cost.transfer_ns;
    for (int i = 0; i < inst->n; i++) {
        const int theirs = bb_sim_member_task(m, inst, i, u->order);
        struct bb_sim_task *task = &r->c->tasks[theirs];

        task->met_ns = state->latest_begin_ns;
        task->end_ns = task->alone_end_ns = state->latest_ns + llround(alone_ns);
        if (!r->contention)
            bb_execution_end(r, theirs);
    }
}

/* ---- exchanges and alltoallvs: the messages of one rank to and from its peers ---- */

/* One message of an exchange; or the messages of an alltoallv to and from one member of the communicator. */
struct message {
    int peer, task; /* world rank of the peer; index in bb_sim_run.tasks of the peer's task, BB_NONE: no operation
                       matches, or no message */
    bool sends, receives;
    double sent, received; /* bytes */
};

/* Returns the i-th message of a task: of an exchange, in the order of its operations; of an alltoallv, in the order of
 * the communicator's ranks. */
static struct message message_at(const struct bb_sim *m, int class_id, const struct bb_task *u, int i)
{
    const struct bb_task_graph *s = bb_sim_task_graph(m, class_id);
    const struct bb_alltoallv_peer *peer;
    const struct bb_op *op;
    size_t sends, receives;

    if (u->kind == BB_TASK_EXCHANGE) {
        const int index = s->exchanged[u->first + i];
        const struct bb_sim_side side = m->sides[m->op_base[class_id] + index];

        op = &s->program->ops[index];
        sends = op->kind == BB_OP_SEND ? op->count : 0;
        receives = op->kind == BB_OP_SEND ? 0 : op->count;
        return (struct message){side.rank,
                                side.task,
                                op->kind == BB_OP_SEND,
                                op->kind == BB_OP_RECV,
                                (double)(sends * bb_dtypes[op->dtype].bytes),
                                (double)(receives * bb_dtypes[op->dtype].bytes)};
    }
    op = &s->program->ops[u->first];
    sends = bb_alltoallv_sends(op, i);
    receives = bb_alltoallv_receives(op, i);
    peer = &m->peers[m->first_peer_of[class_id * m->step->layout.n_comms + u->comm] + i];
    return (struct message){peer->rank,
                            sends + receives > 0 ? bb_sim_alltoallv_task(m, peer->class_id, u->comm, u->order)
                                                 : BB_NONE,
                            sends > 0,
                            receives > 0,
                            (double)sends * (double)bb_dtypes[op->dtype].bytes,
                            (double)receives * (double)bb_dtypes[op->dtype].bytes};
}

/* Sums the bytes of all messages of a task to and from other ranks, separately for each kind of link and direction.
 * Without contention, stores the time that the rank's links need; with contention, starts a transfer in the contention
 * simulator. n: number of elements for message_at. */
static void load_links(struct bb_execution *r, int at, const struct bb_task *u, int n)
{
    const int class_id = r->class_of[at], rank = r->m->classes.rank[class_id];
    struct bb_link_load load = {0};
    int messages = 0;

    for (int i = 0; i < n; i++) {
        const struct message message = message_at(r->m, class_id, u, i);

        if (message.peer == rank)
            continue;
        if (message.sends)
            bb_fabric_add_message(r->m->cluster, &load, rank, message.peer, message.sent, true);
        if (message.receives)
            bb_fabric_add_message(r->m->cluster, &load, rank, message.peer, message.received, false);
        messages += message.sends + message.receives;
    }
    r->c->tasks[at].group_messages = (unsigned)bb_group_messages(&load);
    if (r->contention)
        bb_contention_sim_start_exchange(r->contention, at, u->comm, &load, messages);
    else
        r->c->tasks[at].load_ns = bb_cluster_link_load_ns(r->m->cluster, &load, 1);
}

/* Computes the end of a message for its two tasks: `at`, which starts now, and the peer's task. If the peer's task has
 * not started yet, does nothing; the call at the start of the peer's task then computes the end. */
static void match_message(struct bb_execution *r, int at, const struct message *message)
{
    struct bb_sim_task *mine = &r->c->tasks[at], *theirs = &r->c->tasks[message->task];
    const struct bb_cluster *c = r->m->cluster;
    const int rank = r->m->classes.rank[r->class_of[at]], peer = message->peer;
    const int messages = (int)MAX(mine->group_messages, theirs->group_messages);
    const double load_ns = r->contention ? 0 : MAX(mine->load_ns, theirs->load_ns);
    int64_t end_ns = 0;

    if (!theirs->arrived)
        return;
    bb_raise_time(&mine->met_ns, theirs->begin_ns);
    bb_raise_time(&theirs->met_ns, mine->begin_ns);
    if (c)
        end_ns = rank == peer ? bb_cluster_self_message_ns(c, message->sent + message->received)
                              : bb_fabric_message_ns(c, rank, peer, load_ns + bb_cluster_group_ns(c, messages));
    if (r->contention) {
        bb_contention_sim_start_message(r->contention, at, message->task, end_ns, rank == peer);
        return;
    }
    end_ns += mine->arrival_ns > theirs->arrival_ns ? mine->arrival_ns : theirs->arrival_ns;
    bb_raise_time(&mine->end_ns, end_ns);
    bb_raise_time(&theirs->end_ns, end_ns);
    mine->open--;
    if (theirs != mine && --theirs->open == 0)
        bb_execution_end(r, message->task);
}

static void run_exchange(struct bb_execution *r, int at, const struct bb_task_graph *s, const struct bb_task *u)
{
    const int n = u->kind == BB_TASK_EXCHANGE ? u->n : s->program->ops[u->first].table->n;
    const int class_id = r->class_of[at], rank = r->m->classes.rank[class_id];
    struct bb_sim_task *task = &r->c->tasks[at];

    task->end_ns = task->alone_end_ns = task->arrival_ns;
    if (task->open == 0) { /* an alltoallv in which this rank has no messages */
        bb_execution_end(r, at);
        return;
    }
    if (r->m->cluster)
        load_links(r, at, u, n);
    for (int i = 0; i < n; i++) {
        const struct message message = message_at(r->m, class_id, u, i);

        /* With contention, a send of the rank to itself starts the copy for both tasks. */
        if (message.task != BB_NONE && !(r->contention && message.peer == rank && !message.sends))
            match_message(r, at, &message);
    }
    if (task->open == 0 && !r->contention)
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
    else
        run_exchange(r, at, s, u);
}

/* ---- start of the execution ---- */

/* Sets, for each task of the class of equivalent ranks, the host time before (begin_ns) and after (arrival_ns) its
 * kernel launch or NCCL call. No task starts on the GPU before arrival_ns. */
static void issue_class(struct bb_execution *r, int class_id)
{
    const struct bb_task_graph *s = bb_sim_task_graph(r->m, class_id);
    const int64_t delay_ns = bb_slow_delay_ns(&r->m->conditions.slow, r->m->classes.rank[class_id]);
    /* the host launches the kernel that delays the streams (runner.h) before the step's operations */
    int64_t host = delay_ns > 0 ? bb_cluster_issue_ns(r->m->cluster, true) : 0, before = 0, first = 0;
    const int64_t start_ns = host + delay_ns;
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
            } else {
                const bool is_empty = s->tasks[u].kind == BB_TASK_ALLTOALLV && bb_alltoallv_peers(op) == 0;

                host += first = is_empty ? 0 : bb_cluster_issue_ns(r->m->cluster, false);
            }
        }
        r->c->tasks[at].host_ns = before;
        r->c->tasks[at].begin_ns = MAX(before, start_ns);
        r->c->tasks[at].arrival_ns = MAX(before + first, start_ns);
    }
    r->c->issued_ns[class_id] = host;
}

static void start_class(struct bb_execution *r, int class_id)
{
    const struct bb_task_graph *s = bb_sim_task_graph(r->m, class_id);
    bool waited = false;

    if (r->m->cluster)
        issue_class(r, class_id);
    r->c->late_ns[class_id] = 0;
    for (int u = 0; u < s->n_tasks; u++) {
        int at = r->m->task_base[class_id] + u;

        r->class_of[at] = class_id;
        if (s->tasks[u].kind == BB_TASK_EXCHANGE)
            r->c->tasks[at].open = s->tasks[u].n;
        if (s->tasks[u].kind == BB_TASK_ALLTOALLV)
            r->c->tasks[at].open = bb_alltoallv_peers(&s->program->ops[s->tasks[u].first]);
        r->c->tasks[at].before = r->c->serialised ? u > 0 : s->tasks[u].n_before + waited;
        waited |= host_waits(r, s, u);
    }
    for (int at = r->m->task_base[class_id]; at < r->m->task_base[class_id] + s->n_tasks; at++)
        if (r->c->tasks[at].before == 0 && r->contention)
            bb_contention_sim_arrive(r->contention, at);
        else if (r->c->tasks[at].before == 0)
            r->ready[r->n_ready++] = at;
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
    BB_NEW(run->late_ns, m->classes.n);
    if (m->conditions.slow.n > 0) {
        BB_NEW(r->slowdowns, m->classes.n);
        for (int c = 0; c < m->classes.n; c++)
            r->slowdowns[c] = bb_slow_compute_factor(&m->conditions.slow, m->classes.rank[c],
                                                     m->classes.rank[c] / m->cluster->gpus_per_node);
    }
    if (m->cluster && m->cluster->has_sharing)
        r->contention = bb_contention_sim_new(r);
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

void bb_simulate_samples(struct bb_sim *m, int samples, int64_t *step_ns, struct bb_progress *progress)
{
    struct bb_sim_run run = {0};
    struct bb_execution r;

    init_execution(&r, m, &run);
    for (int i = 0; i < samples; i++) {
        m->conditions.sample = i;
        memset(run.tasks, 0, sizeof(*run.tasks) * (size_t)m->task_base[m->classes.n]);
        memset(run.collectives, 0, sizeof(*run.collectives) * (size_t)m->n_collectives);
        if (r.contention)
            bb_contention_sim_reset(r.contention);
        execute_all(&r);
        step_ns[i] = bb_sim_step_ns(m, &run);
        if (progress)
            bb_progress_advance(progress, 1);
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
    free(c->late_ns);
    free(c->busy);
    *c = (struct bb_sim_run){0};
}
