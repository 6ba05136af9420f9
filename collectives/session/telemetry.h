/*
 * telemetry.h - data about a row other than its times: NCCL's selection (profiler.h, tuner.h) and the state of the GPUs
 * before and after (cuda/device/nvml.h). All calls are made outside of timed sections.
 *
 *   bb_telemetry_begin_warmup(&o);         warm-up operations, whose events are recorded
 *   bb_telemetry_begin_timing(&o, &row);   timed operations
 *   bb_telemetry_end_timing(&o, &world, &row);
 */
#ifndef BB_COLLECTIVES_SESSION_TELEMETRY_H
#define BB_COLLECTIVES_SESSION_TELEMETRY_H

#include "bootstrap/results/results.h"
#include "bootstrap/world/world.h"
#include "collectives/session/profiler.h"
#include "collectives/session/tuner.h"
#include "cuda/device/nvml.h"

/* Telemetry of a run. A zeroed struct is valid and empty. */
struct bb_telemetry {
    struct bb_nvml nvml;
    bool no_nvml;  /* no rank could load NVML: GPU samples are skipped */
    bool mig, mps; /* true if set for the GPU of any rank */
};

/* Telemetry of one row. Plain data. */
struct bb_telemetry_row {
    struct bb_choice choice;             /* NCCL's selection on this rank */
    struct bb_tuner_costs costs;         /* NCCL's cost table; known only if the tuner plugin is enabled */
    struct bb_nvml_sample before, after; /* state of this rank's GPU */
    bool sampled;                        /* NVML returned both samples */
    unsigned gpu_flags;                  /* bits of enum bb_nvml_flag, combined over all ranks */
};

/*
 * bb_telemetry_open - load NVML on every rank. Collective. Rank 0 prints a warning for missing data, MIG and MPS. The
 * caller enables the profiler plugin before the first NCCL call.
 */
int bb_telemetry_open(struct bb_telemetry *o, struct bb_world *world,
                      const struct bb_device_info *device) BB_MUST_CHECK;

/* bb_telemetry_save - write "mig" and "mps" into the results: true, false, or null without NVML. */
int bb_telemetry_save(const struct bb_telemetry *o, struct bb_results *results) BB_MUST_CHECK;

void bb_telemetry_release(struct bb_telemetry *o);

/* bb_telemetry_begin_warmup - record NCCL's selection from here on. o NULL: the telemetry functions do nothing. */
void bb_telemetry_begin_warmup(const struct bb_telemetry *o);
void bb_telemetry_begin_timing(const struct bb_telemetry *o,
                               struct bb_telemetry_row *seen); /* after the warm-up: read the recorded selection and
                                                                  take the first GPU sample */

/* bb_telemetry_end_timing_local - take the second GPU sample on this rank. seen->gpu_flags then holds the flags of
 * this rank only. */
void bb_telemetry_end_timing_local(const struct bb_telemetry *o, struct bb_telemetry_row *seen);

/* bb_telemetry_end_timing - as bb_telemetry_end_timing_local, then combine seen->gpu_flags over all ranks.
 * Collective. */
int bb_telemetry_end_timing(const struct bb_telemetry *o, struct bb_world *world,
                            struct bb_telemetry_row *seen) BB_MUST_CHECK;

/* bb_telemetry_gpu - return {before, after} of this rank's GPU, or null without NVML samples. The caller owns the
 * value. */
json_t *bb_telemetry_gpu(const struct bb_telemetry_row *seen);

#endif
