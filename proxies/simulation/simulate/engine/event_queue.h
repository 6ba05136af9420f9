/*
 * event_queue.h - the event queue of the simulation: a monotone radix heap (Ahuja, Mehlhorn, Orlin and Tarjan, "Faster
 * algorithms for the shortest path problem", J. ACM 37(2), 1990).
 *
 * Events are popped in the order of their times, and events with equal times in the order in which they were pushed.
 * The heap is monotone: no event is pushed for a time before the current time. The bucket of an event depends on the
 * highest bit in which the event's time differs from the current time, both as bit patterns of doubles: if this is bit
 * b - 1, the event is in bucket b > 0. Bucket 0 contains the events with the current time. When the time advances, the
 * events of the lowest non-empty bucket move to lower buckets. Each event therefore moves only a few times, with
 * sequential memory access.
 */
#ifndef BB_PROXIES_SIMULATION_SIMULATE_ENGINE_EVENT_QUEUE_H
#define BB_PROXIES_SIMULATION_SIMULATE_ENGINE_EVENT_QUEUE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* kind and id are defined by the caller. epoch: version number of the object at the time of the push; the caller
 * ignores an event whose epoch is not the object's current one. */
struct bb_event {
    double when_ns;
    int id;
    unsigned kind : 4, epoch : 28;
};

/* An all-zero queue is empty, at time 0. */
struct bb_event_queue {
    double now_ns;
    struct bb_event_bucket {
        struct bb_event *entries;
        size_t n, capacity;
    } buckets[64];   /* bucket 0: events that are due now; bucket b > 0: events for which bit b - 1 is the highest bit
                        in which the event's time differs from the current time */
    size_t n_popped; /* number of events in bucket 0 that have been popped */
    uint64_t used_buckets; /* bit b (b > 0) is set if bucket b contains events */
};

/* bb_event_queue_push - adds an event. If its time is before the current time, the event is due immediately. */
void bb_event_queue_push(struct bb_event_queue *a, struct bb_event entry);
/* bb_event_queue_pop - removes the next event that is due at the current time. Returns false if there is none. */
bool bb_event_queue_pop(struct bb_event_queue *a, struct bb_event *entry);
/* bb_event_queue_advance - advances the current time to that of the next event. Requires that no event is due now.
 * Returns false if the queue is empty. */
bool bb_event_queue_advance(struct bb_event_queue *a);
void bb_event_queue_release(struct bb_event_queue *a);

#endif
