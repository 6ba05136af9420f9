/* execution.h - an abstract execution as it goes on: between simulate.c, which knows what comes after what, and
 * contention_sim.c, which knows when, where what runs at once shares the machine. */
#ifndef BB_PROXIES_SIMULATE_EXECUTION_H
#define BB_PROXIES_SIMULATE_EXECUTION_H

#include "proxies/simulate/match.h"
#include "proxies/simulate/op_time.h"

struct bb_contention_sim;

struct bb_execution {
    const struct bb_sim *m;
    struct bb_sim_run *c;
    struct bb_contention_sim *contention; /* NULL: nothing is shared, and tasks may come in any order */
    int *ready, n_ready;      /* tasks that may arrive                                    */
    int *class_of;            /* [tasks]                                                  */
    double *slowdowns;            /* [classes] that kernels last longer; NULL: none does      */
    struct bb_op_times op_times;
    int rc; /* the first failure */
};

/* bb_execution_end - a task has ended at its end_ns: what waits for it may arrive. */
void bb_execution_end(struct bb_execution *r, int at);
void bb_execution_start(struct bb_execution *r, int at); /* a task arrives */

static inline void bb_raise_time(int64_t *time, int64_t other)
{
    if (other > *time)
        *time = other;
}

/* bb_round_ns - llround, which is a call, and every event asks for it. */
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
