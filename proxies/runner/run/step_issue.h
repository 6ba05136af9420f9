/*
 * step_issue.h - runs steps: starts all ranks together, issues the operations in order or replays them as a CUDA graph,
 * and waits for the end.
 */
#ifndef BB_PROXIES_RUNNER_RUN_STEP_ISSUE_H
#define BB_PROXIES_RUNNER_RUN_STEP_ISSUE_H

#include "proxies/runner/run/runner.h"

/* Flags that select which operations a step launches. For operations that are not launched, the stream waits and
 * event records are still issued. */
enum bb_issue {
    BB_ISSUE_COMPUTE = 1,
    BB_ISSUE_COMM = 2,
    BB_ISSUE_ALL = 3,
    BB_ISSUE_GRAPH = 4,         /* launch all operations by replaying the CUDA graph made with bb_runner_capture */
    BB_ISSUE_START_BARRIER = 8, /* with BB_ISSUE_ALL: the operations are blocked on the GPU by a start barrier until
                                   every rank has issued its step */
};

/*
 * bb_runner_connect - connects all pairs of ranks that send messages to each other, with one group call per
 * communicator that sends one element per pair. All ranks call this together. Without bb_runner_connect, the first
 * message of a pair blocks the host inside the NCCL call until the peer makes its call. In a step whose operations
 * cannot run one after another, the host of the peer may be blocked in a call that waits for this host, so both hosts
 * would hang.
 */
int bb_runner_connect(struct bb_runner *r) BB_MUST_CHECK;

/*
 * bb_runner_capture - captures the whole step as one CUDA graph: all streams of the program wait for an event of the
 * stream `join`, the operations are captured in issue order, and the streams are joined again. Steps with
 * BB_ISSUE_GRAPH replay the graph. All ranks call this together, after at least one normal step, because NCCL connects
 * peers at their first use.
 */
int bb_runner_capture(struct bb_runner *r) BB_MUST_CHECK;

struct bb_step_time {
    double step_us; /* GPU time from the common start (the all_reduce that synchronizes all ranks) to the end of this
                       rank's last operation */
    /* GPU time, contained in step_us, from the end of the all_reduce that synchronizes all ranks until the host has
     * observed it (an event that the host records at once); 0 with a start barrier */
    double reaction_us;
    double issue_us; /* host time to enqueue all operations of the step */
    double wall_us;  /* host time from the common start (the all_reduce that synchronizes all ranks) to the end of the
                        step */
    /* duration of the last all_reduce that synchronizes all ranks before a step, an upper bound of the difference
     * between the ranks' start times; 0 for steps that are not traced and for one rank */
    double start_sync_us;
};

/* bb_runner_step - runs one step and waits for its end, at most for the timeout of the run. name: name of the step
 * in messages and NVTX ranges; what: enum bb_issue flags; trace: true: record CUDA events before and after the
 * operations; t: out, times of the step. */
int bb_runner_step(struct bb_runner *r, const char *name, unsigned what, bool trace,
                   struct bb_step_time *t) BB_MUST_CHECK;

/* bb_runner_batch - launches a single operation or group call for the data check, without the stream waits and event
 * records of a step. */
int bb_runner_batch(struct bb_runner *r, const struct bb_batch *batch) BB_MUST_CHECK;

#endif
