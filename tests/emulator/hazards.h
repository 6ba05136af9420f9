/*
 * hazards.h - hazards of real hardware that the plain model does not have (README.md, "Hazards"): hardware queues
 * shared by streams, and a launch queue that blocks the host when it is full. An environment variable switches each on.
 */
#ifndef EMU_HAZARDS_H
#define EMU_HAZARDS_H

#include "internal.h"

#pragma GCC visibility push(hidden)

void emu_hazards_load(void);

/* Hardware queues: an item of a stream begins when all items that entered the same queue earlier have begun,
 * whatever their streams. */
void emu_queue_assign_locked(struct CUstream_st *s);
void emu_queue_take_locked(struct CUstream_st *s, struct emu_item *item); /* assigns the item's position in the queue */
void emu_queue_await_locked(struct CUstream_st *s, const struct emu_item *item); /* waits for its turn */
/* begins at the stream's clock; the next item of the queue may follow */
void emu_queue_begin_locked(struct CUstream_st *s, const struct emu_item *item);

/* Launch queue: the first function blocks the host until the stream's launch queue has `entries` free entries; the
 * second frees the entries of an item that has ended. */
void emu_launch_queue_await_locked(struct CUstream_st *s, int entries);
void emu_launch_queue_free_locked(struct CUstream_st *s, const struct emu_item *item);

#pragma GCC visibility pop
#endif
