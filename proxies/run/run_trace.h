/*
 * run_trace.h - from the events of a traced step on every rank to one timeline (timeline.h) on rank 0.
 */
#ifndef BB_PROXIES_RUN_RUN_TRACE_H
#define BB_PROXIES_RUN_RUN_TRACE_H

#include "cuda/device/device.h"
#include "proxies/run/step_measure.h"
#include "proxies/timeline/timeline.h"

/*
 * bb_run_trace_save - collective over the world: rank 0 gathers the newest traced step of m, in pieces that take at
 * most 16 MiB on each rank, and writes it to path. devices[world.size]. -BB_EFAIL or -BB_EUSAGE, said, on every rank.
 */
int bb_run_trace_save(struct bb_runner *r, const struct bb_step *step, const struct bb_measured *m,
                      const struct bb_device_info *devices, const char *path) BB_MUST_CHECK;

#endif
