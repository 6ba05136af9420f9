/*
 * waiting.h - for each role and group, how long the ranks of the role wait in the calls of the group for the last rank
 * to arrive. In a measured step also for which rank. In a predicted step the slow parts are known, and their cost is
 * predicted (bb_prediction.slow_cost_ns).
 *
 * The waiting time of a rank in a call is the time from its arrival to the arrival of the last participant. The last
 * participant waits 0. The waiting time in a group is the time during which at least one of its calls waits: calls on
 * several streams may wait at the same time. In a measured step, where clocks of different GPUs are not compared, this
 * is the duration of the call minus its shortest duration on any participant (runner/run/breakdown.h).
 */
#ifndef BB_PROXIES_SIMULATION_TIMELINE_WAITING_H
#define BB_PROXIES_SIMULATION_TIMELINE_WAITING_H

#include "bootstrap/base/units.h"
#include "proxies/simulation/timeline/op_names.h"

#include <jansson.h>
#include <stdio.h>

struct bb_wait_row {
    const char *role, *group;
    int group_index;           /* index of the group in layout.groups */
    int ranks;                 /* number of ranks of the role with traffic in the group */
    double median_us, most_us; /* waiting time of a rank in the group in one step, over these ranks */
    int most_rank;             /* the rank that waits longest; its waiting time is most_us */
    int waited_for;            /* measured: the rank for which most_rank waits longest; BB_NONE: it does not wait */
    double waited_for_us; /* measured: most_us times the share of the rank waited_for in the waiting of all calls */
};

/* The part of the step that is longer on a late rank: neither kernels nor communication run (a late host), kernels,
 * transfers; BB_LATE_CAUSES: none is. */
enum bb_late_cause { BB_LATE_IDLE, BB_LATE_KERNELS, BB_LATE_TRANSFERS, BB_LATE_CAUSES };

struct bb_wait_table {
    struct bb_wait_row *rows;
    int n;
    bool measured; /* true: the following members, and waited_for and waited_for_us of the rows, are set */
    int late_rank; /* the rank that waits less than the others of its role (bb_run_waiting); BB_NONE: none */
    int late_node; /* node of late_rank */
    enum bb_late_cause late_cause;
    double late_us; /* by how much longer its cause takes than on the typical rank of the role */
    int idle_rank;  /* of the ranks without another rank of their role, the one that is idle longest; BB_NONE: none */
    double idle_us; /* by how much longer than the next */
};

/* A role: a set of ranks with the same program. */
struct bb_wait_role {
    const struct bb_layout *layout;
    const struct bb_program *program;
    const char *name;
    const int *ranks;
    int n; /* number of ranks, at least 1 */
};

/*
 * bb_wait_table_add - adds a row for each group of at least two ranks in which the role has traffic. waited_for and
 * waited_for_us of the rows remain unknown.
 *   waiting_us  returns the waiting time of a rank in a group in one step, in us; NaN: unknown, no row
 * bb_wait_table_release - accepts a zeroed table.
 */
typedef double bb_waiting_us(const void *arg, int rank, int group);
void bb_wait_table_add(struct bb_wait_table *w, const struct bb_wait_role *role, bb_waiting_us *waiting_us,
                       const void *arg);
void bb_wait_table_release(struct bb_wait_table *w);

/*
 * bb_wait_table_print - prints the rows in which a rank waits for at least 0.1 % of the step; no line if
 * there are no such rows.
 *   unit    unit of all times
 *   prefix  begin of the two heading lines
 * bb_wait_table_json - adds waiting (an array with all rows) and, if measured, the late rank to the object.
 */
void bb_wait_table_print(const struct bb_wait_table *w, double step_us, const struct bb_time_unit *unit,
                         const char *prefix, FILE *out);
void bb_wait_table_json(const struct bb_wait_table *w, json_t *object);

#endif
