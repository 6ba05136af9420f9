/*
 * choice.h - algorithm and protocol of a collective. The default is the fastest NCCL variant of the machine's profile;
 * RING and SIMPLE if the profile has no variants. NCCL_ALGO and NCCL_PROTO restrict the choice; if no variant is left, the
 * operation fails, as since NCCL 2.22. A tuner plugin inside the program (NCCL_TUNER_PLUGIN=STATIC_PLUGIN)
 * or a library (a path), symbol ncclTunerPlugin_v5, may change the table of estimated costs, as in NCCL; then the cheapest entry runs.
 */
#ifndef EMU_NCCL_CHOICE_H
#define EMU_NCCL_CHOICE_H

#include "comm.h"

const char *en_algorithm_name(int algorithm); /* NCCL's names: "TREE", "RING", ... */
const char *en_protocol_name(int protocol);

void en_tuner_join(ncclComm_t comm);  /* called when the communicator is complete */
void en_tuner_leave(ncclComm_t comm); /* called when the handle is retired, even if the communicator never joined */

/* Checks NCCL_ALGO and NCCL_PROTO, and warns of variables that restrict NCCL but are not modelled. */
ncclResult_t en_check_settings(ncclComm_t comm);

/* Sets algorithm and protocol of a task. us: out, the estimated time in us; -1 for an operation made of messages. */
ncclResult_t en_choose(ncclComm_t comm, struct en_task *task, double *us);

#endif
