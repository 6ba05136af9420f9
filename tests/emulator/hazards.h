/*
 * hazards.h - what real hardware does and a plain model does not, each switched on by environment (README.md,
 * "Hazards"): hardware queues that streams share, and a launch queue that keeps the host when it is full.
 */
#ifndef EMU_HAZARDS_H
#define EMU_HAZARDS_H

#include "internal.h"

#pragma GCC visibility push(hidden)

void emu_hazards_load(void);

/* Hardware queues. An item of a stream begins when all that were given to its queue before it have begun, whatever
 * their streams. */
void emu_queue_assign_locked(struct CUstream_st *s);
void emu_queue_take_locked(struct CUstream_st *s, struct emu_item *item); /* its place behind the others             */
void emu_queue_await_locked(struct CUstream_st *s, const struct emu_item *item); /* until it is its turn              */
void emu_queue_begin_locked(struct CUstream_st *s, const struct emu_item *item); /* at s's clock: the next may come   */

/* Launch queue: the host waits until the stream has room for so many entries more. emu_room_free_locked: an item ends. */
void emu_launch_queue_await_locked(struct CUstream_st *s, int entries);
void emu_launch_queue_free_locked(struct CUstream_st *s, const struct emu_item *item);

#pragma GCC visibility pop
#endif
