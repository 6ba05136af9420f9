/*
 * neighbours.h - what the ranks of a job on one host see of one another without MPI and without the watchdog's
 * connections: before they know each other, and when one is left that nobody can reach. Each has a name of the kernel's
 * for as long as it lives, and each looks at the next. Nothing is known, and nothing done, where the launcher does not
 * tell the ranks of a host. Not for ranks that a process starts itself (siblings.h), which end with it.
 */
#ifndef BB_BOOTSTRAP_START_NEIGHBOURS_H
#define BB_BOOTSTRAP_START_NEIGHBOURS_H

#include <stdatomic.h>

enum { BB_NEIGHBOURS_MAX = 1024 };

struct bb_neighbours {
    int ranks[BB_NEIGHBOURS_MAX], n; /* of this host; n is 0 where nothing is known */
    int place;                       /* of this rank among them */
    atomic_int own;                  /* its name is there until this is closed */
    int next;                        /* connection to the next one's name; -1: it has not come yet */
};

/* bb_neighbours_begin - this rank is there. */
void bb_neighbours_begin(struct bb_neighbours *all);

/* bb_neighbours_lost - the next rank, if it was there and is gone; else -1. At once. */
int bb_neighbours_lost(struct bb_neighbours *all);

/* bb_neighbours_missing - the first rank of this host that is not there, -1 without any; *more: how many others. */
int bb_neighbours_missing(const struct bb_neighbours *all, int *more);

/*
 * bb_neighbours_end - this rank is no more, and neither shall the next be, which knows that the job has ended unless it
 * is stopped: it is continued, and killed when it is there after three seconds; so on with the one after it.
 */
void bb_neighbours_end(struct bb_neighbours *all);

/* bb_neighbours_release - this rank is no more. */
void bb_neighbours_release(struct bb_neighbours *all);

#endif
