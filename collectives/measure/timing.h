/*
 * timing.h - the ways in which operations are timed, one row each. Figures of different modes are never mixed.
 *
 *   stream   operations back to back behind a closed gate: the rate of the pipeline, without the host
 *   sync     one at a time, after a barrier: what a caller sees who waits. One sample per iteration
 *   graph    operations in a CUDA graph that was launched before: the floor without the cost of launches
 *   blocked  nccl-tests' -z
 */
#ifndef BB_COLLECTIVES_MEASURE_TIMING_H
#define BB_COLLECTIVES_MEASURE_TIMING_H

#include "collectives/measure/bench_context.h"

/* One sample of one rank, microseconds per operation. */
enum bb_sample_field {
    BB_SAMPLE_GPU,     /* from event to event                                            */
    BB_SAMPLE_HOST,    /* to enqueue, by the host's clock                                */
    BB_SAMPLE_WALL,    /* sync, or host_clock: from the call to the end of the wait, by the host's clock; else NaN */
    BB_SAMPLE_TO_SYNC, /* sync: of the whole iteration, from arrival to a moment that is the same on all ranks      */
    BB_SAMPLE_FIELDS
};
struct bb_sample {
    double us[BB_SAMPLE_FIELDS];
};

struct bb_mode {
    const char *name, *help;
    /* The samples of one batch; the very last operation is one whose data can be verified. */
    int (*time)(struct bb_bench_context *ctx, const struct bb_case *c, struct bb_sample *batch);
    bool single;    /* an iteration is a sample, and tells how ranks arrive   */
    bool own_check; /* the checked operation is one more of the same (graph)  */
};
extern const struct bb_mode bb_mode_stream, bb_mode_sync, bb_mode_graph, bb_mode_blocked;

/* The modes that --mode names, NULL past the end. */
const struct bb_mode *bb_mode_at(size_t i);

/* bb_mode_batch - samples of a batch; bb_mode_operations - timed iterations behind each. */
size_t bb_mode_batch(const struct bb_bench_context *ctx, const struct bb_mode *mode);
size_t bb_mode_operations(const struct bb_bench_context *ctx, const struct bb_mode *mode);

/* bb_connect_sync - the all_reduce by which operations gather their ranks that do not end together: its first use
 * connects, which must not happen behind a gate. Nothing for other operations. */
int bb_connect_sync(struct bb_bench_context *ctx, const struct bb_case *c) BB_MUST_CHECK;

/* bb_time_single - n samples of one operation each, without a barrier between ranks: for the warm-up. */
int bb_time_single(struct bb_bench_context *ctx, const struct bb_case *c, size_t n,
                   struct bb_sample *samples) BB_MUST_CHECK;

#endif
