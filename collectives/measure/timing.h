/*
 * timing.h - the timing modes. Results of different modes are never mixed.
 *
 *   stream   operations back to back on one stream. A start barrier holds them back until all are enqueued, so the time
 *            per operation has no host overhead
 *   sync     one operation at a time, after a barrier: the latency for a caller that waits. Each operation is a sample
 *   graph    operations in a CUDA graph that has been launched once before: the time without launch overhead
 *   blocked  the host waits after each iteration: option -z of nccl-tests
 */
#ifndef BB_COLLECTIVES_MEASURE_TIMING_H
#define BB_COLLECTIVES_MEASURE_TIMING_H

#include "collectives/measure/bench_context.h"

/* The times that one rank measures in one sample, in microseconds per operation. */
enum bb_sample_field {
    BB_SAMPLE_GPU,     /* GPU time between the CUDA events before and after the operations */
    BB_SAMPLE_HOST,    /* host time to enqueue the operation */
    BB_SAMPLE_WALL,    /* host time from the call until the host's wait for completion returns, in sync mode or with
                       host_clock; otherwise NaN */
    BB_SAMPLE_TO_SYNC, /* sync mode: time of the whole iteration, from this rank's arrival to a point in time that
                          all ranks reach simultaneously (struct bb_skew) */
    BB_SAMPLE_FIELDS
};
struct bb_sample {
    double us[BB_SAMPLE_FIELDS];
};

struct bb_mode {
    const char *name, *help;
    /* Takes samples until the next evaluation of the stopping rule. The data of the last operation can then be
     * verified. */
    int (*time)(struct bb_bench_context *ctx, const struct bb_case *c, struct bb_sample *batch);
    bool single;    /* each iteration is a sample, and the arrival skew of the ranks is measured (sync mode) */
    bool own_check; /* true: verification reads the result of an additional, untimed launch (graph mode); false: of
                       the last timed operation */
};
extern const struct bb_mode bb_mode_stream, bb_mode_sync, bb_mode_graph, bb_mode_blocked;

/* bb_mode_at - return the i-th timing mode that option --mode selects; NULL if it selects at most i modes. */
const struct bb_mode *bb_mode_at(size_t i);

/*
 * bb_mode_batch      - return the number of samples between two evaluations of the stopping rule.
 * bb_mode_operations - return the number of timed iterations per sample.
 */
size_t bb_mode_batch(const struct bb_bench_context *ctx, const struct bb_mode *mode);
size_t bb_mode_operations(const struct bb_bench_context *ctx, const struct bb_mode *mode);

/* bb_connect_sync - run the all_reduce that synchronizes the ranks once, so that its connections exist before a
 * start barrier is closed. Does nothing for operations that synchronize the ranks themselves. */
int bb_connect_sync(struct bb_bench_context *ctx, const struct bb_case *c) BB_MUST_CHECK;

/* bb_synchronize_ranks - enqueue the operations that synchronize the ranks. The event that starts a sample follows these
 * operations, so all ranks reach the event simultaneously, and no sample includes the time to establish connections. */
int bb_synchronize_ranks(struct bb_bench_context *ctx, const struct bb_case *c) BB_MUST_CHECK;

/* bb_time_single - take n samples of one iteration each, without a barrier between the ranks. For the warm-up. */
int bb_time_single(struct bb_bench_context *ctx, const struct bb_case *c, size_t n,
                   struct bb_sample *samples) BB_MUST_CHECK;

/* bb_graph_capture - capture iterations, of which the last uses the last slot, in an executable graph. The caller destroys
 * *exec, also after an error. */
int bb_graph_capture(struct bb_bench_context *ctx, const struct bb_case *c, size_t iterations,
                     cudaGraphExec_t *exec) BB_MUST_CHECK;

#endif
