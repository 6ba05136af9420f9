/*
 * bench_context.h - the state with which a rank measures a case, and the resulting metrics. measure.c runs the whole
 * measurement of a row; enqueue.c, verify.c, nccl_estimate.c and timing.h implement its parts.
 */
#ifndef BB_COLLECTIVES_MEASURE_BENCH_CONTEXT_H
#define BB_COLLECTIVES_MEASURE_BENCH_CONTEXT_H

#include "bootstrap/base/stats.h"
#include "bootstrap/world/comms.h"
#include "collectives/measure/case.h"
#include "collectives/measure/iteration_events.h"
#include "collectives/measure/stopping.h"
#include "collectives/ops/launch.h"
#include "collectives/session/telemetry.h"
#include "collectives/sweep/sampling_options.h"
#include "cuda/compute/start_barrier.h"
#include "cuda/data/buffers.h"
#include "cuda/device/device.h"
#include "cuda/device/nvtx.h"

enum { BB_NVTX_WORLD = 1 }; /* NVTX category of a row's range: the communicator of all ranks */

struct bb_mode;   /* timing.h */
struct bb_sample; /* timing.h */

/* Series of a row's samples, aggregated over the ranks of the group, in microseconds per operation. */
enum bb_series {
    BB_SERIES_TIME,           /* the time that the row reports */
    BB_SERIES_GPU,            /* GPU time between events */
    BB_SERIES_HOST,           /* host time to enqueue */
    BB_SERIES_WALL,           /* host time from the call to the end of the wait, or NaN */
    BB_SERIES_ARRIVAL_SPREAD, /* from the arrival of the first rank to the arrival of the last rank */
    BB_SERIES_TRANSFER,       /* GPU time of the rank that arrives last and therefore does not wait: transfer only */
    BB_SERIES_COUNT
};

/* State with which a rank measures. Initialised by sweep/bench.c. */
struct bb_bench_context {
    struct bb_world *world;
    struct bb_comm *comm;
    const struct bb_native *native;
    const struct bb_device_info *device;
    const struct bb_mode *mode;     /* mode of the current table */
    const struct bb_mode *modes[3]; /* modes of the run */
    int n_modes;
    struct bb_nvtx nvtx;
    cudaStream_t stream;
    cudaEvent_t start, stop;
    struct bb_guarded arena;     /* divided into slots, see case.h */
    struct bb_verdict *verdicts; /* [2] device memory: result for the data, result for the guard zones */
    int iterations, repeats, warmup, checks;
    int aggregate;             /* operations per iteration, in one NCCL group; 0 means 1 */
    enum bb_blocking blocking; /* whether the host waits between iterations */
    int graph_launches;        /* mode graph: launches per sample */
    bool host_time;            /* samples are the host time to enqueue instead of the time to completion */
    bool host_clock;           /* samples are measured on the host clock, from the first call to the end of the wait */
    bool both_clocks;          /* one additional sample on the host clock, after those between events */
    enum bb_rank_aggregation rank_aggregation; /* how the values of all ranks are combined into one sample */
    const int *groups; /* [size] group of each world rank, borrowed; NULL: a single group. comm is the communicator
                          of this rank's group */
    const struct bb_mulsums *mulsums;
    struct bb_iteration_events
        *iteration_events;               /* events between the iterations of each row's last sample; NULL: none */
    const struct bb_telemetry *observer; /* records NCCL's choices and the GPU's state; NULL: none */
    void *sync_byte;                     /* device memory for the all_reduce that synchronises the ranks */
    uint64_t passes;                     /* verified operations so far; each has its own test data */

    /* Sampling: */
    const double *delays_us; /* [size] artificial delay of each rank (mode sync), borrowed; NULL: none */
    bool auto_warmup;
    struct bb_stopping policy; /* stopping rule of the current mode */
    size_t max_iterations;     /* maximum number of timed iterations of a row with several batches; 0: every row has one
                              batch */
    struct bb_start_barrier start_barrier;
    int64_t start_barrier_limit_ns;
    bool uses_start_barrier;    /* mode stream: a start barrier holds the operations; equal on all ranks */
    bool start_barrier_expired; /* the start barrier timed out once on this rank, which does not close it again */
    bool connected;             /* an operation of this row has completed, so no later operation has to connect */
    struct bb_sample *batch, *all_batches; /* samples of one batch: [batch] of this rank, [size * batch] of all ranks */
    double *series[BB_SERIES_COUNT];       /* [max_iterations + batch] samples of the group, of all batches of a row */
    size_t *times_last;                    /* [size] number of samples in which the rank arrived last */
};

/* The first wrong element of a row, for the error message. */
struct bb_wrong_element {
    int rank;
    uint64_t index, got, want; /* got, want: bits of the element */
    bool outside;              /* a byte outside the receive buffer was overwritten */
};

/*
 * Arrival skew of the ranks, from mode sync. In some collectives all ranks complete at the same time, because each rank
 * needs the data of every other rank. After other operations an untimed small all_reduce provides such a common point
 * in time. The time from a rank's arrival to the common point is shorter the later the rank arrives. For operations
 * that complete on all ranks at the same time, the GPU time of the last rank to arrive is the transfer time. Only
 * durations on each rank's own clock are compared, never absolute times.
 */
