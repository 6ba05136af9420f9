/*
 * critical_path.h - the critical path of a step: the chain of operations, from the start of the step to the end of its
 * last operation, that determines the length of the step. A delay of any of these operations makes the step longer. The
 * path is computed from the times of a timeline, for measured and for predicted steps.
 *
 * The search starts at the end of the last operation of the slowest rank and goes backwards. From the begin of an
 * operation it goes to the predecessor with the latest end; predecessors are the previous operations on the same stream
 * and communicator, and the operations for which the operation waits. From a communication operation that waited for a
 * peer it goes to the rank that arrived last. A gap between an operation and its predecessor is host time. Each instant
 * of the step belongs to exactly one category (compute, transfer, waiting, host), so the categories add up to the step.
 */
#ifndef BB_PROXIES_SIMULATION_TIMELINE_CRITICAL_PATH_H
#define BB_PROXIES_SIMULATION_TIMELINE_CRITICAL_PATH_H

#include "proxies/simulation/timeline/timeline.h"

#include <jansson.h>

enum bb_critical_part {
    BB_CRITICAL_COMPUTE,
    BB_CRITICAL_TRANSFER,
    BB_CRITICAL_WAITING, /* waiting for ranks whose times are unknown; if they are known, the path continues on the
                            rank that arrived last */
    BB_CRITICAL_HOST,    /* host time: all predecessors on the GPU have ended, but the host has not enqueued the
                            operation yet */
    BB_CRITICAL_PARTS
};

struct bb_critical_op {
    int rank, op;
};

struct bb_critical_path {
    int64_t ns[BB_CRITICAL_PARTS]; /* time of each category (enum bb_critical_part: compute, transfer, waiting,
                                      host); the sum is the step time of the slowest rank */
    int rank;                      /* the slowest rank */
    struct bb_critical_op *ops;    /* [n] the operations on the path, from the end of the step to its start */
    size_t n;
    bool **marked; /* [n_shown][operations of the rank] true: the operation is on the path; n_shown: number of ranks
                      in the timeline */
    int *shown_as; /* [ranks] index in the timeline of the rank whose times are used for each rank; BB_NONE: the
                      times of the rank are unknown */
    int n_shown;
};

/*
 * bb_critical_path_init - computes the critical path of a timeline.
 *   times_from  [ranks] for each rank: index in t of the rank whose times are used for it; NULL: each rank in t has its
 *               own times, and the times of all other ranks are unknown
 *   Owner       the caller releases path with bb_critical_path_release, which also accepts a zeroed path
 */
void bb_critical_path_init(struct bb_critical_path *path, const struct bb_timeline *t, const int *times_from);
void bb_critical_path_release(struct bb_critical_path *path);

/* bb_critical_path_json - returns a JSON object with the slowest rank, the number of operations on the path, and the
 * time of each category (compute, transfer, waiting, host) in microseconds. */
json_t *bb_critical_path_json(const struct bb_critical_path *path);

/* bb_critical_path_has - returns whether operation `op` of the rank is on the path. If the rank is represented by
 * another rank (shown_as), the result is that of the representing rank. path NULL: returns false. */
bool bb_critical_path_has(const struct bb_critical_path *path, int rank, int op);

#endif
