/*
 * critical_path.h - what the length of a step hangs on: the chain of operations, from the last end back to the start,
 * none of which could have been later without the step being longer. Pure; from the times of a timeline, so of run and
 * of predicted steps alike.
 *
 * Walked back from the last end of the slowest rank: communication that waited leads to the rank that came last; from
 * where an operation begins the path goes on with the one that ended last of those that it follows (on its stream, on
 * its communicator, by its waits). A gap between the two is the host's. Every instant of the step is in one part, so
 * they add up to it.
 */
#ifndef BB_PROXIES_TIMELINE_CRITICAL_PATH_H
#define BB_PROXIES_TIMELINE_CRITICAL_PATH_H

#include "proxies/timeline/timeline.h"

#include <jansson.h>

enum bb_critical_part {
    BB_CRITICAL_COMPUTE,
    BB_CRITICAL_TRANSFER,
    BB_CRITICAL_WAITING, /* for ranks whose times the timeline does not have */
    BB_CRITICAL_HOST,    /* nothing on the GPU was in the way */
    BB_CRITICAL_PARTS
};

struct bb_critical_op {
    int rank, op;
};

struct bb_critical_path {
    int64_t ns[BB_CRITICAL_PARTS]; /* in sum the step of the slowest rank           */
    int rank;                      /* that one                                      */
    struct bb_critical_op *ops;    /* [n] from the last one back to the first       */
    size_t n;
    bool **marked; /* [n_shown][operations] as the timeline's ops; by index of the rank whose times it has */
    int *shown_as; /* [ranks] that index, BB_NONE: none                                                    */
    int n_shown;
};

/* bb_critical_path_init - class_of: [ranks] by index in t, whose times a rank has; NULL: those shown have their own, the
 * others none. 0 or -BB_EFAIL. release is fine on a zeroed one. */
int bb_critical_path_init(struct bb_critical_path *path, const struct bb_timeline *t,
                          const int *class_of) BB_MUST_CHECK;
void bb_critical_path_release(struct bb_critical_path *path);

/* bb_critical_path_json - rank, operations, and each part in microseconds; NULL without memory. */
json_t *bb_critical_path_json(const struct bb_critical_path *path);

/* bb_critical_path_has - whether the operation of that rank, or of one that has its times, is on it. path NULL: no. */
bool bb_critical_path_has(const struct bb_critical_path *path, int rank, int op);

/* bb_critical_path_has_any - of operations [first, end), those on the first one's stream. */
bool bb_critical_path_has_any(const struct bb_critical_path *path, const struct bb_timeline *t, int rank, int first,
                              int end);

#endif
