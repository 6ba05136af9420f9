/*
 * start_barrier_capacity.h - how many iterations may be enqueued behind a closed gate: as many as fill none of the queues that keep
 * the host inside a call when they are full, for then the gate would open by its limit only.
 */
#ifndef BB_COLLECTIVES_MEASURE_START_BARRIER_CAPACITY_H
#define BB_COLLECTIVES_MEASURE_START_BARRIER_CAPACITY_H

#include "collectives/ops/coll.h"

/* bb_start_barrier_capacity - iterations of `aggregate` operations each, on a communicator of `ranks` ranks. May be 0. Pure. */
size_t bb_start_barrier_capacity(enum bb_coll_kind kind, int ranks, size_t aggregate);

#endif
