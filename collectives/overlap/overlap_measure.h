/*
 * overlap_measure.h - gemms on one stream, collectives on another of the highest priority, alone and at the same
 * time, both behind one start.
 */
#ifndef BB_COLLECTIVES_OVERLAP_OVERLAP_MEASURE_H
#define BB_COLLECTIVES_OVERLAP_OVERLAP_MEASURE_H

#include "bootstrap/base/stats.h"
#include "collectives/measure/case.h"
#include "collectives/ops/launch.h"
#include "collectives/overlap/overlap_metrics.h"
#include "collectives/session/telemetry.h"
#include "cuda/compute/gemm.h"
#include "cuda/data/buffers.h"
#include "cuda/device/device.h"
#include "cuda/device/nvtx.h"

struct bb_overlap_context {
    struct bb_world *world;
    const struct bb_device_info *device;
    const struct bb_allocator *memory; /* of the collective's buffers */
    struct bb_native native;
    const struct bb_telemetry *observer; /* NULL: none */
    struct bb_nvtx nvtx;
    cudaStream_t compute, comm, start;
    cudaEvent_t ranks_ready, begin, compute_end, comm_end;
    struct bb_gemm_lib lib;
    struct bb_gemm gemm;
    struct bb_guarded matrices; /* A, B, C                                      */
    struct bb_guarded slots;    /* of the collective: one for all but the last, one for the last, which is verified */
    struct bb_verdict *verdict; /* device memory */
    int repeats, warmup;
    bool delay_start; /* false where ranks share a GPU: the start would keep the others from it */
    uint64_t runs;
    double *samples; /* [BB_OVERLAP_TIMES][repeats] this rank's, then the slowest rank's */
};

/* bb_overlap_context_init - for a gemm_shape and collectives of slots up to slot_bytes. Release works on a half-made one. */
int bb_overlap_context_init(struct bb_overlap_context *ctx, const struct bb_gemm_shape *gemm_shape,
                            size_t slot_bytes) BB_MUST_CHECK;
void bb_overlap_context_release(struct bb_overlap_context *ctx);
size_t bb_overlap_context_bytes(const struct bb_gemm_shape *gemm_shape, size_t slot_bytes,
                                const struct bb_allocator *from);

/* What runs. */
struct bb_overlap_work {
    struct bb_comm *comm;
    struct bb_case c;
    int gemms, collectives;
};

struct bb_overlap_result {
    struct bb_stats us[BB_OVERLAP_TIMES]; /* of all the work; per sample the slowest rank */
    bool checked;
    unsigned long long wrong;     /* elements, over all ranks */
    struct bb_telemetry_row seen; /* of the collective, warming up; of the GPU around all samples */
};

/* bb_overlap_measure - all ranks together; the result is equal on all. */
int bb_overlap_measure(struct bb_overlap_context *ctx, const struct bb_overlap_work *work,
                       struct bb_overlap_result *result) BB_MUST_CHECK;

#endif
