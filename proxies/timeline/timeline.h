/*
 * timeline.h - one step as a picture: the timeline of ranks and their streams as Chrome trace events, which Perfetto
 * and chrome://tracing open. Pure: run and predicted steps come here with the times of their operations.
 *
 * Ranks are processes, streams are threads. On a thread stands one slice per call: an operation, or what one group call
 * has on that stream, named as its NVTX range is; its arguments hold kind, group, type, count, bytes, peer (a world
 * rank), phase and micro-batch. A slice begins when its stream has come to the operation and ends with it, so it holds
 * the time spent waiting for peers; where there is such a time, two slices inside tell "waiting" ("bubble" of messages
 * between stages) and "transfer" apart, and its arguments have wait_us and the bus bandwidth of the transfer. A thread "step" of each rank holds the step. Arrows go from each send to its
 * receive where both are shown; where the critical path is known, its slices have an argument "critical", and arrows of
 * this name follow it. A counter per rank and group holds the payload bytes of the operations under way.
 *
 * Timestamps are microseconds with three decimals from the common start of the step. How far the zeros of two ranks can
 * lie apart stands in otherData.clock.
 */
#ifndef BB_PROXIES_TIMELINE_TIMELINE_H
#define BB_PROXIES_TIMELINE_TIMELINE_H

#include "proxies/step/step.h"
#include "proxies/timeline/overlap.h"

#include <stdio.h>

/* A viewer stays quick up to about a million events: more ranks, or ranks of so many operations, are left out. */
#define BB_TRACE_RANKS 64
#define BB_TRACE_OPS   200000

struct bb_critical_path;

/* Nanoseconds from the start of the step. The first wait_ns of a communication wait for who comes last. */
struct bb_timed_op {
    int64_t begin_ns, end_ns, wait_ns;
};

/* The ranks shown, ascending, and the times of each one's operations. */
struct bb_timeline {
    const struct bb_step *step;
    int n, *ranks;
    struct bb_timed_op **ops; /* [n][operations of the rank's program]                                       */
    int64_t *step_ns;         /* [n]                                                                              */
    char (*location)[64];        /* [n] "node0 gpu 3", "" unknown                                                    */
    const char *source;       /* "measured", "emulated", "predicted for h100-sxm-ib"; borrowed                    */
    double clock_error_us;    /* most that the zeros of two ranks differ                                          */
    const struct bb_critical_path *critical; /* marked in the trace (critical_path.h); NULL: unknown; borrowed */
    const char *clock; /* what makes the zero and bounds the error; borrowed                               */
};

/*
 * bb_timeline_init - chooses the ranks: all, where they are at most BB_TRACE_RANKS with BB_TRACE_OPS operations in sum;
 * else, as far as these reach, those of wanted[n_wanted] (the slowest, say), then the first and the last of each role,
 * then the lowest ones. All times are 0. release is fine on a zeroed one.
 */
int bb_timeline_init(struct bb_timeline *t, const struct bb_step *step, const int *wanted, int n_wanted) BB_MUST_CHECK;
void bb_timeline_release(struct bb_timeline *t);

/* bb_timeline_init_ranks - exactly these, ascending. */
int bb_timeline_init_ranks(struct bb_timeline *t, const struct bb_step *step, const bool *shown) BB_MUST_CHECK;

/* ---- for writers ---- */

/* bb_timeline_each_call - visit each call of a rank that launches something, on each of its streams: operations
 * first .. end - 1, of which those on the stream of the first are meant. */
typedef void bb_timeline_visit(void *arg, int i, int first, int end);
void bb_timeline_each_call(const struct bb_timeline *t, int i, bb_timeline_visit *visit, void *arg);

/* bb_timeline_span - from when to when the call is on the first one's stream. Returns how many operations it has there.
 */
int bb_timeline_span(const struct bb_timeline *t, int i, int first, int end, struct bb_timed_op *span);

/* bb_timeline_rank_name - "rank 3 (node0 gpu 3, first stage)". Returns text. */
#define BB_TIMELINE_NAME 192
const char *bb_timeline_rank_name(const struct bb_timeline *t, int i, char text[BB_TIMELINE_NAME]);

/* bb_timeline_write - the JSON. -BB_EFAIL (said) without memory or room on the disk. */
int bb_timeline_write(const struct bb_timeline *t, FILE *out) BB_MUST_CHECK;

#endif
