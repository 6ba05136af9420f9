/*
 * step_start_barrier.h - check whether a whole step can be enqueued while a start barrier blocks the GPU
 * (--start-barrier). If the step fills a launch queue or NCCL's work FIFO, the host blocks inside a call and never
 * releases the barrier.
 */
#ifndef BB_PROXIES_STEP_STEP_START_BARRIER_H
#define BB_PROXIES_STEP_STEP_START_BARRIER_H

#include "proxies/step/step.h"

/*
 * bb_step_queue_entries - return the launch queue entries that a program puts into its fullest hardware queue.
 *   queues   hardware queues, shared by the program's streams and the streams of its communicators
 */
long bb_step_queue_entries(const struct bb_program *p, const struct bb_layout *l, int queues);

/* bb_step_fifo_bytes - return the bytes of work that a program puts into the work FIFO of one communicator, maximum
 * over the communicators. */
long bb_step_fifo_bytes(const struct bb_program *p, const struct bb_layout *l);

/* bb_step_start_barrier_check - return 0, or -BB_EUSAGE, after an error line, when a rank's program fills a queue. */
int bb_step_start_barrier_check(const struct bb_step *step, int queues) BB_MUST_CHECK;

#endif
