/*
 * timeline_peers.h - operations of a communicator on the timeline that the processes of a job share.
 */
#ifndef EMU_NCCL_TIMELINE_PEERS_H
#define EMU_NCCL_TIMELINE_PEERS_H

#include "comm.h"

/* In the two halves of joining a communicator. Afterwards comm->on_job_timeline tells whether its ranks meet. */
void en_post_timeline_name(ncclComm_t comm);
void en_join_timeline(ncclComm_t comm);

bool en_find_peers(struct en_plan *plan); /* of a communicator whose ranks meet; false: it on_job_timeline nobody */

#endif
