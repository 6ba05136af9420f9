/*
 * exchange.h - how the little data of world.h get from rank to rank: through MPI between processes, and between the
 * ranks of one process (bootstrap/start/siblings.h) through the socket that each has to the first of them. Inside of
 * this room only.
 */
#ifndef BB_BOOTSTRAP_WORLD_EXCHANGE_H
#define BB_BOOTSTRAP_WORLD_EXCHANGE_H

#include "bootstrap/world/world.h"

/* bb_mpi_failed - 0, or -BB_EFAIL after saying what MPI says of the call. */
int bb_mpi_failed(int code, const char *call) BB_MUST_CHECK;

/* bb_exchange_places - the first rank of a process knows w->rank and w->size, the others are told. */
int bb_exchange_places(struct bb_world *w) BB_MUST_CHECK;

/* bb_exchange_all - bb_world_allgather, with the name of the wait. */
int bb_exchange_all(struct bb_world *w, const char *what, const void *send, void *recv, size_t bytes) BB_MUST_CHECK;

#endif
