/*
 * exchange.h - transport of the small exchanges in world.h: MPI between the first ranks of the supervisors, and shared
 * memory between the ranks of one supervisor (siblings.h). Used only inside bootstrap/world.
 */
#ifndef BB_BOOTSTRAP_WORLD_EXCHANGE_H
#define BB_BOOTSTRAP_WORLD_EXCHANGE_H

#include "bootstrap/world/world.h"

/* bb_mpi_failed - returns 0 if code is MPI_SUCCESS, else prints MPI's error text for the call and returns -BB_EFAIL. */
int bb_mpi_failed(int code, const char *call) BB_MUST_CHECK;

/* bb_exchange_places - pass the rank number and the size of the run from the first rank of a supervisor, which has them
 * from MPI, to the other ranks of the supervisor, which store their own numbers in w->rank and w->size. Requires
 * w->siblings. */
int bb_exchange_places(struct bb_world *w) BB_MUST_CHECK;

/* bb_exchange_all - like bb_world_allgather; `what` is the name of the wait in messages. */
int bb_exchange_all(struct bb_world *w, const char *what, const void *send, void *recv, size_t bytes) BB_MUST_CHECK;

#endif
