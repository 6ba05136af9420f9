/*
 * group.c - collects the calls of a group and executes them. See group.h.
 */
#include "group.h"
#include "choice.h"
#include "hazards.h"
#include "profiler.h"

#include "../engine.h"
#include "proxies/simulation/machine/cluster.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

struct call {
    ncclComm_t comm; /* holds a reference */
    struct en_task task;
};

/* The calls of a group. A helper thread takes ownership when a communicator is non-blocking. */
struct work {
    struct en_job *jobs, **last_job;
    struct call *calls;
    int n_calls, capacity;
    bool blocking;
};

/* Per thread, as in NCCL. */
static _Thread_local struct {
    int depth;
    ncclResult_t error; /* the first error in this group */
    struct work *work;  /* NULL: no calls yet */
} group;

static struct work *group_work(void)
{
    if (group.work == NULL) {
        group.work = calloc(1, sizeof(*group.work));
        if (group.work != NULL)
            group.work->last_job = &group.work->jobs;
    }
    return group.work;
}

ncclResult_t en_group_start(void)
{
    group.depth++;
    return ncclSuccess;
}

ncclResult_t en_group_note(ncclResult_t rc)
{
    if (group.depth > 0 && group.error == ncclSuccess && rc != ncclInProgress)
        group.error = rc;
    return rc;
}

ncclResult_t en_group_add_task(ncclComm_t comm, const struct en_task *task)
{
    struct work *w = group_work();

    if (w != NULL && w->n_calls == w->capacity) {
        int capacity = w->capacity ? 2 * w->capacity : 8;
        struct call *calls = realloc(w->calls, (size_t)capacity * sizeof(*calls));
        if (calls != NULL) {
            w->calls = calls;
            w->capacity = capacity;
        }
    }
    if (w == NULL || w->n_calls == w->capacity)
        return en_fail(NULL, ncclSystemError, "out of memory in a group");
    en_comm_ref(comm);
    w->calls[w->n_calls++] = (struct call){.comm = comm, .task = *task};
    return ncclSuccess;
}

ncclResult_t en_group_add_job(const struct en_job *job)
{
    struct work *w = group_work();
    struct en_job *copy = w == NULL ? NULL : malloc(sizeof(*copy));

    if (copy == NULL)
        return en_fail(NULL, ncclSystemError, "out of memory in a group");
    *copy = *job;
    if (copy->comm != NULL)
        en_comm_ref(copy->comm);
    if (copy->parent != NULL)
        en_comm_ref(copy->parent);
    *w->last_job = copy;
    w->last_job = &copy->next;
    return ncclSuccess;
}

/* Calls fn for every communicator of the work, possibly several times for the same one. */
static void each_comm(const struct work *w, void (*fn)(ncclComm_t, void *), void *arg)
{
    for (struct en_job *j = w->jobs; j != NULL; j = j->next) {
        if (j->comm != NULL)
            fn(j->comm, arg);
        if (j->parent != NULL)
            fn(j->parent, arg);
    }
    for (int i = 0; i < w->n_calls; i++)
        fn(w->calls[i].comm, arg);
}

static void begin(ncclComm_t comm, void *unused)
{
    (void)unused;
    en_comm_begin(comm);
}

/* A communicator with several calls leaves ncclInProgress after the last of them. Otherwise its owner could start
 * another group that overtakes this one. */
static void end(ncclComm_t comm, void *state)
{
    en_comm_end(comm, *(ncclResult_t *)state);
}

/* Counts calls with non-blocking [0] and blocking [1] communicators. A new communicator counts as its parent. */
static void count_blocking(const struct work *w, int counts[2])
{
    for (const struct en_job *j = w->jobs; j != NULL; j = j->next)
        counts[(j->parent ? j->parent : j->comm)->config.blocking != 0]++;
    for (int i = 0; i < w->n_calls; i++)
        counts[w->calls[i].comm->config.blocking != 0]++;
}

static void drop_ref(ncclComm_t comm, void *unused)
{
    (void)unused;
    en_comm_unref(comm);
}

static void free_work(struct work *w)
{
    each_comm(w, drop_ref, NULL);
    while (w->jobs != NULL) {
        struct en_job *next = w->jobs->next;
        free(w->jobs);
        w->jobs = next;
    }
    free(w->calls);
    free(w);
}

/* After a failed blocking call: removes the new communicators. */
static void take_back(struct work *w)
{
    for (struct en_job *j = w->jobs; j != NULL; j = j->next) {
        if (j->out == NULL || j->comm == NULL)
            continue;
        en_comm_abort(j->comm);
        en_region_unlink(&j->comm->region);
        *j->out = NULL;
        en_comm_retire(j->comm);
    }
}

