/*
 * bench_context.h - what a rank measures a case with, and what it finds. measure.c uses it from above; enqueue.c,
 * verify.c, nccl_estimate.c and timing.h do their parts with it.
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

enum { BB_NVTX_WORLD = 1 }; /* category of a row's range: the communicator of all ranks */

struct bb_mode;   /* timing.h */
struct bb_sample; /* the same */

/* What a row's samples tell, over the ranks of the group; microseconds per operation. */
enum bb_series {
    BB_SERIES_TIME,           /* what the row shows       */
    BB_SERIES_GPU,            /* between events           */
    BB_SERIES_HOST,           /* to enqueue               */
    BB_SERIES_WALL,           /* a caller's time, or NaN  */
    BB_SERIES_ARRIVAL_SPREAD, /* from the first arrival of a rank to the last                                           */
    BB_SERIES_TRANSFER, /* shortest time of a rank: the last to arrive does not wait                             */
    BB_SERIES_COUNT
};

/* What a rank measures with. Made by sweep/bench.c. */
struct bb_bench_context {
    struct bb_world *world;
    struct bb_comm *comm;
    const struct bb_native *native;
    const struct bb_device_info *device;
    const struct bb_mode *mode;     /* of the current table                           */
    const struct bb_mode *modes[3]; /* of the run                                     */
    int n_modes;
    struct bb_nvtx nvtx;
    cudaStream_t stream;
    cudaEvent_t start, stop;
    struct bb_guarded arena;     /* slots, case.h                                   */
    struct bb_verdict *verdicts; /* [2] device memory: data, guard zones            */
    int iterations, repeats, warmup, checks;
    int aggregate;             /* operations of an iteration, in one group; 0 as 1                     */
    enum bb_blocking blocking; /* what the host does between iterations                                */
    int graph_launches;        /* of a sample in mode graph                                            */
    bool host_time;            /* samples are the host's time to enqueue, not the time to completion   */
    bool host_clock;           /* samples are by the host's clock, from the first call to the end of the wait */
    bool both_clocks;          /* one sample of that kind stands beside those between events                  */
    enum bb_rank_aggregation
        rank_aggregation; /* how a sample of all ranks comes from those of each                   */
    const int *groups;    /* [size] group of each world rank; NULL: all are in one. comm is that of this rank's */
    const struct bb_mulsums *mulsums;
    struct bb_iteration_events
        *iteration_events; /* of the iterations of each row's last sample, NULL: none                     */
    const struct bb_telemetry *observer; /* of NCCL's choices and the GPU's state, NULL: none                        */
    void *sync_byte;                     /* device memory: for the all_reduce that ends on all ranks at once */
    uint64_t passes;                     /* verified passes so far: each has its own data   */

    /* How samples are taken. */
    const double *delays_us; /* [size] imposed lateness of each rank (mode sync), or NULL                        */
    bool auto_warmup;
    struct bb_stopping policy; /* of the current mode                                                              */
    size_t max_iterations;     /* timed iterations of a row that needs more than one batch; 0: none does           */
    struct bb_start_barrier start_barrier;
    int64_t start_barrier_limit_ns;
    bool
        uses_start_barrier; /* operations of mode stream wait behind the gate, on all ranks or on none                */
    bool
        start_barrier_expired; /* it once opened by itself on this rank: it is not closed again                          */
    bool connected; /* operations of this row have run: none of them has to connect                           */
    struct bb_sample *batch, *all_batches; /* [a batch] this rank's, [size * that] everybody's             */
    double *series[BB_SERIES_COUNT];       /* [max_iterations + a batch] of the group, all batches of a row  */
    size_t *times_last;                    /* [size] samples in which that rank arrived last                     */
};

/* The first wrong element of a row, for the message. */
struct bb_wrong_element {
    int rank;
    uint64_t index, got, want; /* got, want: bits of the element's type               */
    bool outside;              /* a byte outside of the receive area was overwritten  */
};

/*
 * How ranks arrive, from mode sync. Some operations end on all ranks at once, because each needs the data of every
 * other; after any other one a small all_reduce, which is not timed, is the moment that is the same on all ranks. From
 * a rank's arrival to that moment passes the less, the later it came. Of operations that end together the last to
 * arrive has only transfer. Durations of each rank's own clock are compared, never points in time.
 */
struct bb_skew {
    bool known;
    struct bb_stats spread_us; /* from the first arrival to the last           */
    double transfer_us;        /* median; NaN for operations that do not end together */
    int straggler;             /* world rank that was last, by 1 us or more, in over half of the samples; -1: none */
    double straggler_share;    /* of the samples, in which it was              */
};

