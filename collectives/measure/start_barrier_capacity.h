/*
 * start_barrier_capacity.h - how many iterations a start barrier can hold. More iterations would fill the launch queue
 * or NCCL's work FIFO and block the host, and the barrier would open only by its timeout.
 */
#ifndef BB_COLLECTIVES_MEASURE_START_BARRIER_CAPACITY_H
#define BB_COLLECTIVES_MEASURE_START_BARRIER_CAPACITY_H

#include "collectives/ops/coll.h"

/* bb_start_barrier_capacity - maximum number of iterations of `aggregate` operations each, on a communicator of
 * `ranks` ranks. May be 0. */
size_t bb_start_barrier_capacity(enum bb_coll_kind kind, int ranks, size_t aggregate);

#endif
