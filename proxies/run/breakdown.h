/*
 * breakdown.h - what the traced steps of one rank say: how long compute and each group's communication ran, how much of
 * it was exposed, and how much of a collective was waiting for its last member. Means over the traced steps,
 * microseconds.
 *
 * A lane's interval (runner.h) begins when its stream has come to the batch and all that the batch waits for is done.
 * It ends with the operation, so it contains the time spent waiting for peers. GPU clocks are never compared between
 * ranks. The split into transfer and waiting uses durations only: members of a collective end together, so the last to
 * arrive is the one that took the shortest time, and that time is the transfer; what a rank took longer was waiting. So
 * with messages: calls that met, directly or through others (a shift along a pipeline, a halo), share the shortest
 * time.
 */
#ifndef BB_PROXIES_RUN_BREAKDOWN_H
#define BB_PROXIES_RUN_BREAKDOWN_H

#include "proxies/run/runner.h"
#include "proxies/timeline/timeline.h"

struct bb_group_breakdown {
    double busy_us;     /* union of the intervals of its communication                                  */
    double exposed_us;  /* the part of it beside which no kernel ran                                    */
    double transfer_us; /* sum of the transfers; NaN: not told apart                                     */
    double waiting_us;  /* sum of the waits for who came last; NaN as above                             */
};

/* Plain data, so that ranks exchange it byte by byte. */
struct bb_rank_breakdown {
    int steps;
    double step_us, compute_us, comm_us, exposed_us, idle_us;  /* as in overlap.h                        */
    double exposed_transfer_us, bubble_us, exposed_waiting_us; /* exposed_us by cause; NaN: not told apart */
    struct bb_group_breakdown groups[BB_MAX_GROUPS];
};

/* The times of the lanes in one traced step, from its common start. */
struct bb_traced_step {
    struct bb_timed_op *lanes; /* [runner.n_lanes] begin == end where nothing was launched               */
    int64_t step_ns;
};

int bb_traced_step_init(struct bb_traced_step *t, const struct bb_runner *r) BB_MUST_CHECK;
void bb_traced_step_release(struct bb_traced_step *t);

/* bb_traced_step_read - the events of the traced step that has just ended, issued with `what`. */
int bb_traced_step_read(struct bb_traced_step *t, const struct bb_runner *r, unsigned what) BB_MUST_CHECK;

/* bb_rank_breakdown_add - adds a traced step that was split to the means. Pure but for memory. */
int bb_rank_breakdown_add(struct bb_rank_breakdown *f, const struct bb_runner *r,
                          const struct bb_traced_step *t) BB_MUST_CHECK;

/*
 * bb_rank_breakdown_split - finds what each lane waited (wait_ns) and adds it to the means, before bb_rank_breakdown_add
 * of the same step; collective over the world. Left out (NaN) when the durations of all ranks would need more than 64 MiB.
 */
int bb_rank_breakdown_split(struct bb_rank_breakdown *f, const struct bb_runner *r,
                            struct bb_traced_step *t) BB_MUST_CHECK;

/* bb_update_mean - the mean over n + 1 samples, in microseconds, from that over n. */
void bb_update_mean(double *mean, int n, int64_t ns);

/* What a group moves in one step on this rank; follows from the program alone. */
struct bb_group_traffic {
    size_t calls;     /* operations                                                                     */
    double bytes;     /* payload, as in the plan                                                        */
    double bus_bytes; /* payload times bus factor; the larger of sent and received for send and recv    */
    bool pairs;       /* sends and receives                                                             */
};
void bb_count_group_traffic(const struct bb_layout *l, const struct bb_program *p, struct bb_group_traffic work[BB_MAX_GROUPS]);

#endif
