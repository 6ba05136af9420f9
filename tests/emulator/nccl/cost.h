/*
 * cost.h - virtual time of NCCL operations, by the cost models of proxies/simulation/machine. If the profile has no
 * NCCL variants, a tuner plugin chooses among the factors on the alpha-beta model that README.md lists.
 */
#ifndef EMU_NCCL_COST_H
#define EMU_NCCL_COST_H

#include "comm.h"

/* Time of a collective in ns with the algorithm and protocol of the task; -1 if unsupported. A communicator of one
 * rank copies. */
int64_t en_collective_ns(ncclComm_t comm, const struct en_task *task);
/* The factor by which NCCL multiplies this time before it chooses (bb_nccl_choice_factor). */
double en_choice_factor(ncclComm_t comm, const struct en_task *task);
/* Sets the fastest algorithm and protocol of the machine's cost model; RING and SIMPLE if the profile has no
 * variants. */
void en_choose_fastest(ncclComm_t comm, struct en_task *task);
int en_channels(ncclComm_t comm); /* number of channels of a collective; each takes one SM */
bool en_has_variants(void);       /* whether the profile has NCCL variants */
int64_t en_copy_ns(size_t bytes); /* of a copy inside one device, read and written */

/* Time for which the messages of one exchange keep this rank's links busy. */
struct bb_link_load;
double en_load_ns(ncclComm_t comm, const struct bb_link_load *load);
/* Time of a message to or from a member, from the later arrival of its two ends to its end. load_a_ns, load_b_ns:
 * link times of the two ends (en_load_ns). messages: the larger bb_group_messages of the two ends. */
int64_t en_message_ns(ncclComm_t comm, int peer, double load_a_ns, double load_b_ns, int messages);

bool en_find_demand(struct en_plan *plan); /* fills plan->demand; returns false if the plan uses no shared resource */

#endif
