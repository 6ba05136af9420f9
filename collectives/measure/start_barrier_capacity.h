/*
 * start_barrier_capacity.h - number of iterations that can be enqueued while a start barrier (a kernel that holds the
 * stream until all ranks have enqueued their operations) is closed. More iterations would fill the launch queue or
 * NCCL's work FIFO and block the host, and the barrier would not open before its time limit.
 */
#ifndef BB_COLLECTIVES_MEASURE_START_BARRIER_CAPACITY_H
#define BB_COLLECTIVES_MEASURE_START_BARRIER_CAPACITY_H

#include "collectives/ops/coll.h"

/* bb_fifo_capacity - return the bytes that the work FIFO of an NCCL communicator holds for certain: 7/8 of its size
 * (NCCL_WORK_FIFO_BYTES), because kernels free the FIFO in units of one eighth (enqueue.cc). */
size_t bb_fifo_capacity(void);

/* bb_start_barrier_capacity - return the maximum number of iterations, of `aggregate` operations each, on a
 * communicator with `ranks` ranks, whose work FIFO holds fifo_bytes. copy_engines: NCCL may
 * run the collective by copy engines, which takes more entries of the launch queue. May be 0. */
size_t bb_start_barrier_capacity(enum bb_coll_kind kind, int ranks, size_t aggregate, size_t fifo_bytes,
                                 bool copy_engines);

#endif
