/* step_check.c - checks that the operations of all ranks match and that the step does not deadlock (step_check.h). A
 * deadlock is reported as a cycle of waiting ranks. */
#include "proxies/simulation/simulate/step_check.h"

#include "bootstrap/base/alloc.h"
#include "proxies/simulation/simulate/engine/simulate.h"

#include <stdio.h>
#include <stdlib.h>

#define MAX_HOPS 12 /* maximum number of waiting ranks in the report of a deadlock */

/* A rank that is blocked in a task (a set of operations that end together, task_graph.h); task: index in the rank's
 * task graph. */
struct stuck {
    int rank, task;
};

struct search {
    const struct bb_sim *m;
    const struct bb_sim_run *run;
    struct bb_faults *faults;
};

static const struct bb_task_graph *graph_of(const struct search *s, int rank)
{
    return bb_sim_task_graph(s->m, s->m->classes.of[rank]);
}

static const struct bb_sim_task *task_of(const struct search *s, int rank, int task)
{
    return &s->run->tasks[s->m->task_base[s->m->classes.of[rank]] + task];
}

static bool is_blocked_in(const struct search *s, int rank, int task)
{
    return task_of(s, rank, task)->arrived && !task_of(s, rank, task)->ended;
}

/* Returns the first task in which the rank is blocked and on which `task` depends directly or indirectly; BB_NONE if
 * there is none. */
static int find_blocker(const struct search *s, int rank, int task)
{
    const struct bb_task_graph *graph = graph_of(s, rank);
    bool *leads;
    int found = BB_NONE;

    BB_NEW(leads, task);
    leads[task] = true;
    for (int u = task - 1; u >= 0; u--) {
        for (int i = 0; i < graph->tasks[u].n_next; i++) {
            int next = graph->next[graph->tasks[u].next + i];

            leads[u] |= next <= task && leads[next];
        }
        leads[u] |= s->run->serialised;
        if (leads[u] && is_blocked_in(s, rank, u))
            found = u;
    }
    free(leads);
    return found;
}

static const char *op_text(const struct bb_op *op, const struct bb_layout *l, int peer, char text[128])
{
    const char *comm = l->comms[op->comm].name, *type = bb_dtypes[op->dtype].name;

    if (op->kind == BB_OP_ALLTOALLV)
        snprintf(text, 128, "alltoallv of rows of %zu %s on '%s'", op->count, type, comm);
    else if (op->kind == BB_OP_COLLECTIVE)
        snprintf(text, 128, "%s of %zu %s on '%s'", bb_colls[op->coll].name, op->count, type, comm);
    else
        snprintf(text, 128, "%s of %zu %s %s rank %d on '%s'", op->kind == BB_OP_SEND ? "send" : "receive", op->count,
                 type, op->kind == BB_OP_SEND ? "to" : "from", peer, comm);
    return text;
}

static void report_wait(const struct search *s, const struct stuck *here, int op, int peer, const char *rest)
{
    const struct bb_task_graph *graph = graph_of(s, here->rank);
    char text[128];

    bb_fault(s->faults, "rank %d is in operation %d, %s, and waits for rank %d %s", here->rank, op,
             op_text(&graph->program->ops[op], &s->m->step->layout, peer, text), peer, rest);
}

/* Finds a message of the exchange (sends and receives of one group call) whose peer has not started the matching
 * operation, and reports that the rank waits for this peer. Returns true and sets *next to the peer's task; returns
 * false if no message is found or if the peer's program has no matching operation. */
static bool follow_message(const struct search *s, const struct stuck *here, struct stuck *next)
{
    const struct bb_task_graph *graph = graph_of(s, here->rank);
    const struct bb_task *u = &graph->tasks[here->task];

    for (int i = 0; i < u->n; i++) {
        int op = graph->exchanged[u->first + i], cell = s->m->op_base[s->m->classes.of[here->rank]] + op;
        int peer = bb_channel_rank(&s->m->step->layout, &graph->channels[graph->channel_of[op]], here->rank);

        if (s->m->sides[cell].task == BB_NONE) {
            report_wait(s, here, op, peer, "whose program has no matching operation");
            return false;
        }
        *next = (struct stuck){peer, s->m->sides[cell].task - s->m->task_base[s->m->classes.of[peer]]};
        if (!task_of(s, next->rank, next->task)->arrived) {
            report_wait(s, here, op, peer, "to start the matching operation");
            return true;
        }
    }
    return false;
}

/* Finds a member of the communicator that has not reached the collective or alltoallv, and reports that the rank waits
 * for this member. Returns true and sets *next to the member's task; returns false if no such member is found or if the
 * member's program does not contain the operation. */
