/*
 * timing.h - the timing modes. Metrics of different modes are never mixed.
 *
 *   stream   operations back to back, held by a start barrier until all are enqueued: the throughput without host
 *            overhead
 *   sync     one operation at a time, after a barrier: the latency of a blocking caller. One sample per iteration
 *   graph    operations in a CUDA graph that has been launched before: the time without launch overhead
 *   blocked  nccl-tests' -z
 */
#ifndef BB_COLLECTIVES_MEASURE_TIMING_H
#define BB_COLLECTIVES_MEASURE_TIMING_H

#include "collectives/measure/bench_context.h"

/* One sample of one rank, microseconds per operation. */
enum bb_sample_field {
    BB_SAMPLE_GPU,     /* GPU time between the events */
    BB_SAMPLE_HOST,    /* host time to enqueue */
    BB_SAMPLE_WALL,    /* sync or host_clock: host time from the call to the end of the wait; otherwise NaN */
    BB_SAMPLE_TO_SYNC, /* sync: time of the whole iteration, from this rank's arrival to a point in time common to
                          all ranks */
    BB_SAMPLE_FIELDS
};
struct bb_sample {
    double us[BB_SAMPLE_FIELDS];
};

struct bb_mode {
    const char *name, *help;
    /* Takes the samples of one batch. The data of the very last operation can be verified. */
    int (*time)(struct bb_bench_context *ctx, const struct bb_case *c, struct bb_sample *batch);
    bool single;    /* each iteration is a sample and shows how the ranks arrive */
    bool own_check; /* an additional operation is verified instead of a timed one (graph) */
};
extern const struct bb_mode bb_mode_stream, bb_mode_sync, bb_mode_graph, bb_mode_blocked;

/* bb_mode_at - the i-th mode of --mode; NULL past the end. */
const struct bb_mode *bb_mode_at(size_t i);

/* bb_mode_batch - samples per batch. bb_mode_operations - timed iterations per sample. */
size_t bb_mode_batch(const struct bb_bench_context *ctx, const struct bb_mode *mode);
size_t bb_mode_operations(const struct bb_bench_context *ctx, const struct bb_mode *mode);

/* bb_connect_sync - run once the all_reduce that synchronises the ranks, because its first call connects, which must
 * not happen while a start barrier is closed. Does nothing for operations that synchronise the ranks themselves. */
int bb_connect_sync(struct bb_bench_context *ctx, const struct bb_case *c) BB_MUST_CHECK;

/* bb_time_single - take n samples of one operation each, without a barrier between the ranks; for the warm-up. */
int bb_time_single(struct bb_bench_context *ctx, const struct bb_case *c, size_t n,
                   struct bb_sample *samples) BB_MUST_CHECK;

#endif
