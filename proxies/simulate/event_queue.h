/*
 * event_queue.h - the event queue of the simulation: a monotone radix heap (Ahuja, Mehlhorn, Orlin and Tarjan,
 * "Faster algorithms for the shortest path problem", J. ACM 37(2), 1990).
 *
 * Events are taken in the order of their times; events of equal time are taken in the order in which they were added.
 * The heap is monotone: no event is added before the current time. Bucket b > 0 holds the events whose time, as the
 * bits of a double, differs from the current time first in bit b - 1. When the time advances, the events of the lowest
 * non-empty bucket move to lower buckets. Each event therefore moves only a few times, with sequential memory access.
 */
#ifndef BB_PROXIES_SIMULATE_EVENT_QUEUE_H
#define BB_PROXIES_SIMULATE_EVENT_QUEUE_H

#include "bootstrap/base/err.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* The user of the queue defines kind and id. The epoch marks stale events: the user ignores an event whose epoch no
 * longer matches that of its object. */
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
    } buckets[64];         /* bucket 0 holds the events due now; bucket b as described above */
    size_t n_popped;       /* events of bucket 0 that were taken */
    uint64_t used_buckets; /* bit b: bucket b has events; bucket 0 is not included */
};

/* bb_event_queue_push - adds an event; an event in the past counts as due now. Returns 0 or -BB_EFAIL (out of
 * memory). */
int bb_event_queue_push(struct bb_event_queue *a, struct bb_event entry) BB_MUST_CHECK;
/* bb_event_queue_pop - takes the next event that is due now. Returns false if there is none. */
bool bb_event_queue_pop(struct bb_event_queue *a, struct bb_event *entry);
/*
 * bb_event_queue_advance - moves the time to the next event. Call only when no event is due now.
 *   Returns  1; 0 if the queue is empty; -BB_EFAIL if out of memory
 */
int bb_event_queue_advance(struct bb_event_queue *a) BB_MUST_CHECK;
void bb_event_queue_release(struct bb_event_queue *a);

#endif
