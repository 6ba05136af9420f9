/*
 * telemetry.h - data about a result other than its times: the algorithm and protocol that NCCL chose (profiler.h,
 * tuner.h), and the state of the GPUs before and after the timed operations (cuda/device/nvml.h). Call these functions
 * only outside of timed sections.
 *
 *   bb_telemetry_begin_warmup(&o);               then run the warm-up operations: NCCL's choice is recorded
 *   bb_telemetry_begin_timing(&o, &row);         then run the timed operations
 *   bb_telemetry_end_timing(&o, &world, &row);
 */
#ifndef BB_COLLECTIVES_SESSION_TELEMETRY_H
#define BB_COLLECTIVES_SESSION_TELEMETRY_H

#include "bootstrap/results/results.h"
#include "bootstrap/world/world.h"
#include "collectives/session/profiler.h"
#include "collectives/session/tuner.h"
#include "cuda/device/nvml.h"

/* State of the telemetry in a run: the NVML library and properties of the GPUs. A zero-initialized struct is empty. */
struct bb_telemetry {
    struct bb_nvml nvml;
    bool no_nvml;  /* no rank could load NVML, so GPU states are not read */
    bool mig, mps; /* mig: at least one rank's GPU is a MIG instance; mps: at least one rank's GPU is used through
                      MPS */
};

/* Telemetry of one result on one rank. Plain data without pointers, so that ranks can exchange the struct. */
struct bb_telemetry_row {
    struct bb_choice choice;             /* algorithm, protocol and channels that NCCL chose on this rank */
    struct bb_tuner_costs costs;         /* NCCL's cost table; valid only if the tuner plugin is enabled */
    struct bb_nvml_sample before, after; /* state of this rank's GPU immediately before and after the timed
                                            operations */
    bool sampled;                        /* whether `before` and `after` contain data from NVML */
    unsigned gpu_flags; /* bits of enum bb_nvml_flag for this rank's GPU; bb_telemetry_end_timing combines the bits
                           of all ranks */
};

/*
 * bb_telemetry_open - load NVML on every rank. Rank 0 prints warnings: NVML missing, MIG, MPS. The caller has enabled
 * the profiler plugin (bb_profiler_enable) before the first NCCL call. Collective over all ranks.
 */
int bb_telemetry_open(struct bb_telemetry *o, struct bb_world *world,
                      const struct bb_device_info *device) BB_MUST_CHECK;

/* bb_telemetry_save - write the keys "mig" and "mps" (whether a GPU uses MIG or MPS) to the results; their values
 * are null without NVML. */
int bb_telemetry_save(const struct bb_telemetry *o, struct bb_results *results) BB_MUST_CHECK;

void bb_telemetry_release(struct bb_telemetry *o);

/* bb_telemetry_begin_warmup - start recording NCCL's choice. If o is NULL, this function and the following ones
 * record nothing. */
void bb_telemetry_begin_warmup(const struct bb_telemetry *o);

/* bb_telemetry_begin_timing - stop recording NCCL's choice and cost table, and read the GPU state before the timed
 * operations into seen->before. Call after the warm-up. */
void bb_telemetry_begin_timing(const struct bb_telemetry *o, struct bb_telemetry_row *seen);

/* bb_telemetry_end_timing_local - read the GPU state after the timed operations into seen->after. seen->gpu_flags
 * then contains only the flags of this rank. */
void bb_telemetry_end_timing_local(const struct bb_telemetry *o, struct bb_telemetry_row *seen);

/* bb_telemetry_end_timing - call bb_telemetry_end_timing_local, then combine seen->gpu_flags (bitwise OR) over all
 * ranks. Collective over all ranks. */
int bb_telemetry_end_timing(const struct bb_telemetry *o, struct bb_world *world,
                            struct bb_telemetry_row *seen) BB_MUST_CHECK;

/* bb_telemetry_gpu - return the state of this rank's GPU as {before, after}; null without NVML. The caller owns the
 * value. */
json_t *bb_telemetry_gpu(const struct bb_telemetry_row *seen);

#endif
