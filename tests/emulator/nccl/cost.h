/*
 * cost.h - how long an operation takes in virtual time: what the machine says of it (proxies/machine), and, where its
 * profile has no ways of NCCL, what README.md makes of the simple law for a tuner that asks for other ones.
 */
#ifndef EMU_NCCL_COST_H
#define EMU_NCCL_COST_H

#include "comm.h"

/* ns of a collective by its algorithm and protocol, -1 where they cannot do it. One rank copies. */
int64_t en_collective_ns(ncclComm_t comm, const struct en_task *task);
/* Gives it the algorithm and protocol that the machine's law takes: the quickest; RING and SIMPLE where it has none. */
void en_choose_fastest(ncclComm_t comm, struct en_task *task);
int en_channels(ncclComm_t comm); /* multiprocessors that a collective takes, one each */
bool en_has_variants(void);       /* of NCCL, in its profile */
int64_t en_copy_ns(size_t bytes); /* inside one device: read and written */

/* What this rank's messages of one exchange keep its links busy. */
struct bb_link_load;
double en_load_ns(ncclComm_t comm, const struct bb_link_load *load);
/* A message to or from a member: from the later arrival of its two ends to its own; loads of both ends. */
int64_t en_message_ns(ncclComm_t comm, int peer, double load_a_ns, double load_b_ns);

bool en_find_demand(struct en_plan *plan); /* false: it takes nothing of what is shared */

#endif
