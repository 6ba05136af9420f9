/*
 * group.h - group calls. Calls between ncclGroupStart and ncclGroupEnd are collected per thread and executed at the
 * outermost ncclGroupEnd. A single call is a group of one. With non-blocking communicators a helper thread executes the
 * group.
 */
#ifndef EMU_NCCL_GROUP_H
#define EMU_NCCL_GROUP_H

#include "comm.h"

enum en_job_kind { EN_INIT, EN_SPLIT, EN_SHRINK, EN_FINALIZE, EN_WINDOW };

struct en_window;

/* Creation (or finalisation) of a communicator, or registration of a window, in phases that run over all jobs of a group. */
struct en_job {
    struct en_job *next;
    enum en_job_kind kind;
    ncclComm_t comm;   /* the new communicator (NULL in a split without colour), or the one to finalise */
    ncclComm_t parent; /* of a split, a shrink or a window */
    struct en_window *window;
    ncclComm_t *out; /* where the caller's handle is stored; set to NULL when a blocking call fails */
    int color, key;
    uint64_t serial;     /* number of this split among the parent's splits */
    uint32_t generation; /* of the parent's barrier */
};

ncclResult_t en_group_start(void);
ncclResult_t en_group_end(void);
ncclResult_t en_group_simulate(float *estimated_us);
ncclResult_t en_group_note(ncclResult_t rc); /* a call failed: its group fails too; returns rc */

/* Adds to the open group of this thread. */
ncclResult_t en_group_add_task(ncclComm_t comm, const struct en_task *task);
ncclResult_t en_group_add_job(const struct en_job *job);

/* Executes the jobs of a group. On failure the new communicators are marked failed. */
ncclResult_t en_jobs_run(struct en_job *jobs);

/* Runs fn(arg) on a helper thread. Returns 0 or an errno value. */
int en_pool_run(void (*fn)(void *), void *arg);

#endif
