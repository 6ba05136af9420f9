/*
 * step_issue.h - steps on a runner: put on the streams in order or replayed as a graph, begun together, waited for.
 */
#ifndef BB_PROXIES_RUN_STEP_ISSUE_H
#define BB_PROXIES_RUN_STEP_ISSUE_H

#include "proxies/run/runner.h"

/* Which operations a step launches. The others launch nothing; what waited for them waits for what they waited for. */
enum bb_issue {
    BB_ISSUE_COMPUTE = 1,
    BB_ISSUE_COMM = 2,
    BB_ISSUE_ALL = 3,
    BB_ISSUE_GRAPH = 4,         /* all of it, as the graph that bb_runner_capture made */
    BB_ISSUE_START_BARRIER = 8, /* all of it, begun when it is issued on all ranks (step_start_barrier.h) */
};

/*
 * bb_runner_connect - make the connections of all messages, one group call for each communicator, one element for each
 * pair. At the first use of a pair NCCL keeps the host inside the call until the peer comes, too: where that must be
 * another call than the next one there, as in steps that cannot be serialised, both would stay there for ever.
 * Collective over the world.
 */
int bb_runner_connect(struct bb_runner *r) BB_MUST_CHECK;

/*
 * bb_runner_capture - the whole step as one CUDA graph: forked from one stream to all of the program's by an event, its
 * operations captured as they would be issued, joined again. Every rank must come to it, after at least one ordinary
 * step, since NCCL connects its peers at first use. Steps with BB_ISSUE_GRAPH replay it.
 */
int bb_runner_capture(struct bb_runner *r) BB_MUST_CHECK;

struct bb_step_time {
    double step_us; /* GPU: from the common start to the end of the last operation of this rank       */
    double
        reaction_us; /* GPU: of step_us, from the common start to what the host then sends first; 0 of a gated step */
    double issue_us; /* host: issuing the step                                                         */
    double wall_us;  /* host: from the common start to the end                                         */
    double start_sync_us;  /* GPU: how long the common start took, in traced steps of several ranks; else 0  */
};

/* bb_runner_step - run one step and wait for its end under the deadline. what: enum bb_issue. trace: record the lanes.
 */
int bb_runner_step(struct bb_runner *r, const char *name, unsigned what, bool trace,
                   struct bb_step_time *t) BB_MUST_CHECK;

/* bb_runner_batch - issue one batch by itself, waits and events left out (for the check of data). */
int bb_runner_batch(struct bb_runner *r, const struct bb_batch *batch) BB_MUST_CHECK;

#endif
