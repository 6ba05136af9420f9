/*
 * group.h - groups: what is called between ncclGroupStart and ncclGroupEnd is collected per thread and carried out at
 * the outermost end; a single call is a group of its own. With non-blocking communicators a helper thread carries it
 * out.
 */
#ifndef EMU_NCCL_GROUP_H
#define EMU_NCCL_GROUP_H

#include "comm.h"

enum en_job_kind { EN_INIT, EN_SPLIT, EN_SHRINK, EN_FINALIZE };

/* The making of a communicator (or the end of one), in phases that each go over all jobs of a group. */
struct en_job {
    struct en_job *next;
    enum en_job_kind kind;
    ncclComm_t comm;   /* the new one; NULL in a split without colour; the one to finalise       */
    ncclComm_t parent; /* of a split or a shrink                                                 */
    ncclComm_t *out;   /* where the caller's handle lies; NULLed when a blocking call fails      */
    int color, key;
    uint64_t serial;     /* how many-th split of the parent                                        */
    uint32_t generation; /* of the parent's barrier                                                */
};

ncclResult_t en_group_start(void);
ncclResult_t en_group_end(void);
ncclResult_t en_group_simulate(float *estimated_us);
ncclResult_t en_group_note(ncclResult_t rc); /* a call of a group failed: so does the group; returns rc */

/* Adds to the group of this thread, which must be open. */
ncclResult_t en_group_add_task(ncclComm_t comm, const struct en_task *task);
ncclResult_t en_group_add_job(const struct en_job *job);

/* Carries out the jobs of a group; on failure the new communicators are marked failed. */
ncclResult_t en_jobs_run(struct en_job *jobs);

/* Runs fn(arg) on a helper thread; 0 or an errno. */
int en_pool_run(void (*fn)(void *), void *arg);

#endif
