/*
 * timeline.h - writes the timeline of one step as Chrome trace events (JSON), for Perfetto and chrome://tracing. The
 * times of the operations come from a measured or a predicted step.
 *
 * Ranks are shown as processes, streams as threads. A thread has one slice per call. A call is a single operation, or
 * the operations of a group call on this stream; the slice has the name of the call's NVTX range. The arguments of a
 * slice are kind, group, type, count, bytes, peer (a world rank), phase and micro-batch. A slice begins when its stream
 * arrives at the operation and ends with the operation, so it includes waiting for peers. If the operation waited, the
 * slice contains two slices, "wait" and "transfer", and the arguments include wait_us and the bus bandwidth of the
 * transfer. The thread "step" of each rank has one slice for the whole step, which contains slices of the exposed
 * communication by cause: "exposed transfer", "bubble" and "waiting". Their times are those of struct bb_exposure. If
 * both ranks of a message are shown, an arrow goes from the send to the receive. If the critical path is known, its
 * slices have the argument "critical", and arrows named "critical path" connect them. A counter per rank and group
 * shows the payload bytes of the operations in progress. A counter per rank shows the memory that it holds, by use
 * (memory_series.h).
 *
 * Timestamps are microseconds with three decimals from the common start of the step. otherData.clock contains an upper
 * bound of the difference between the start times of two ranks.
 */
#ifndef BB_PROXIES_SIMULATION_TIMELINE_TIMELINE_H
#define BB_PROXIES_SIMULATION_TIMELINE_TIMELINE_H

#include "proxies/form/step/step.h"
#include "proxies/simulation/timeline/op_names.h"
#include "proxies/simulation/timeline/overlap.h"

#include <stdio.h>

/* Maximum number of ranks and operations in a trace: viewers are slow above about a million events. */
#define BB_TRACE_RANKS 64
#define BB_TRACE_OPS   200000

struct bb_critical_path;

/* The ranks shown in a trace, in ascending order, and the times of their operations. */
struct bb_timeline {
    const struct bb_step *step;
    int n, *ranks;
    struct bb_timed_op **ops; /* [n][operations of the rank's program] times of each operation */
    int64_t *step_ns;         /* [n] step time of the rank */
    char (*location)[64];     /* [n] host name and GPU of the rank, for example "node0 gpu 3"; "": unknown */
    const char *source;    /* origin of the times: "measured", "emulated", or for example "predicted for h100-sxm-ib";
                              owned by the caller */
    double clock_error_us; /* upper bound of the difference between the start times of two ranks */
    const struct bb_critical_path *critical; /* the critical path to mark in the trace (critical_path.h); NULL:
                                                unknown; owned by the caller */
    const char *clock; /* text: how the start times of the ranks are synchronized and how clock_error_us is bounded;
                          owned by the caller */
};

/*
 * bb_timeline_init - selects the ranks to show and sets all their times to 0. Selects all ranks if the step has at most
 * BB_TRACE_RANKS ranks with at most BB_TRACE_OPS operations. Otherwise selects ranks up to these limits: first
 * wanted[n_wanted] (for example the slowest rank; BB_NONE is skipped), then the first and the last rank of each role,
 * then the lowest ranks.
 *   Owner    the caller releases t with bb_timeline_release, which also accepts a zeroed timeline
 */
void bb_timeline_init(struct bb_timeline *t, const struct bb_step *step, const int *wanted, int n_wanted);
void bb_timeline_release(struct bb_timeline *t);

/* bb_timeline_init_ranks - selects exactly the ranks for which shown[rank] is true and sets all their times to 0.
 * The caller releases t with bb_timeline_release. */
void bb_timeline_init_ranks(struct bb_timeline *t, const struct bb_step *step, const bool *shown);

/* ---- for modules that write a timeline to a file: iteration over its NCCL calls and kernel launches ---- */

/* One call (single operation or NCCL group call) of a rank on one stream. The call consists of those operations in
 * [first, end) of the rank's program that run on the same stream as `first`. */
struct bb_timeline_call {
    int shown;              /* index of the rank in the timeline */
    int first, end, n;      /* n: number of operations */
    const struct bb_op *op; /* the first operation */
    struct bb_timed_op at;  /* begin, end and waiting time of the call */
    uint64_t bytes;         /* payload bytes of all operations; 0 for compute */
    double bus_bytes; /* payload x bus factor of nccl-tests; for sends and receives: the larger of sent and received
                         bytes; 0 for compute */
    bool critical;    /* an operation of the call is on the critical path */
    char name[BB_OP_NAME];
};

/* bb_timeline_each_call - calls visit(arg, call) for each call of the i-th rank in the timeline, once for each stream
 * that the call uses. Calls that launch nothing are skipped. */
typedef void bb_timeline_visit(void *arg, const struct bb_timeline_call *call);
void bb_timeline_each_call(const struct bb_timeline *t, int i, bb_timeline_visit *visit, void *arg);

/* bb_timeline_rank_name - writes the name of a rank to text, for example "rank 3 (node0 gpu 3, first stage)".
 * Returns text. */
#define BB_TIMELINE_NAME 192
const char *bb_timeline_rank_name(const struct bb_timeline *t, int i, char text[BB_TIMELINE_NAME]);

/* bb_timeline_write - writes the trace as JSON. The caller checks the stream for errors. */
void bb_timeline_write(const struct bb_timeline *t, FILE *out);

#endif
