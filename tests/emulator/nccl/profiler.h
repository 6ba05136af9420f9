/*
 * profiler.h - a profiler plugin inside the program, which NCCL uses with NCCL_PROFILER_PLUGIN=STATIC_PLUGIN: the
 * symbol ncclProfiler_v5. The plugin receives events for messages, and for collectives with algorithm and protocol
 * (choice.h). Plugins in files and other versions are not supported.
 */
#ifndef EMU_NCCL_PROFILER_H
#define EMU_NCCL_PROFILER_H

#include "comm.h"

void en_profiler_join(ncclComm_t comm);  /* called when the communicator is complete */
void en_profiler_leave(ncclComm_t comm); /* called when the handle is retired, even if the communicator never joined */
void en_profiler_report(ncclComm_t comm, const struct en_task *task);

#endif
