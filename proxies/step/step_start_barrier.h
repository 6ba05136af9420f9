/*
 * step_start_barrier.h - whether a step can stand whole behind a closed gate (--gate): it must fill none of the queues that keep
 * the host inside a call, or the gate would never be opened.
 */
#ifndef BB_PROXIES_STEP_STEP_START_BARRIER_H
#define BB_PROXIES_STEP_STEP_START_BARRIER_H

#include "proxies/step/step.h"

/* bb_step_queue_entries - launch queue entries that the fullest hardware queue gets in a step of this program, by
 * `queues` hardware queues for its streams and those of its communicators. Pure. */
long bb_step_queue_entries(const struct bb_program *p, const struct bb_layout *l, int queues);

/* bb_step_fifo_bytes - the most work of a step that one communicator's FIFO gets. Pure. */
long bb_step_fifo_bytes(const struct bb_program *p, const struct bb_layout *l);

/* bb_step_start_barrier_check - -BB_EUSAGE, said, for a step of which some rank's does not fit. */
int bb_step_start_barrier_check(const struct bb_step *step, int queues) BB_MUST_CHECK;

#endif
