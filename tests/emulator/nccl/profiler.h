/*
 * profiler.h - a profiler plugin inside the program, as NCCL takes one up with NCCL_PROFILER_PLUGIN=STATIC_PLUGIN: the
 * symbol ncclProfiler_v5. Told are messages, and collectives with their algorithm and protocol (choice.h). Plugins in
 * files and other versions are not loaded.
 */
#ifndef EMU_NCCL_PROFILER_H
#define EMU_NCCL_PROFILER_H

#include "comm.h"

void en_profiler_join(ncclComm_t comm);  /* it is complete                                       */
void en_profiler_leave(ncclComm_t comm); /* its handle goes away; fine for one that never joined */
void en_profiler_report(ncclComm_t comm, const struct en_task *task);

#endif
