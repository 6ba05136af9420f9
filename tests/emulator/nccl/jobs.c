/*
 * jobs.c - creates communicators by unique id, split and shrink, finalises them, and registers windows.
 *
 * One thread may do this for several ranks of one communicator. Therefore each job is divided into phases (post,
 * gather, join), and no phase waits for a later phase of another job.
 */
#include "group.h"
#include "windows.h"

#include <stdlib.h>
#include <string.h>

/* Input of the hash for a child's id: equal on all its ranks, different from all other children. */
struct lineage {
    uint8_t parent[EN_ID_BYTES];
    uint64_t serial;
    int32_t kind, color;
};

static void derive_id(ncclComm_t child, const struct en_job *job, int color)
{
    struct lineage from = {.serial = job->serial, .kind = (int32_t)job->kind, .color = color};

    memcpy(from.parent, job->parent->id, EN_ID_BYTES);
    en_hash(child->id, &from, sizeof(from));
    child->location = job->parent->location;
}

static ncclResult_t post_init(struct en_job *job)
{
    return en_join_post(job->comm);
}

/* The ranks that stay are known from the call's arguments: no data from other ranks is needed. */
static ncclResult_t post_shrink(struct en_job *job)
{
    derive_id(job->comm, job, 0);
    return en_join_post(job->comm);
}

static ncclResult_t post_split(struct en_job *job)
{
    struct en_region *region = &job->parent->region;
    struct en_member *me = &region->members[job->parent->rank];

    me->split[job->serial & 1][0] = job->color;
    me->split[job->serial & 1][1] = job->key;
    job->generation = en_barrier_arrive(&region->head->manage, job->parent->size);
    return ncclSuccess;
}

/* This rank's rank in the child: by key, then by the parent's rank, among the ranks of the same colour. */
static void find_new_rank(struct en_job *job)
{
    const struct en_region *region = &job->parent->region;
    int me = job->parent->rank;

    job->comm->rank = job->comm->size = 0;
    for (int r = 0; r < job->parent->size; r++) {
        const int32_t *other = region->members[r].split[job->serial & 1];
        if (other[0] != job->color)
            continue;
        job->comm->size++;
        job->comm->rank += other[1] < job->key || (other[1] == job->key && r < me);
    }
}

static ncclResult_t gather_split(struct en_job *job)
{
    ncclComm_t parent = job->parent;
    emu_host_lost();
    enum en_end end = en_barrier_wait(&parent->manage_watch, &parent->region.head->manage, job->generation);

    emu_host_found();
    if (end != EN_GO)
        return en_fail(parent, end == EN_BROKEN ? ncclInvalidUsage : ncclInternalError,
                       "rank %d of %d: split ended while waiting for the other ranks", parent->rank, parent->size);
    if (job->comm == NULL)
        return ncclSuccess;
    find_new_rank(job);
    derive_id(job->comm, job, job->color);
    return en_join_post(job->comm);
}

static ncclResult_t join(struct en_job *job)
{
    return job->comm == NULL ? ncclSuccess : en_join_wait(job->comm);
}

static ncclResult_t finalize(struct en_job *job)
{
    en_order_drain(job->comm);
    return ncclSuccess;
}

static ncclResult_t post_window(struct en_job *job)
{
    return en_window_post(job->window);
}

static ncclResult_t wait_window(struct en_job *job)
{
    return en_window_wait(job->window);
}

enum { PHASES = 3 };
typedef ncclResult_t phase_fn(struct en_job *job);

static phase_fn *const phases[][PHASES] = {
    [EN_INIT] = {post_init, NULL, join},
    [EN_SPLIT] = {post_split, gather_split, join},
    [EN_SHRINK] = {post_shrink, NULL, join},
    [EN_FINALIZE] = {finalize, NULL, NULL},
    [EN_WINDOW] = {post_window, wait_window, NULL},
};

static int same_parent_before(const struct en_job *jobs, const struct en_job *job)
{
    int before = 0;

    for (const struct en_job *j = jobs; j != job; j = j->next)
        before += job->parent != NULL && j->parent == job->parent;
    return before;
}

/* A communicator has one barrier, so its second split in a group runs in a second round. */
static ncclResult_t run_round(struct en_job *jobs, int round, bool *any)
{
    ncclResult_t rc = ncclSuccess;

    *any = false;
    for (int phase = 0; phase < PHASES; phase++)
        for (struct en_job *job = jobs; job != NULL && rc == ncclSuccess; job = job->next) {
            if (same_parent_before(jobs, job) != round)
                continue;
            *any = true;
            if (phases[job->kind][phase] != NULL)
                rc = phases[job->kind][phase](job);
        }
    return rc;
}

ncclResult_t en_jobs_run(struct en_job *jobs)
{
    ncclResult_t rc = ncclSuccess;
    bool any = true;

    for (int round = 0; any && rc == ncclSuccess; round++)
        rc = run_round(jobs, round, &any);
    return rc;
}
