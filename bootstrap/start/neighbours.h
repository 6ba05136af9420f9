/*
 * neighbours.h - the ranks of a job on one host monitor each other without MPI and without the watchdog's connections:
 * before the ranks are connected, and to end a rank that no connection reaches. Each rank owns an abstract socket name
 * for as long as it lives, and monitors the next rank. Disabled if the launcher does not list the ranks of a host. Not
 * for ranks that a process forks (siblings.h), because they end with that process.
 */
#ifndef BB_BOOTSTRAP_START_NEIGHBOURS_H
#define BB_BOOTSTRAP_START_NEIGHBOURS_H

#include <stdatomic.h>

enum { BB_NEIGHBOURS_MAX = 1024 };

struct bb_neighbours {
    int ranks[BB_NEIGHBOURS_MAX], n; /* ranks of this host in increasing order; n is 0 if disabled */
    int place;                       /* index of this rank in ranks */
    atomic_int own;                  /* listening socket; its name exists until it is closed; -1: none */
    int next; /* connection to the socket of the next rank; -1: the next rank has not started yet */
};

/* bb_neighbours_begin - create this rank's name. */
void bb_neighbours_begin(struct bb_neighbours *all);

/* bb_neighbours_lost - returns the next rank if it existed and is gone, else -1. Does not block. */
int bb_neighbours_lost(struct bb_neighbours *all);

/* bb_neighbours_missing - returns the first rank of this host that does not exist, -1 if all do; *more: number of
 * further missing ranks. */
int bb_neighbours_missing(const struct bb_neighbours *all, int *more);

/*
 * bb_neighbours_end - remove this rank's name and tear down this host's chain of ranks: SIGCONT the next rank, SIGKILL
 * it if it has not exited after 3 s, and then continue with the rank after it. A rank that exits by itself ends the
 * chain, because it tears down the next one.
 */
void bb_neighbours_end(struct bb_neighbours *all);

/* bb_neighbours_release - remove this rank's name and close the connection. */
void bb_neighbours_release(struct bb_neighbours *all);

#endif
