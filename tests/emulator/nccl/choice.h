/*
 * choice.h - algorithm and protocol of a collective. Left alone, the stand-in takes the quickest way of NCCL's that the
 * machine's profile knows; of one that knows none, RING and SIMPLE. A tuner plugin inside the program
 * (NCCL_TUNER_PLUGIN=STATIC_PLUGIN, symbol ncclTunerPlugin_v5) sees the table of estimated costs and may change it, as
 * in NCCL; then the cheapest entry is what runs.
 */
#ifndef EMU_NCCL_CHOICE_H
#define EMU_NCCL_CHOICE_H

#include "comm.h"

const char *en_algorithm_name(int algorithm); /* NCCL's words: "TREE", "RING", ... */
const char *en_protocol_name(int protocol);

void en_tuner_join(ncclComm_t comm);  /* it is complete                                       */
void en_tuner_leave(ncclComm_t comm); /* its handle goes away; fine for one that never joined */

/* Fills algorithm and protocol of a task; returns what the table says of them in us, -1 for what has none. */
double en_choose(ncclComm_t comm, struct en_task *task);

#endif
