/*
 * execution.h - the state of one simulated execution of a training step. simulate.c starts and ends tasks
 * (task_graph.h: operations that start and end together) in the order of their dependencies; contention_sim.c computes
 * the times of tasks on a machine with contention, where concurrent operations slow each other down.
 */
#ifndef BB_PROXIES_SIMULATION_SIMULATE_ENGINE_EXECUTION_H
#define BB_PROXIES_SIMULATION_SIMULATE_ENGINE_EXECUTION_H

#include "proxies/simulation/simulate/engine/op_time.h"
#include "proxies/simulation/simulate/engine/simulate.h"

struct bb_contention_sim;

struct bb_execution {
    const struct bb_sim *m;
    struct bb_sim_run *c;
    struct bb_contention_sim *contention; /* contention simulator; NULL: contention is not simulated, so tasks may
                                             start in any order that respects their dependencies */
    int *ready, n_ready; /* indices of the tasks that can start because all their dependencies have ended */
    int *class_of;       /* [tasks] class of equivalent ranks (rank_classes.h) to which the task's rank belongs */
    double *slowdowns;   /* [classes of ranks] factor by which injected slowness multiplies kernel durations; NULL: 1
                            for all classes */
    struct bb_op_times op_times;
};

/* bb_execution_end - marks task `at` as ended at its end_ns. Tasks whose dependencies have then all ended become
 * ready to start. */
void bb_execution_end(struct bb_execution *r, int at);
void bb_execution_start(struct bb_execution *r, int at); /* starts a task whose dependencies have ended */

static inline void bb_raise_time(int64_t *time, int64_t other)
{
    if (other > *time)
        *time = other;
}

/* bb_round_ns - rounds like llround, but inline: every event uses this function. */
static inline int64_t bb_round_ns(double ns)
{
    const int64_t whole = (int64_t)ns;
    const double rest = ns - (double)whole;

    return whole + (rest >= 0.5) - (rest <= -0.5);
}

static inline const struct bb_task_graph *bb_execution_graph(const struct bb_execution *r, int at, int *task)
{
    int class_id = r->class_of[at];

    *task = at - r->m->task_base[class_id];
    return bb_sim_task_graph(r->m, class_id);
}

#endif