static bool follow_members(const struct search *s, const struct stuck *here, struct stuck *next)
{
    const struct bb_task *u = &graph_of(s, here->rank)->tasks[here->task];
    const struct bb_op *op = &graph_of(s, here->rank)->program->ops[u->first];
    const struct bb_layout *l = &s->m->step->layout;
    int group = l->comms[u->comm].group, instance = bb_group_instance(l, group, here->rank);
    bool alltoallv = u->kind == BB_TASK_ALLTOALLV;

    for (int index = 0; index < l->groups[group].size; index++) {
        int member = bb_group_member(l, group, instance, index);
        const struct bb_task_graph *theirs = graph_of(s, member);

        if (alltoallv && !bb_alltoallv_exchanges_with(op, index))
            continue;
        if (u->order >= (alltoallv ? theirs->n_alltoallvs : theirs->n_collectives)[u->comm]) {
            report_wait(s, here, u->first, member, "whose program does not contain this operation");
            return false;
        }
        *next = (struct stuck){member, (alltoallv ? theirs->alltoallvs : theirs->collectives)[u->comm][u->order]};
        if (!task_of(s, next->rank, next->task)->arrived) {
            report_wait(s, here, u->first, member, "to reach this operation");
            return true;
        }
    }
    return false;
}

static bool find_first_stuck(const struct search *s, struct stuck *here)
{
    for (int c = 0; c < s->m->classes.n; c++)
        for (int u = 0; u < bb_sim_task_graph(s->m, c)->n_tasks; u++)
            if (is_blocked_in(s, s->m->classes.rank[c], u)) {
                *here = (struct stuck){s->m->classes.rank[c], u};
                return true;
            }
    return false;
}

/* Reports each blocked rank and the rank it waits for, until a rank appears again (a cycle) or the chain of waits
 * ends. */
static void report_wait_cycle(const struct search *s)
{
    struct stuck path[MAX_HOPS], here, next;

    if (!find_first_stuck(s, &here))
        return;
    for (int hop = 0; hop < MAX_HOPS; hop++) {
        const bool exchange = graph_of(s, here.rank)->tasks[here.task].kind == BB_TASK_EXCHANGE;

        path[hop] = here;
        if (!(exchange ? follow_message : follow_members)(s, &here, &next))
            return;
        here = (struct stuck){next.rank, find_blocker(s, next.rank, next.task)};
        if (here.task == BB_NONE)
            return;
        for (int i = 0; i <= hop; i++)
            if (path[i].rank == here.rank && path[i].task == here.task) {
                bb_fault(s->faults, "rank %d is listed above, so the waits form a cycle of %d ranks", here.rank,
                         hop + 1 - i);
                return;
            }
    }
    bb_fault(s->faults, "rank %d is also blocked; the ranks for which it waits are not shown", here.rank);
}

/* Executes the step. Returns whether all its tasks end; reports a cycle of waiting ranks if not. */
static bool try_run(const struct bb_sim *m, bool serialised, struct bb_faults *faults)
{
    struct bb_sim_run run;
    bool ends;

    bb_simulate(m, serialised, &run);
    ends = run.n_ended == m->task_base[m->classes.n];
    if (!ends)
        report_wait_cycle(&(struct search){m, &run, faults});
    bb_sim_run_release(&run);
    return ends;
}

int bb_step_check(const struct bb_step *step, struct bb_checks *checks)
{
    struct bb_sim m;
    int rc;

    *checks = (struct bb_checks){0};
    TRY(bb_sim_init(&m, step, NULL, NULL, &checks->mismatches));
    checks->matched = checks->mismatches.n == 0;
    checks->classes = m.classes.n;
    if (m.classes.n > 0) {
        checks->safe_serialised = try_run(&m, true, &checks->serialised);
        /* The execution with serialized streams has all dependencies of the normal execution, so if it ends, the
         * normal execution ends too. */
        checks->deadlock_free = checks->safe_serialised || try_run(&m, false, &checks->deadlock);
    }
out:
    bb_sim_release(&m);
    return rc;
}

void bb_checks_release(struct bb_checks *checks)
{
    bb_faults_release(&checks->mismatches);
    bb_faults_release(&checks->deadlock);
    bb_faults_release(&checks->serialised);
}

static void report_faults(const char *proxy, const struct bb_faults *f, const char *what)
{
    for (int i = 0; i < f->n && i < BB_FAULTS_KEPT; i++)
        bb_err(BB_EFAIL, "%s: %s: %s", proxy, what, f->text[i]);
    if (f->n > BB_FAULTS_KEPT)
        bb_err(BB_EFAIL, "%s: %s: %d more error%s not shown", proxy, what, f->n - BB_FAULTS_KEPT,
               f->n == BB_FAULTS_KEPT + 1 ? " is" : "s are");
}

int bb_checks_report(const char *proxy, const struct bb_checks *checks)
{
    if (checks->matched && checks->deadlock_free) {
        if (!checks->safe_serialised)
            bb_warn("%s: the step can deadlock if CUDA serializes the streams of a rank in issue order "
                    "(CUDA_LAUNCH_BLOCKING=1, or fewer hardware queues than streams)",
                    proxy);
        return 0;
    }
    report_faults(proxy, &checks->mismatches, "mismatch");
    report_faults(proxy, &checks->deadlock, "deadlock");
    return -BB_EFAIL;
}
