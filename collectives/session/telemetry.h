/*
 * telemetry.h - what is known about a row besides its times: what NCCL chose for it (profiler.h) and the state of the
 * GPUs around it (cuda/device/nvml.h). Nothing of it happens while something is timed.
 */
#ifndef BB_COLLECTIVES_SESSION_TELEMETRY_H
#define BB_COLLECTIVES_SESSION_TELEMETRY_H

#include "bootstrap/results/results.h"
#include "bootstrap/world/world.h"
#include "collectives/session/profiler.h"
#include "collectives/session/tuner.h"
#include "cuda/device/nvml.h"

/* Zeroed is empty. */
struct bb_telemetry {
    struct bb_nvml nvml;
    bool no_nvml; /* no rank has NVML: nothing to gather */
    bool mig, mps; /* on any rank's GPU                   */
};

/* Of one row, plain data. */
struct bb_telemetry_row {
    struct bb_choice choice;             /* on this rank                               */
    struct bb_tuner_costs costs;         /* what NCCL chose from, with the tuner only  */
    struct bb_nvml_sample before, after; /* of this rank's GPU                         */
    bool sampled;                        /* NVML told both                              */
    unsigned gpu_flags;                     /* bits of enum bb_nvml_flag, over all ranks  */
};

/*
 * bb_telemetry_open - all ranks together; rank 0 says what is missing. The plugin is offered to NCCL elsewhere, before
 * its first call.
 */
int bb_telemetry_open(struct bb_telemetry *o, struct bb_world *world,
                      const struct bb_device_info *device) BB_MUST_CHECK;

/* bb_telemetry_save - "mig" and "mps" into the results: true, false, or null where NVML told nothing. */
int bb_telemetry_save(const struct bb_telemetry *o, struct bb_results *results) BB_MUST_CHECK;

void bb_telemetry_release(struct bb_telemetry *o);

/* Around the warm-up: NCCL tells what it chose there. o may be NULL: nothing is observed. */
void bb_telemetry_begin_warmup(const struct bb_telemetry *o);
void bb_telemetry_begin_timing(const struct bb_telemetry *o, struct bb_telemetry_row *seen); /* warm-up done, timing begins */

/* bb_telemetry_end_timing_local - timing done, on this rank alone: `doubts` are its own. */
void bb_telemetry_end_timing_local(const struct bb_telemetry *o, struct bb_telemetry_row *seen);

/* bb_telemetry_end_timing - timing done; all ranks together. */
int bb_telemetry_end_timing(const struct bb_telemetry *o, struct bb_world *world, struct bb_telemetry_row *seen) BB_MUST_CHECK;

/* bb_telemetry_gpu - {before, after} of this rank's GPU; null where NVML told nothing. */
json_t *bb_telemetry_gpu(const struct bb_telemetry_row *seen);

#endif
