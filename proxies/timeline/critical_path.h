/*
 * critical_path.h - the critical path of a step: the chain of operations, from the start to the last end, that
 * determines the length of the step. A delay of any of them makes the step longer. The path is computed from the times
 * of a timeline, for measured and for predicted steps.
 *
 * The path is walked backwards from the last end of the slowest rank. From the begin of an operation it goes to the
 * operation with the latest end among its predecessors (on its stream, on its communicator, and those for which it
 * waits). From a communication that waited it goes to the rank that arrived last. A gap between an operation and its
 * predecessor is host time. Each instant of the step belongs to one part, so the parts add up to the step.
 */
#ifndef BB_PROXIES_TIMELINE_CRITICAL_PATH_H
#define BB_PROXIES_TIMELINE_CRITICAL_PATH_H

#include "proxies/timeline/timeline.h"

#include <jansson.h>

enum bb_critical_part {
    BB_CRITICAL_COMPUTE,
    BB_CRITICAL_TRANSFER,
    BB_CRITICAL_WAITING, /* waiting for ranks whose times are not in the timeline */
    BB_CRITICAL_HOST,    /* no dependency on the GPU: the host had not issued the operation */
    BB_CRITICAL_PARTS
};

struct bb_critical_op {
    int rank, op;
};

struct bb_critical_path {
    int64_t ns[BB_CRITICAL_PARTS]; /* sum: the step of the slowest rank */
    int rank;                      /* slowest rank */
    struct bb_critical_op *ops;    /* [n] from the last operation back to the first */
    size_t n;
    bool **marked; /* [n_shown][operations] on the path; indexed as the timeline's ops */
    int *shown_as; /* [ranks] index in the timeline of the rank whose times are used; BB_NONE: unknown */
    int n_shown;
};

/*
 * bb_critical_path_init - computes the path.
 *   class_of  [ranks] index in t of the rank with the times of each rank; NULL: only ranks in t have times
 *   Returns   0 or -BB_EFAIL
 *   Owner     the caller releases path with bb_critical_path_release, which also accepts a zeroed one
 */
int bb_critical_path_init(struct bb_critical_path *path, const struct bb_timeline *t,
                          const int *class_of) BB_MUST_CHECK;
void bb_critical_path_release(struct bb_critical_path *path);

/* bb_critical_path_json - rank, number of operations, and each part in microseconds; NULL if out of memory. */
json_t *bb_critical_path_json(const struct bb_critical_path *path);

/* bb_critical_path_has - whether this operation of the rank, or of the rank with its times, is on the path. path
 * NULL: false. */
bool bb_critical_path_has(const struct bb_critical_path *path, int rank, int op);

/* bb_critical_path_has_any - whether any operation of [first, end) on the stream of `first` is on the path. */
bool bb_critical_path_has_any(const struct bb_critical_path *path, const struct bb_timeline *t, int rank, int first,
                              int end);

#endif
