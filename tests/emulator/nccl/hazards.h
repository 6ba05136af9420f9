/* hazards.h - what keeps the host inside a call of the real NCCL, each switched on by environment (../README.md). */
#ifndef EMU_NCCL_HAZARDS_H
#define EMU_NCCL_HAZARDS_H

#include "comm.h"

/* A new communicator: what it made on the GPU, and whether all its algorithms are connected from the start. */
void en_hazards_join(ncclComm_t comm);

/* The first collective of an algorithm connects its ranks. In two halves, so that one thread can do so for several
 * ranks: post comes to the others, wait stays until all have come. */
void en_connect_post(ncclComm_t comm, const struct en_task *task);
ncclResult_t en_connect_wait(ncclComm_t comm);

/* The work FIFO: a plan takes room, which the end of its kernel gives back; the host waits for room. */
void en_fifo_take(struct en_plan *plan);
void en_fifo_free(struct en_plan *plan);

/* When a collective begins on this rank, that came at own_ns and the last one of all at latest_ns. A rank that only gives
 * need not wait for those who take, as long as the buffers between them have room. On the running operation's thread. */
int64_t en_begin_ns(ncclComm_t comm, const struct en_task *task, int64_t own_ns, int64_t latest_ns);

#endif
