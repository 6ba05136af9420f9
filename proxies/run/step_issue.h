/*
 * step_issue.h - runs steps: issues their operations in order or replays them as a CUDA graph, starts all ranks
 * together, and waits for the end.
 */
#ifndef BB_PROXIES_RUN_STEP_ISSUE_H
#define BB_PROXIES_RUN_STEP_ISSUE_H

#include "proxies/run/runner.h"

/* Which operations a step launches. The others launch nothing, but their stream waits and events remain. */
enum bb_issue {
    BB_ISSUE_COMPUTE = 1,
    BB_ISSUE_COMM = 2,
    BB_ISSUE_ALL = 3,
    BB_ISSUE_GRAPH = 4,         /* all of them, as the graph of bb_runner_capture */
    BB_ISSUE_START_BARRIER = 8, /* all of them, held until every rank has issued its step (step_start_barrier.h) */
};

/*
 * bb_runner_connect - connects all pairs of ranks that exchange messages: one group call per communicator with one
 * element per pair. Collective over the world. At the first use of a pair, NCCL blocks the host inside the call until
 * the peer makes its call. In a step that cannot be serialised, the peer may be blocked in a different call, and
 * neither returns.
 */
int bb_runner_connect(struct bb_runner *r) BB_MUST_CHECK;

/*
 * bb_runner_capture - captures the whole step as one CUDA graph: an event forks from one stream to all streams of the
 * program, the operations are captured in issue order, and the streams are joined. Steps with BB_ISSUE_GRAPH replay the
 * graph. Collective; call after at least one normal step, since NCCL connects peers at first use.
 */
int bb_runner_capture(struct bb_runner *r) BB_MUST_CHECK;

struct bb_step_time {
    double step_us;       /* GPU: from the common start to the end of this rank's last operation */
    double reaction_us;   /* GPU: part of step_us from the common start until the host has recorded its first event; 0
                        with a start barrier */
    double issue_us;      /* host: issuing the step */
    double wall_us;       /* host: from the common start to the end */
    double start_sync_us; /* GPU: duration of the common start, in traced steps of several ranks; else 0 */
};

/* bb_runner_step - runs one step and waits for its end, with the run's timeout. what: enum bb_issue; trace: record
 * the events of the lanes. */
int bb_runner_step(struct bb_runner *r, const char *name, unsigned what, bool trace,
                   struct bb_step_time *t) BB_MUST_CHECK;

/* bb_runner_batch - issues a single batch without its waits and events (for the data check). */
int bb_runner_batch(struct bb_runner *r, const struct bb_batch *batch) BB_MUST_CHECK;

#endif