static ncclResult_t launch_comm(const struct work *w, int first, bool *done, int64_t host_ns)
{
    ncclComm_t comm = w->calls[first].comm;
    struct en_task *tasks = malloc((size_t)w->n_calls * sizeof(*tasks));
    struct en_plan *plan = NULL;
    ncclResult_t rc = ncclSystemError;
    int n = 0;

    if (tasks == NULL)
        return en_fail(NULL, ncclSystemError, "out of memory in a group");
    for (int i = first; i < w->n_calls; i++)
        if (w->calls[i].comm == comm) {
            tasks[n] = w->calls[i].task;
            tasks[n].corrupt = emu_fault_corrupts(tasks[n].function);
            en_profiler_report(comm, &tasks[n++]);
            done[i] = true;
        }
    rc = en_check_self_messages(comm, tasks, n);
    if (rc == ncclSuccess) {
        plan = en_plan_new(comm, tasks, n);
        rc = plan == NULL ? en_fail(NULL, ncclSystemError, "out of memory in a group") : en_plan_enqueue(plan, host_ns);
    }
    free(tasks);
    return rc;
}

/* Chooses the algorithm of each call, and blocks the host until the ranks are connected for a new algorithm
 * (EMU_RUNTIME_CONNECT). */
static ncclResult_t connect_all(const struct work *w)
{
    ncclResult_t rc = ncclSuccess;

    for (int i = 0; rc == ncclSuccess && i < w->n_calls; i++) {
        double us;

        rc = en_choose(w->calls[i].comm, &w->calls[i].task, &us);
        if (rc == ncclSuccess)
            en_connect_post(w->calls[i].comm, &w->calls[i].task);
    }
    for (int i = 0; rc == ncclSuccess && i < w->n_calls; i++)
        rc = en_connect_wait(w->calls[i].comm);
    return rc;
}

/* One plan per communicator, in the order of their first call in the group. The host time of issuing is charged once
 * per group. */
static ncclResult_t launch(const struct work *w)
{
    int64_t host_ns = bb_cluster_issue_ns(emu_machine(), false);
    bool *done = calloc((size_t)w->n_calls + 1, sizeof(*done));
    ncclResult_t rc = done ? connect_all(w) : ncclSystemError;

    for (int i = 0; rc == ncclSuccess && i < w->n_calls; i++)
        if (!done[i]) {
            rc = launch_comm(w, i, done, host_ns);
            host_ns = 0;
        }
    free(done);
    return rc;
}

static ncclResult_t carry_out(const struct work *w)
{
    ncclResult_t rc = en_jobs_run(w->jobs);

    return rc == ncclSuccess ? launch(w) : rc;
}

static void carry_out_later(void *arg)
{
    struct work *w = arg;
    ncclResult_t rc = carry_out(w);

    each_comm(w, end, &rc);
    free_work(w);
}

static ncclResult_t start_helper(struct work *w)
{
    ncclResult_t state;

    each_comm(w, begin, NULL);
    if (en_pool_run(carry_out_later, w) == 0)
        return ncclInProgress;
    state = en_fail(NULL, ncclSystemError, "no helper thread for a non-blocking communicator");
    each_comm(w, end, &state);
    free_work(w);
    return state;
}

static ncclResult_t carry_out_now(struct work *w)
{
    ncclResult_t rc = carry_out(w);

    if (rc != ncclSuccess)
        take_back(w);
    free_work(w);
    return rc;
}

ncclResult_t en_group_end(void)
{
    int counts[2] = {0, 0}; /* non-blocking, blocking */

    if (group.depth == 0)
        return en_fail(NULL, ncclInvalidUsage, "ncclGroupEnd: not in a group call");
    if (--group.depth > 0)
        return ncclSuccess;
    struct work *w = group.work;
    ncclResult_t rc = group.error;
    group.work = NULL;
    group.error = ncclSuccess;
    if (w == NULL)
        return rc;
    count_blocking(w, counts);
    if (rc == ncclSuccess && counts[0] > 0 && counts[1] > 0)
        rc = en_fail(NULL, ncclInvalidArgument, "blocking and non-blocking communicators in one group");
    if (rc != ncclSuccess) {
        take_back(w);
        free_work(w);
        return rc;
    }
    return counts[0] > 0 ? start_helper(w) : carry_out_now(w);
}

/* The estimate for the last collective; -1 for an operation made of messages, as in NCCL. Launches nothing. */
ncclResult_t en_group_simulate(float *estimated_us)
{
    if (group.depth == 0)
        return en_fail(NULL, ncclInvalidUsage, "ncclGroupSimulateEnd: not in a group call");
    *estimated_us = -1.0f;
    if (group.work != NULL && group.work->n_calls > 0) {
        struct call *c = &group.work->calls[group.work->n_calls - 1];
        double us;

        (void)en_choose(c->comm, &c->task, &us);
        *estimated_us = (float)us;
    }
    if (--group.depth > 0)
        return ncclSuccess;
    ncclResult_t rc = group.error;
    group.error = ncclSuccess;
    if (group.work != NULL) {
        take_back(group.work);
        free_work(group.work);
        group.work = NULL;
    }
    return rc;
}
