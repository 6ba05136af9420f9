/*
 * neighbours.h - the ranks of a job on one host monitor each other without MPI and without the watchdog's TCP
 * connections. This is needed before the ranks are connected, and to end a rank that the watchdog cannot reach. Each
 * rank owns an abstract socket name until it exits, and monitors the socket of the next rank on the host. The
 * monitoring is disabled if the launcher's environment does not list the ranks of a host. Forked ranks (siblings.h) do
 * not need it, because the kernel ends them with the process that forked them.
 */
#ifndef BB_BOOTSTRAP_START_NEIGHBOURS_H
#define BB_BOOTSTRAP_START_NEIGHBOURS_H

#include <stdatomic.h>

enum { BB_NEIGHBOURS_MAX = 1024 };

struct bb_neighbours {
    int ranks[BB_NEIGHBOURS_MAX], n; /* ranks: the ranks of this host in increasing order; n: number of these ranks,
                                        0 if monitoring is disabled */
    int place;                       /* index of this rank in ranks */
    atomic_int own; /* listening socket with this rank's socket name; closing it releases the name; -1: none */
    int next;       /* connection to the socket of the next rank; -1: the next rank has not started yet */
};

/* bb_neighbours_begin - find the ranks of this host and create this rank's socket name. */
void bb_neighbours_begin(struct bb_neighbours *all);

/* bb_neighbours_lost - returns the rank number of the next rank on this host if that rank had started and has
 * exited, else -1. Does not block. */
int bb_neighbours_lost(struct bb_neighbours *all);

/* bb_neighbours_missing - returns the first rank of this host that has no process, or -1 if all ranks have one.
 * *more: out, number of further missing ranks. */
int bb_neighbours_missing(const struct bb_neighbours *all, int *more);

/*
 * bb_neighbours_end - release this rank's socket name and end the other ranks of this host in a chain: send SIGCONT to
 * the next rank, send SIGKILL if it has not exited after 3 s, and then continue with the rank after it. The chain stops
 * at a rank that exits without SIGKILL, because that rank ends the rank after it.
 */
void bb_neighbours_end(struct bb_neighbours *all);

/* bb_neighbours_release - release this rank's socket name and close the connection to the next rank. */
void bb_neighbours_release(struct bb_neighbours *all);

#endif
