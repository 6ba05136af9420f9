/*
 * event_queue.h - what is to happen when, the earliest first; what comes at one moment, in the order in which it was added.
 *
 * Time only goes on, so this is a radix heap: an entry waits in the slot of the highest bit in which its moment differs
 * from the present one, and is moved to lower slots as the present comes nearer. So most entries are moved but a few
 * times, always from one end of an array to the other.
 */
#ifndef BB_PROXIES_SIMULATE_EVENT_QUEUE_H
#define BB_PROXIES_SIMULATE_EVENT_QUEUE_H

#include "bootstrap/base/err.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Whoever reads an entry knows its kinds, and by the epoch whether it still holds. */
struct bb_event {
    double when_ns;
    int id;
    unsigned kind : 4, epoch : 28;
};

/* All zero: empty, at moment 0. */
struct bb_event_queue {
    double now_ns;
    struct bb_event_bucket {
        struct bb_event *entries;
        size_t n, capacity;
    } buckets[64];   /* by the bit + 1; the first: what is due now */
    size_t n_popped;  /* of what is due                             */
    uint64_t used_buckets; /* bits of the other slots that have entries  */
};

/* bb_event_queue_push - what is not later than now is due now. */
int bb_event_queue_push(struct bb_event_queue *a, struct bb_event entry) BB_MUST_CHECK;
/* bb_event_queue_pop - the next that is due now; false: nothing is. */
bool bb_event_queue_pop(struct bb_event_queue *a, struct bb_event *entry);
/* bb_event_queue_advance - to the next moment at which something is due, when nothing is now. 1, 0: there is none, or
 * -BB_EFAIL. */
int bb_event_queue_advance(struct bb_event_queue *a) BB_MUST_CHECK;
void bb_event_queue_release(struct bb_event_queue *a);

#endif
