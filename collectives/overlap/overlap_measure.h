/*
 * overlap_measure.h - measures GEMMs on one stream and collectives on a high-priority stream, alone and concurrently.
 * The host enqueues all GEMMs and collectives of a sample before the GPU starts them at a common, delayed time.
 */
#ifndef BB_COLLECTIVES_OVERLAP_OVERLAP_MEASURE_H
#define BB_COLLECTIVES_OVERLAP_OVERLAP_MEASURE_H

#include "bootstrap/base/stats.h"
#include "collectives/measure/bench_context.h"
#include "collectives/overlap/overlap_metrics.h"
#include "collectives/overlap/overlap_options.h"
#include "collectives/session/session.h"
#include "cuda/compute/gemm.h"

/* CUDA events of a sample, in the order in which they are recorded. */
enum bb_overlap_event { BB_EVENT_BEGIN, BB_EVENT_COMM_END, BB_EVENT_COMPUTE_END, BB_OVERLAP_EVENTS };

struct bb_overlap_context {
    const struct bb_bench_overlap_options *options;
    struct bb_bench_context coll; /* enqueues and verifies the collectives; its arena is part of `slots` */
    struct bb_native native;
    cudaStream_t compute;
    cudaEvent_t events[BB_OVERLAP_EVENTS];
    struct bb_gemm_lib lib;
    struct bb_gemm gemm;
    struct bb_guarded matrices; /* one device memory allocation for the GEMM's matrices A, B and C */
    struct bb_guarded slots;    /* two slots (case.h) for the largest collective; only the last timed collective of a
                                result row uses the second slot, which is then verified */
    bool delay_start; /* true: a timed kernel delays the common start; false if ranks share a GPU, because the timed
                         kernel would block other ranks */
    double gemm_us;   /* sum over the rows of this rank's median of BB_COMPUTE_ALONE */
    cudaGraphExec_t graph; /* collectives of a sample, only during the measurement of a row with work->graph */
    double *samples;       /* [BB_OVERLAP_TIMES][repeats] times of this rank in us; combine_ranks replaces each by the
                        maximum over the ranks */
};

/*
 * bb_overlap_context_init - allocate streams, events, GEMM and buffers.
 *   s, options  borrowed until bb_overlap_context_release; s has set up the GPUs
 *   slot_bytes  size of one slot (send and receive buffers of one operation) of the largest collective; 0: the caller
 *               sets ctx->slots before each measurement, and to zero before the release
 *   Returns     0, or a negative error code after printing an error
 *   Owner       the caller calls bb_overlap_context_release, also after an error
 */
int bb_overlap_context_init(struct bb_overlap_context *ctx, struct bb_session *s,
                            const struct bb_bench_overlap_options *options, size_t slot_bytes) BB_MUST_CHECK;
void bb_overlap_context_release(struct bb_overlap_context *ctx);
/* bb_overlap_context_bytes - return the device memory that bb_overlap_context_init allocates. */
size_t bb_overlap_context_bytes(const struct bb_gemm_shape *gemm_shape, size_t slot_bytes,
                                const struct bb_allocator *from);

/* The calls of one sample: `collectives` calls of the collective c on the communicator comm, and `gemms` GEMMs. */
struct bb_overlap_work {
    struct bb_comm *comm;
    struct bb_case c;
    int gemms, collectives;
    bool graph; /* launch the collectives as a CUDA graph */
};

struct bb_overlap_result {
    struct bb_stats us[BB_OVERLAP_TIMES]; /* [enum bb_overlap_time] statistics over the samples; the time of a sample
                                             is that of its slowest rank, for all calls of the sample together */
    bool checked;
    unsigned long long wrong;      /* wrong elements, summed over all ranks */
    struct bb_wrong_element first; /* valid if wrong > 0 */
    struct bb_telemetry_row seen;  /* telemetry: algorithm and protocol chosen by NCCL (recorded during warm-up), and
                                     GPU state before and after the samples */
};

/*
 * bb_overlap_measure - measure and verify one result row. Collective over all ranks.
 *   result   out: equal on all ranks
 *   Returns  0, or a negative error code after printing an error
 */
int bb_overlap_measure(struct bb_overlap_context *ctx, const struct bb_overlap_work *work,
                       struct bb_overlap_result *result) BB_MUST_CHECK;

#endif
