/*
 * sharing.h - how many GPUs use a shared resource of this rank at the same time: its NIC, if several GPUs share it, and
 * the oversubscribed uplinks of its leaf and pod. Needed when the processes have no common timeline. What other
 * processes do is unknown then, so each is assumed to do the same as this rank at the same time, in the communicator of
 * its own neighbours (as in data-parallel and tensor-parallel training).
 */
#ifndef EMU_NCCL_SHARING_H
#define EMU_NCCL_SHARING_H

#include "comm.h"

int en_machine_rank(ncclComm_t comm, int member); /* its rank if all nodes had the profile's gpus_per_node */
bool en_is_shared(enum en_shared_resource resource);

/* Fills comm->placement and comm->sharers for collectives, once all members are known. sharers.others counts GPUs
 * whose communicator would use the resource too. */
void en_find_sharers(ncclComm_t comm);
/* Whether the messages of this rank use a resource that other GPUs share. */
bool en_shares_with_peers(const struct bb_link_load *load);
/* For an exchange: the number of GPUs, not counting peers, that share the resource and at least half of whose bytes
 * would use it. */
int en_count_senders(ncclComm_t comm, enum en_shared_resource resource, const struct en_task *tasks, int n);

#endif
