/*
 * timeline.h - writes the timeline of one step as Chrome trace events (JSON), for Perfetto and chrome://tracing.
 * Measured and predicted steps provide the times of their operations.
 *
 * Ranks are processes, streams are threads. A thread has one slice per call: an operation, or the operations that a
 * group call has on that stream, with the name of its NVTX range. The arguments of a slice are kind, group, type,
 * count, bytes, peer (a world rank), phase and micro-batch. A slice begins when its stream arrives at the operation and
 * ends with the operation, so it includes waiting for peers. If there was waiting, two inner slices show it: "waiting"
 * ("bubble" for messages between stages) and "transfer"; the arguments then also have wait_us and the bus bandwidth of
 * the transfer. The thread "step" of each rank has one slice for the step. Arrows go from each send to its receive if
 * both ranks are shown. If the critical path is known, its slices have the argument "critical", and arrows of that name
 * follow it. A counter per rank and group has the payload bytes of the operations in progress.
 *
 * Timestamps are microseconds with three decimals from the common start of the step. otherData.clock bounds the
 * difference between the start times of two ranks.
 */
#ifndef BB_PROXIES_TIMELINE_TIMELINE_H
#define BB_PROXIES_TIMELINE_TIMELINE_H

#include "proxies/step/step.h"
#include "proxies/timeline/overlap.h"

#include <stdio.h>

/* Limits of a trace: viewers are slow above about a million events. Other ranks are left out. */
#define BB_TRACE_RANKS 64
#define BB_TRACE_OPS   200000

struct bb_critical_path;

/* Nanoseconds from the start of the step. A communication waits for its last peer during the first wait_ns. */
struct bb_timed_op {
    int64_t begin_ns, end_ns, wait_ns;
};

/* The ranks shown, ascending, and the times of their operations. */
struct bb_timeline {
    const struct bb_step *step;
    int n, *ranks;
    struct bb_timed_op **ops; /* [n][operations of the rank's program]                                       */
    int64_t *step_ns;         /* [n]                                                                              */
    char (*location)[64];     /* [n] "node0 gpu 3"; "": unknown */
    const char *source;       /* "measured", "emulated", "predicted for h100-sxm-ib"; owned by the caller */
    double clock_error_us;    /* upper bound of the difference between the start times of two ranks */
    const struct bb_critical_path *critical; /* marked in the trace (critical_path.h); NULL: unknown; owned by the
                                                caller */
    const char *clock; /* how the start is synchronised, and what bounds the error; owned by the caller */
};

/*
 * bb_timeline_init - chooses the ranks to show and sets all their times to 0. All ranks, if they are at most
 * BB_TRACE_RANKS with at most BB_TRACE_OPS operations. Otherwise, within these limits: first wanted[n_wanted] (for
 * example the slowest rank), then the first and the last rank of each role, then the lowest ranks.
 *   Returns  0 or -BB_EFAIL
 *   Owner    the caller releases t with bb_timeline_release, which also accepts a zeroed one
 */
int bb_timeline_init(struct bb_timeline *t, const struct bb_step *step, const int *wanted, int n_wanted) BB_MUST_CHECK;
void bb_timeline_release(struct bb_timeline *t);

/* bb_timeline_init_ranks - the same with exactly the ranks of shown[ranks]. */
int bb_timeline_init_ranks(struct bb_timeline *t, const struct bb_step *step, const bool *shown) BB_MUST_CHECK;

/* ---- for writers ---- */

/* bb_timeline_each_call - calls visit for each call of a rank that launches something, and for each of its streams.
 * The call has operations first .. end - 1; only those on the stream of `first` are meant. */
typedef void bb_timeline_visit(void *arg, int i, int first, int end);
void bb_timeline_each_call(const struct bb_timeline *t, int i, bb_timeline_visit *visit, void *arg);

/* bb_timeline_span - *span: out, begin, end and waiting time of the call on the stream of `first`. Returns the
 * number of its operations there. */
int bb_timeline_span(const struct bb_timeline *t, int i, int first, int end, struct bb_timed_op *span);

/* bb_timeline_rank_name - "rank 3 (node0 gpu 3, first stage)". Returns text. */
#define BB_TIMELINE_NAME 192
const char *bb_timeline_rank_name(const struct bb_timeline *t, int i, char text[BB_TIMELINE_NAME]);

/* bb_timeline_write - writes the JSON. Returns 0 or, after printing an error, -BB_EFAIL (out of memory or disk
 * full). */
int bb_timeline_write(const struct bb_timeline *t, FILE *out) BB_MUST_CHECK;

#endif
