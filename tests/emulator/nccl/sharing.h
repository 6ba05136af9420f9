/*
 * sharing.h - how many GPUs use this rank's way out at once: its NIC, where several have one between them, and the
 * uplinks of its leaf and its pod, where they are scarce. What other processes do is not known when it is reckoned what
 * an operation loses, so they are taken to do what this rank does, at the same time, each with the ranks that stand
 * beside this rank's own, as in training.
 */
#ifndef EMU_NCCL_SHARING_H
#define EMU_NCCL_SHARING_H

#include "comm.h"

int en_machine_rank(ncclComm_t comm, int member); /* where all nodes have the profile's GPUs */
bool en_is_shared(enum en_shared_resource resource);

/* Of collectives, once all members are known, into comm->spread and comm->company. Others are those whose own one would
 * use that way, too. */
void en_find_sharers(ncclComm_t comm);
/* Whether what this rank sends and receives takes a way out that others have, too. */
bool en_shares_with_peers(const struct bb_link_load *load);
/* Of an exchange, others only, and no peers: those of whose messages as many bytes or more would take that way as would
 * not. */
int en_count_senders(ncclComm_t comm, enum en_shared_resource resource, const struct en_task *tasks, int n);

#endif
