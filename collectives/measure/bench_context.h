/*
 * bench_context.h - the state with which a rank measures a case (a collective with its parameters, case.h), and the
 * metrics of a case. measure.c measures a case from warm-up to verification; enqueue.c, verify.c, nccl_estimate.c and
 * timing.c implement the steps.
 *
 * Terms: A measurement is one call of bb_measure: one case in one timing mode (timing.h). An iteration is one
 * operation, or several operations in one NCCL group (-m). A sample is the time of one or more iterations, divided by
 * the number of operations. A batch is the group of samples that is measured before the stopping rule is evaluated
 * again. A slot is the part of the memory arena that contains the buffers of one operation (case.h).
 */
#ifndef BB_COLLECTIVES_MEASURE_BENCH_CONTEXT_H
#define BB_COLLECTIVES_MEASURE_BENCH_CONTEXT_H

#include "bootstrap/base/stats.h"
#include "bootstrap/world/comms.h"
#include "collectives/measure/case.h"
#include "collectives/measure/iteration_events.h"
#include "collectives/measure/sampling_options.h"
#include "collectives/measure/stopping.h"
#include "collectives/ops/launch.h"
#include "collectives/session/telemetry.h"
#include "cuda/compute/start_barrier.h"
#include "cuda/data/buffers.h"
#include "cuda/device/device.h"
#include "cuda/device/nvtx.h"

#include <stdio.h>

enum {
    BB_NVTX_WORLD = 1
}; /* NVTX category of the ranges of all measurements; shown under the name of the measured communicator */

struct bb_mode;   /* defined in timing.h */
struct bb_sample; /* defined in timing.h */

/* Quantities that a measurement records, in microseconds per operation. Each has one value per sample, combined over
 * the ranks of this rank's --split group (bb_rank_aggregation). */
enum bb_series {
    BB_SERIES_TIME, /* the time that the measurement reports: a copy of BB_SERIES_GPU, BB_SERIES_HOST or
                       BB_SERIES_WALL, as -C and --clock select */
    BB_SERIES_GPU,  /* GPU time between the CUDA events before and after the operations */
    BB_SERIES_HOST, /* host time to enqueue the operation */
    BB_SERIES_WALL, /* host time from the call until the host's wait for completion returns; NaN if the mode does not
                       measure it */
    BB_SERIES_ARRIVAL_SPREAD, /* sync mode: time from the arrival of the first rank to the arrival of the last rank
                                 (struct bb_skew) */
    BB_SERIES_TRANSFER, /* sync mode: GPU time of the rank that arrives last, which does not wait for other ranks */
    BB_SERIES_COUNT
};

/* State with which a rank measures cases (a case is a collective with its size, type and other parameters, case.h). */
struct bb_bench_context {
    struct bb_world *world;
    struct bb_comm *comm;
    const struct bb_native *native;
    const struct bb_device_info *device;
    const struct bb_mode *mode;     /* timing mode (timing.h) of the current table */
    const struct bb_mode *modes[3]; /* timing modes of the run */
    int n_modes;
    struct bb_nvtx nvtx;
    cudaStream_t stream;
    cudaEvent_t start, stop;
    struct bb_guarded arena;     /* memory arena of all buffers, divided into slots (a slot has the buffers of one
                                operation, case.h) */
    struct bb_verdict *verdicts; /* [2] device memory: number of wrong bytes or elements in the receive buffer [0]
                                    and in the guard zones around it [1] */
    int iterations, repeats, warmup, checks;
    int aggregate;             /* operations per iteration, in one NCCL group; 0 means 1 */
    enum bb_blocking blocking; /* whether the host waits after each iteration (-z) */
    int graph_launches;        /* graph mode: launches per sample */
    bool host_time;   /* report the host time to enqueue the operations (-C) instead of the time until the operations
                       complete */
    bool host_clock;  /* report the time on the host clock, from the first call until the wait for completion returns
                        (--clock host) */
    bool both_clocks; /* --clock both: after the samples timed by CUDA events, take one more sample timed by the host
                         clock */
    enum bb_rank_aggregation rank_aggregation; /* how the times of all ranks are combined into one sample */
    const int *groups; /* [size] index of the --split group of each world rank, borrowed; NULL: one group. `comm` is
                          the communicator of this rank's group */
    const struct bb_mulsums *mulsums;
    struct bb_iteration_events *iteration_events; /* CUDA events before and after each iteration in the last sample
                                                     of a measurement; NULL: none */
    const struct bb_telemetry *observer;          /* records NCCL's choice and the GPU's state; NULL: not recorded */
    void *sync_byte; /* device memory, 1 byte, for the all_reduce that synchronizes the ranks */
    uint64_t passes; /* number of calls of bb_verify_prepare so far; seeds the test data, so that each call writes
                        different data */

