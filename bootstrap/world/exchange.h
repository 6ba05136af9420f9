/*
 * exchange.h - transport of the small exchanges in world.h: MPI between processes, and for forked ranks
 * (bootstrap/start/siblings.h) the socket to the first rank of their process. Private to this module.
 */
#ifndef BB_BOOTSTRAP_WORLD_EXCHANGE_H
#define BB_BOOTSTRAP_WORLD_EXCHANGE_H

#include "bootstrap/world/world.h"

/* bb_mpi_failed - returns 0 if code is MPI_SUCCESS, else prints MPI's error text for the call and returns -BB_EFAIL. */
int bb_mpi_failed(int code, const char *call) BB_MUST_CHECK;

/* bb_exchange_places - send w->rank and w->size from the first rank of a process to its forked ranks. */
int bb_exchange_places(struct bb_world *w) BB_MUST_CHECK;

/* bb_exchange_all - bb_world_allgather with a name of the wait for messages. */
int bb_exchange_all(struct bb_world *w, const char *what, const void *send, void *recv, size_t bytes) BB_MUST_CHECK;

#endif
