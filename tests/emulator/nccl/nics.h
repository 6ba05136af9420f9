/*
 * nics.h - how many GPUs use this rank's NIC at once, where several have one between them. What other processes do is
 * not known when it is reckoned what an operation loses, so they are taken to do what this rank does, at the same time,
 * each with the ranks that stand beside this rank's own, as in training.
 */
#ifndef EMU_NCCL_NICS_H
#define EMU_NCCL_NICS_H

#include "comm.h"

/* Of a collective, this rank among them: members of the communicator, and those whose own one would have several nodes. */
int en_count_callers(ncclComm_t comm);
/* Of an exchange: those of whose messages as many bytes or more would go to other nodes as would not. */
int en_count_senders(ncclComm_t comm, const struct en_task *tasks, int n);

#endif