    const double *delays_us; /* [size] time in us by which each rank enters the operation late on purpose (--delay,
                                sync mode), borrowed; NULL: none */
    const struct bb_device *device_kernels; /* run the operations on NCCL's device API (ops/device.h); NULL: by NCCL */
    bool estimates;                         /* add NCCL's own estimate to the metrics */
    bool symmetric;                         /* the arena is a symmetric window; equal on all ranks */
    bool copy_engines; /* NCCL may run collectives by copy engines: symmetric windows and CTA policy 2 */
    bool auto_warmup;
    struct bb_stopping policy; /* stopping rule of the current timing mode */
    size_t max_iterations;     /* maximum number of timed iterations of a measurement if the stopping rule may request
                              more samples; 0: no more samples after the first batch */
    struct bb_start_barrier start_barrier;
    int64_t start_barrier_limit_ns;
    size_t fifo_bytes;          /* bb_fifo_capacity(), minimum of all ranks */
    bool uses_start_barrier;    /* stream mode: a start barrier holds the operations until all ranks have enqueued them;
                                equal on all ranks */
    bool start_barrier_expired; /* the start barrier (see uses_start_barrier) once reached its time limit on this
                                   rank, so this rank no longer closes it */
    bool connected; /* an operation of this measurement has completed, so NCCL's connections exist and a start
                       barrier may be closed */
    /* Samples between two evaluations of the stopping rule. batch: [n] of this rank; all_batches: [size * n] of all
     * ranks; n: maximum of bb_mode_batch over the timing modes of the run. */
    struct bb_sample *batch, *all_batches;
    double *series[BB_SERIES_COUNT]; /* [enum bb_series][sample] all samples of a measurement, each combined over the
                                        ranks of this rank's --split group */
    size_t *times_last; /* [size] number of samples in which each rank arrived last at the operation (sync mode) */
};

/* The first wrong element that the verification of a measurement found, for the error message. */
struct bb_wrong_element {
    int rank;                  /* rank in the job */
    uint64_t index, got, want; /* got, want: bit patterns of the received and of the expected element */
    bool outside;              /* true: the receive buffer is correct, but bytes outside of it were overwritten */
};

/*
 * Arrival skew of the ranks, measured in sync mode. To compare arrivals, each rank measures the time from its own
 * arrival to a common point in time that all ranks reach simultaneously. The shorter this time, the later the rank
 * arrived. In some collectives all ranks complete simultaneously, because each rank needs the data of every other rank:
 * the common point in time is then the completion of the collective. For other operations it is the completion of a
 * small untimed all_reduce after the operation. Only durations on each rank's own clock are compared, so clocks need
 * not be synchronized.
 */
struct bb_skew {
    bool known;
    struct bb_stats spread_us; /* time from the arrival of the first rank to the arrival of the last rank, over the
                                  samples */
    double transfer_us;        /* median of BB_SERIES_TRANSFER; NaN if the collective does not make all ranks complete
                           simultaneously */
    int straggler; /* world rank that arrived last, at least 1 us after the first arrival, in more than half of the
                      samples; -1: none */
    double straggler_share; /* fraction of the samples in which the straggler arrived last */
};

struct bb_metrics {
    struct bb_stats time_us; /* time per operation; each sample combines the times of the ranks in this rank's
                                --split group (bb_rank_aggregation) */
    size_t bytes;            /* size of an operation in bytes (bb_case_bytes) */
    double algbw_gbps;       /* algorithm bandwidth, 1e9 bytes per second: `bytes` / median time (hypercube: only a
                          fraction of `bytes` counts); NaN if the time is 0 */
    double busbw_gbps;       /* bus bandwidth, 1e9 bytes per second; NaN with a single rank */
    struct bb_iteration_metrics iterations; /* set only if ctx->iteration_events is not NULL */
    struct bb_telemetry_row seen;
    double model_us;               /* NCCL's own estimate of the time of one operation in us; NaN: none */
    bool checked;                  /* false: no received data were compared with the expected data */
    unsigned long long wrong;      /* number of wrong elements, summed over all ranks and all verifications of this
                                 measurement (option -c) */
    struct bb_wrong_element first; /* valid if wrong > 0 */
    double host_us;                /* median host time to enqueue one operation */
    double first_us; /* time of the first operation by the host clock, from call to completion; NaN with -w 0 */
    struct bb_stats event_us; /* GPU time between CUDA events; no samples with host_clock except in sync mode */
    struct bb_stats wall_us;  /* time by the host clock, from the call to the end of the wait; with both_clocks: a
                                single sample */
    struct bb_skew skew;
    enum bb_stop stop;       /* reason why sampling stopped */
    unsigned warnings;       /* bits 1 << enum bb_warning */
    int warmed;              /* number of warm-up operations that were executed */
    bool uses_start_barrier; /* a start barrier delayed the operations until all ranks had enqueued them */
};

