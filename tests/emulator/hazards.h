/*
 * hazards.h - optional models of two properties of real GPUs that can block a stream or the host (README.md,
 * "Hazards"): hardware queues that several streams share, and a launch queue of limited size. Environment variables
 * enable them.
 */
#ifndef EMU_HAZARDS_H
#define EMU_HAZARDS_H

#include "internal.h"

#pragma GCC visibility push(hidden)

void emu_hazards_load(void);

/* Hardware queues: an item of a stream begins only after all items that entered the same hardware queue earlier have
 * begun, regardless of their streams. */
void emu_queue_assign_locked(struct CUstream_st *s);
void emu_queue_take_locked(struct CUstream_st *s, struct emu_item *item); /* assigns the item's position in the queue */
/* waits until all earlier items of the queue have begun */
void emu_queue_await_locked(struct CUstream_st *s, const struct emu_item *item);
/* marks the item as begun at the stream's clock, so that the next item of the queue can begin */
void emu_queue_begin_locked(struct CUstream_st *s, const struct emu_item *item);

/* Launch queue: emu_launch_queue_await_locked blocks the host until the stream's launch queue has `entries` free
 * entries. emu_launch_queue_free_locked frees the entries of an item that has ended. */
void emu_launch_queue_await_locked(struct CUstream_st *s, int entries);
void emu_launch_queue_free_locked(struct CUstream_st *s, const struct emu_item *item);

#pragma GCC visibility pop
#endif