struct bb_skew {
    bool known;
    struct bb_stats spread_us; /* from the first arrival to the last arrival */
    double transfer_us;        /* median; NaN for operations that do not complete on all ranks at the same time */
    int straggler; /* world rank that arrived last, by at least 1 us, in more than half of the samples; -1: none */
    double straggler_share; /* fraction of the samples in which the straggler arrived last */
};

struct bb_metrics {
    struct bb_stats time_us; /* per operation; each sample combines the ranks of the group (bb_rank_aggregation) */
    size_t bytes;            /* payload per operation */
    double algbw_gbps;       /* counted bytes / median time, 1e9 bytes per second; NaN if the time is 0 */
    double busbw_gbps;       /* NaN for a single rank */
    double factor;           /* busbw / algbw                                                 */
    struct bb_iteration_metrics iterations; /* only with iteration_events */
    struct bb_telemetry_row seen;
    double model_us;               /* NCCL's own estimate of one operation; NaN: none */
    bool checked;                  /* false: the data was not compared */
    unsigned long long wrong;      /* wrong elements over all ranks and verified operations */
    struct bb_wrong_element first; /* valid if wrong > 0 */
    double host_us;                /* median host time to enqueue one operation */
    double first_us; /* time of the row's first operation on the host clock, from call to completion; NaN with -w 0 */
    struct bb_stats event_us; /* GPU time between events, whichever clock time_us uses */
    struct bb_stats wall_us;  /* host clock, from the call to the end of the wait; with both_clocks a single sample */
    struct bb_skew skew;
    enum bb_stop stop;       /* why sampling stopped */
    unsigned warnings;       /* bits 1 << enum bb_warning                                     */
    int warmed;              /* operations before the first sample */
    bool uses_start_barrier; /* operations started only after all ranks had enqueued them */
};

/* bb_bench_context_aggregate - operations of one iteration, at least 1. */
static inline size_t bb_bench_context_aggregate(const struct bb_bench_context *ctx)
{
    return ctx->aggregate > 1 ? (size_t)ctx->aggregate : 1;
}

/* ---- enqueue.c: enqueues operations on the stream, in consecutive slots, with or without groups and waits ---- */

/*
 * bb_issue - enqueue n iterations of bb_bench_context_aggregate operations each. Between iterations the host waits as
 * ctx->blocking requests.
 *   first     index of the first of these iterations
 *   ends_row  the very last operation uses the last slot, whose data is verified
 */
int bb_issue(struct bb_bench_context *ctx, const struct bb_case *c, size_t first, size_t n,
             bool ends_row) BB_MUST_CHECK;

/* bb_case_launch - enqueue one operation of the case in slot `slot` of the arena. */
int bb_case_launch(struct bb_bench_context *ctx, const struct bb_case *c, size_t slot) BB_MUST_CHECK;

/* bb_case_slots - number of slots of this case in this rank's arena, at least 2. */
size_t bb_case_slots(const struct bb_bench_context *ctx, const struct bb_case *c);

/* bb_bench_context_wait - wait until the stream is empty, with the run's timeout; an asynchronous error of the
 * communicator ends the wait. */
int bb_bench_context_wait(struct bb_bench_context *ctx, const char *what) BB_MUST_CHECK;

/* ---- verify.c: writes test data (cuda/data/pattern.h) to the last slot and compares the result ---- */

/* bb_verify_prepare - fill the last slot with canary bytes and then with this rank's contribution, with a new seed.
 * Asynchronous. */
int bb_verify_prepare(struct bb_bench_context *ctx, const struct bb_case *c) BB_MUST_CHECK;

/* bb_verify - compare the last slot with the data of the latest bb_verify_prepare, on all ranks. Adds to f->wrong;
 * sets f->checked to whether anything was compared. */
int bb_verify(struct bb_bench_context *ctx, const struct bb_case *c, struct bb_metrics *f) BB_MUST_CHECK;

/* ---- nccl_estimate.c: NCCL's own estimate of the time (ncclGroupSimulateEnd, NCCL 2.22) ---- */

/*
 * bb_nccl_estimate - estimate the time of one operation without running it. Collective over all ranks, since NCCL may
 * connect for the estimate; must not be called during a measurement.
 *   model_us  out: NaN if NCCL gives no estimate: kinds made of sends and receives, a single rank, a non-blocking
 *             communicator, an older library or header
 */
int bb_nccl_estimate(struct bb_bench_context *ctx, const struct bb_case *c, double *model_us) BB_MUST_CHECK;

/* ---- measure.c: measures one case and verifies the data of the timed operations ---- */

/* bb_measure - measure one case. Collective over all ranks; the metrics are equal on all ranks. */
int bb_measure(struct bb_bench_context *ctx, const struct bb_case *c, struct bb_metrics *f) BB_MUST_CHECK;

/*
 * bb_measure_init - allocate the samples of all modes and the start barrier. bb_measure_release accepts a partly
 * initialised context.
 */
int bb_measure_init(struct bb_bench_context *ctx) BB_MUST_CHECK;
void bb_measure_release(struct bb_bench_context *ctx);

/* bb_measure_mode - select the mode of the next bb_measure calls; one of ctx->modes. */
void bb_measure_mode(struct bb_bench_context *ctx, const struct bb_mode *mode);

/* bb_bench_context_mode - name of the metrics: the name of the mode, or "host". */
const char *bb_bench_context_mode(const struct bb_bench_context *ctx);

/* bb_bench_context_method - how the metrics are measured, as a phrase: "operations back to back on one stream ...". */
const char *bb_bench_context_method(const struct bb_bench_context *ctx);

#endif
