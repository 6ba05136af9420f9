/*
 * simulate.h - abstract execution of a matched step (matching/match.h): computes when each task begins and ends, or
 * finds that the step deadlocks. Times follow the cost model of profiles/clusters/README.md. Without contention every
 * time is a maximum of sums, so tasks may be executed in any order that respects their dependencies. With contention
 * (contention_sim.h) tasks are executed in the order of their start times.
 */
#ifndef BB_PROXIES_SIMULATION_SIMULATE_ENGINE_SIMULATE_H
#define BB_PROXIES_SIMULATION_SIMULATE_ENGINE_SIMULATE_H

#include "bootstrap/cli/progress.h"
#include "proxies/simulation/simulate/engine/limits.h"
#include "proxies/simulation/simulate/matching/match.h"

/* The state, and finally the result, of one simulated execution of the step. */
struct bb_sim_run {
    bool serialised;
    struct bb_sim_task { /* size: 64 bytes, one cache line, because a step of many ranks has millions of tasks, and
                            each event reads several of them */
        int before;      /* number of dependencies (tasks that must end before this task starts) that have not ended */
        int open;        /* exchange: number of messages whose end time is not known yet; alltoallv: number of peers for
                            whose messages the end time is not known yet */
        int64_t begin_ns; /* time at which the stream reaches the task: the time of a CUDA event recorded immediately
                             before it */
        int64_t arrival_ns, end_ns;
        /* communication: time until which the task waits for other ranks. Collective: latest begin_ns of all
         * members' tasks. Exchange, alltoallv: latest begin_ns of the peers' tasks, which may be earlier than this
         * task's begin_ns */
        int64_t met_ns;
        int64_t alone_end_ns; /* with contention: time at which the task would have ended if no other operation had
                                 slowed it down */
        union {
            int64_t host_ns; /* until the task starts: host time at which its kernel launch or NCCL call begins */
            double load_ns;  /* exchange and alltoallv, after the start: ns that the rank's links need, without
                                contention, for all messages of the task */
        };
        int flow; /* exchange and alltoallv: index of the task's transfer (struct bb_flow) in the contention
                     simulator */
        enum bb_limit limit : 8;
        bool arrived : 1, ended : 1;
        unsigned group_messages : 22; /* exchange and alltoallv, after the start: bb_group_messages */
    } * tasks;                        /* task t of class c of equivalent ranks has the index task_base[c] + t */
    struct bb_sim_collective {
        int n_arrived; /* number of listed members (bb_sim.members, one per class of ranks) that have called the
                          collective */
        int64_t latest_ns, latest_begin_ns; /* latest arrival_ns and latest begin_ns among the members that have
                                               called the collective */
    } * collectives;                        /* collective k of a communicator has the index bb_sim_instance.base + k */
    int64_t *issued_ns; /* [classes of ranks] host time at which a rank of the class has issued its whole program */
    int64_t *late_ns;   /* [classes of ranks] part of issued_ns in which the host waited for a result that it reads */
    struct bb_sim_busy {
        double link_ns, nic_ns, uplink_ns[BB_TIERS]; /* ns for which traffic keeps the links, the NIC and the uplinks
                                                        busy, in the direction with more traffic */
        double nic_bytes;                            /* bytes of data through the NIC in this direction */
    } * busy;                                        /* [classes of ranks]; NULL if contention is not simulated */
    int n_ended;
};

/*
 * bb_simulate - executes the step.
 *   serialised  true: each rank runs its tasks one after another in the order in which the host issues them
 *   run         out: the caller releases it with bb_sim_run_release. The step is free of deadlock if all its tasks
 *               ended: run->n_ended == task_base[classes.n].
 */
void bb_simulate(const struct bb_sim *m, bool serialised, struct bb_sim_run *run);
void bb_sim_run_release(struct bb_sim_run *run);
/* bb_simulate_samples - executes the step `samples` times, each time with different jitter. step_ns: out, [samples].
 * progress: advanced by 1 after each; NULL: none.
 * The step must be free of deadlock. */
void bb_simulate_samples(struct bb_sim *m, int samples, int64_t *step_ns, struct bb_progress *progress);
int64_t bb_sim_step_ns(const struct bb_sim *m, const struct bb_sim_run *run); /* returns the step time of the slowest
                                                                                 rank, in ns */

#endif