struct bb_metrics {
    struct bb_stats time_us; /* per operation; each sample is that of the group (bb_rank_aggregation)   */
    size_t bytes;            /* payload                                                       */
    double algbw_gbps;       /* what counts of bytes / median time, 1e9 bytes per second; NaN when time is 0 */
    double busbw_gbps;       /* NaN with one rank                                             */
    double factor;           /* busbw / algbw                                                 */
    struct bb_iteration_metrics iterations; /* with marks                                       */
    struct bb_telemetry_row seen;
    double model_us;               /* NCCL's own estimate of an operation, NaN: none                */
    bool checked;                  /* false: nothing was compared                                   */
    unsigned long long wrong;      /* elements over all ranks and passes                            */
    struct bb_wrong_element first; /* valid when wrong > 0                                          */
    double host_us;                /* median time to enqueue an operation                           */
    double first_us;          /* the row's first operation, call to completion by the host's clock; NaN with -w 0 */
    struct bb_stats event_us; /* between events, whichever clock time_us is by          */
    struct bb_stats wall_us;  /* what the caller waits, by the host's clock; of both_clocks one sample     */
    struct bb_skew skew;
    enum bb_stop stop;       /* why there were no more samples                                */
    unsigned warnings;       /* bits 1 << enum bb_warning                                     */
    int warmed;              /* operations before the first sample                            */
    bool uses_start_barrier; /* nothing started before all was enqueued                       */
};

/* bb_bench_context_aggregate - operations of one iteration, at least 1. */
static inline size_t bb_bench_context_aggregate(const struct bb_bench_context *ctx)
{
    return ctx->aggregate > 1 ? (size_t)ctx->aggregate : 1;
}

/* ---- enqueue.c: operations onto the stream, from slot to slot, alone or grouped, waited for or not ---- */

/*
 * bb_issue - n iterations of bb_bench_context_aggregate operations, number `first` and on. ends_row: the very last
 * operation goes to the last slot, whose data are verified. Between iterations the host does what ctx->blocking says.
 */
int bb_issue(struct bb_bench_context *ctx, const struct bb_case *c, size_t first, size_t n,
             bool ends_row) BB_MUST_CHECK;

/* bb_case_launch - one operation of the case in slot number `slot` of the arena. */
int bb_case_launch(struct bb_bench_context *ctx, const struct bb_case *c, size_t slot) BB_MUST_CHECK;

/* bb_case_slots - slots of this case in this rank's arena, at least 2. */
size_t bb_case_slots(const struct bb_bench_context *ctx, const struct bb_case *c);

/* bb_bench_context_wait - until the stream is empty, under the deadline and with an eye on the communicator. */
int bb_bench_context_wait(struct bb_bench_context *ctx, const char *what) BB_MUST_CHECK;

/* ---- verify.c: known data (cuda/data/pattern.h) into the last slot, and the look at what arrived there ---- */

/* bb_verify_prepare - new data for the last slot: canaries everywhere, then this rank's contribution. Asynchronous. */
int bb_verify_prepare(struct bb_bench_context *ctx, const struct bb_case *c) BB_MUST_CHECK;

/* bb_verify - compare the last slot with the expectation on all ranks, adding to f->wrong; f->checked says whether
 * anything was compared. The data are those of the latest bb_verify_prepare. */
int bb_verify(struct bb_bench_context *ctx, const struct bb_case *c, struct bb_metrics *f) BB_MUST_CHECK;

/* ---- nccl_estimate.c: how long NCCL itself thinks that it takes (ncclGroupSimulateEnd, NCCL 2.22) ---- */

/*
 * bb_nccl_estimate - of one operation of the case, which is not run. All ranks together, since NCCL may connect for
 * it; never while something is timed. *model_us is NaN where NCCL gives none: what is made of sends and receives, one
 * rank, a non-blocking communicator, an older library or header.
 */
int bb_nccl_estimate(struct bb_bench_context *ctx, const struct bb_case *c, double *model_us) BB_MUST_CHECK;

/* ---- measure.c: one case timed, and what the timed operations delivered verified ---- */

/* bb_measure - all ranks together; the figures are equal on all ranks. */
int bb_measure(struct bb_bench_context *ctx, const struct bb_case *c, struct bb_metrics *f) BB_MUST_CHECK;

/*
 * bb_measure_init - memory for the samples of the modes, and the gate. bb_measure_release: fine on a half-made context.
 */
int bb_measure_init(struct bb_bench_context *ctx) BB_MUST_CHECK;
void bb_measure_release(struct bb_bench_context *ctx);

/* bb_measure_mode - what bb_measure uses from now on; one of ctx->modes. */
void bb_measure_mode(struct bb_bench_context *ctx, const struct bb_mode *mode);

/* bb_bench_context_mode - what the figures are called: the mode's name, or host. */
const char *bb_bench_context_mode(const struct bb_bench_context *ctx);

/* bb_bench_context_method - how they are measured, as a phrase: "operations back to back on one stream ...". */
const char *bb_bench_context_method(const struct bb_bench_context *ctx);

#endif