/* bb_bench_context_aggregate - return the number of operations per iteration, at least 1. */
static inline size_t bb_bench_context_aggregate(const struct bb_bench_context *ctx)
{
    return ctx->aggregate > 1 ? (size_t)ctx->aggregate : 1;
}

/* ---- enqueue.c: enqueue operations on the stream ---- */

/*
 * bb_issue - enqueue n iterations of bb_bench_context_aggregate operations each. Successive operations use successive
 * slots of the arena (a slot has the buffers of one operation, case.h). After each iteration the host waits as
 * ctx->blocking requests.
 *   first     index, within the sample, of the first iteration to enqueue
 *   ends_row  true: the last iteration to enqueue is also the last one of the measurement. Its last operation uses the
 *             last slot, whose data are verified
 */
int bb_issue(struct bb_bench_context *ctx, const struct bb_case *c, size_t first, size_t n,
             bool ends_row) BB_MUST_CHECK;

/* bb_case_launch - enqueue one operation of the case, with the buffers in slot number `slot` of the arena. */
int bb_case_launch(struct bb_bench_context *ctx, const struct bb_case *c, size_t slot) BB_MUST_CHECK;

/* bb_case_slots - return the number of slots (sets of buffers for one operation) of this case in this rank's arena:
 * at least 2 except for large out-of-place cases (case.h). */
size_t bb_case_slots(const struct bb_bench_context *ctx, const struct bb_case *c);

/* bb_bench_context_wait - wait until the stream is idle. Returns an error if the run's timeout expires or if the
 * communicator reports an asynchronous error. `what` names the wait in the error message. */
int bb_bench_context_wait(struct bb_bench_context *ctx, const char *what) BB_MUST_CHECK;

/* ---- verify.c: write test data (pattern.h) to the last slot (buffers of one operation) and verify the received
 * data ---- */

/* bb_verify_prepare - in the last slot (buffers of the last operation), write canary bytes, then this rank's test
 * data to the send buffer. Each call uses different test data. Asynchronous. */
int bb_verify_prepare(struct bb_bench_context *ctx, const struct bb_case *c) BB_MUST_CHECK;

/* bb_verify - compare the receive buffer and guard zones of the last slot with the result expected for the test data
 * that the latest bb_verify_prepare wrote. Collective over all ranks. Adds the number of wrong elements to f->wrong;
 * sets f->checked to false if no data were compared. */
int bb_verify(struct bb_bench_context *ctx, const struct bb_case *c, struct bb_metrics *f) BB_MUST_CHECK;

/*
 * bb_report_wrong_data - print the error line of a measurement with wrong data. Of f, only wrong and first are read.
 * what: the operation, for example "all_reduce of 1024 bytes in place".
 * bb_print_wrong_data  - print the line of a table's end: the wrong elements of all rows and the first rank with any.
 */
void bb_report_wrong_data(const struct bb_world *world, const struct bb_metrics *f, int dtype, const char *what);
void bb_print_wrong_data(FILE *out, const struct bb_world *world, unsigned long long wrong, int rank, const char *end);

/* ---- nccl_estimate.c: NCCL's own estimate of the time (ncclGroupSimulateEnd, NCCL 2.22 or newer) ---- */

/*
 * bb_nccl_estimate - estimate the time of one operation without running it. Collective over all ranks, because NCCL may
 * establish connections. Must not be called during a measurement.
 *   model_us  out: estimate in microseconds; unchanged if NCCL has none: for sends and receives, a single rank, a
 *             non-blocking communicator, and NCCL before 2.22
 */
int bb_nccl_estimate(struct bb_bench_context *ctx, const struct bb_case *c, double *model_us) BB_MUST_CHECK;

/* ---- measure.c: measure one case and verify the data of the timed operations ---- */

/* bb_measure - measure one case (a collective with its parameters). Collective over all ranks. All ranks of a
 * --split group return the same metrics. */
int bb_measure(struct bb_bench_context *ctx, const struct bb_case *c, struct bb_metrics *f) BB_MUST_CHECK;

/*
 * bb_measure_init    - allocate the memory for samples of all timing modes, and the start barrier.
 * bb_measure_release - release the memory and the start barrier. Accepts a partly initialized context.
 */
int bb_measure_init(struct bb_bench_context *ctx) BB_MUST_CHECK;
void bb_measure_release(struct bb_bench_context *ctx);

/* bb_measure_mode - select the timing mode for the next bb_measure calls; `mode` is one of ctx->modes. */
void bb_measure_mode(struct bb_bench_context *ctx, const struct bb_mode *mode);

/* bb_bench_context_mode - return the value of the key "mode" in the JSON results: the name of the timing mode, or
 * "host" with host_time. */
const char *bb_bench_context_mode(const struct bb_bench_context *ctx);

/* bb_bench_context_method - return how operations are timed, as a phrase for the header of the table, such as
 * "operations back to back on one stream ...". */
const char *bb_bench_context_method(const struct bb_bench_context *ctx);

#endif
