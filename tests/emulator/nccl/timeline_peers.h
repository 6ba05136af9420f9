/*
 * timeline_peers.h - the ranks of a communicator on the timeline that all processes of a job share
 * (../timeline/timeline.h).
 */
#ifndef EMU_NCCL_TIMELINE_PEERS_H
#define EMU_NCCL_TIMELINE_PEERS_H

#include "comm.h"

/* Part of joining a communicator: post the id of this process's timeline, then compare the ids of all ranks and set
 * comm->on_job_timeline. */
void en_post_timeline_name(ncclComm_t comm);
void en_join_timeline(ncclComm_t comm);

bool en_find_peers(struct en_plan *plan); /* Fills plan->peers for a communicator with on_job_timeline. Returns false
                                             if the plan has no peers, or if out of memory. */

#endif
