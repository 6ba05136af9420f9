/*
 * step_start_barrier.h - check whether the host can enqueue a whole step while a start barrier blocks the GPU
 * (--start-barrier). If the step fills a launch queue or NCCL's work FIFO, the host blocks in a launch and cannot
 * release the barrier.
 */
#ifndef BB_PROXIES_FORM_STEP_STEP_START_BARRIER_H
#define BB_PROXIES_FORM_STEP_STEP_START_BARRIER_H

#include "proxies/form/step/step.h"

/*
 * bb_step_queue_entries - return an upper bound of the number of kernels, event records and event waits that a program
 * enqueues in one hardware queue of the GPU.
 *   queues   number of hardware queues, which the streams of the program and of its communicators share
 */
long bb_step_queue_entries(const struct bb_program *p, const struct bb_layout *l, int queues);

/* bb_step_fifo_bytes - return the number of bytes that a program writes to the work FIFO of one NCCL communicator:
 * the maximum over the communicators that the program uses. */
long bb_step_fifo_bytes(const struct bb_program *p, const struct bb_layout *l);

/* bb_step_start_barrier_check - return 0, or -BB_EUSAGE after printing an error line if the program of any rank
 * would fill a launch queue or NCCL's work FIFO while the start barrier blocks the GPU. queues: number of hardware
 * queues. fifo_bytes: bb_fifo_capacity(). */
int bb_step_start_barrier_check(const struct bb_step *step, int queues, size_t fifo_bytes) BB_MUST_CHECK;

#endif
