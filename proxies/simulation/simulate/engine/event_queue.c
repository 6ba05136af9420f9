/* event_queue.c - a monotone radix heap (see event_queue.h). Times are never negative, so the bit patterns of two
 * times, compared as unsigned integers, have the same order as the times. */
#include "proxies/simulation/simulate/engine/event_queue.h"

#include "bootstrap/base/alloc.h"

#include <stdlib.h>
#include <string.h>

static uint64_t bits_of(double when_ns)
{
    uint64_t bits;

    memcpy(&bits, &when_ns, sizeof(bits));
    return bits;
}

void bb_event_queue_push(struct bb_event_queue *a, struct bb_event entry)
{
    const int at = entry.when_ns > a->now_ns ? 64 - __builtin_clzll(bits_of(entry.when_ns) ^ bits_of(a->now_ns)) : 0;
    struct bb_event_bucket *bucket = &a->buckets[at];

    if (bucket->n == bucket->capacity) { /* not BB_GROW, which assumes that an array only grows */
        bucket->capacity = bucket->capacity ? 2 * bucket->capacity : 64;
        bucket->entries = bb_resize(bucket->entries, bucket->capacity, sizeof(*bucket->entries));
    }
    bucket->entries[bucket->n++] = entry;
    if (at > 0)
        a->used_buckets |= (uint64_t)1 << at;
}

bool bb_event_queue_pop(struct bb_event_queue *a, struct bb_event *entry)
{
    if (a->n_popped == a->buckets[0].n) {
        a->n_popped = a->buckets[0].n = 0;
        return false;
    }
    *entry = a->buckets[0].entries[a->n_popped++];
    return true;
}

/* Returns the earliest time in the bucket. single_time: out, true if all events of the bucket have this time. */
static double earliest_in(const struct bb_event_bucket *bucket, bool *single_time)
{
    double earliest_ns = bucket->entries[0].when_ns, latest_ns = earliest_ns;

    for (size_t i = 1; i < bucket->n; i++) {
        const double when_ns = bucket->entries[i].when_ns;

        earliest_ns = when_ns < earliest_ns ? when_ns : earliest_ns;
        latest_ns = when_ns > latest_ns ? when_ns : latest_ns;
    }
    *single_time = earliest_ns == latest_ns;
    return earliest_ns;
}

bool bb_event_queue_advance(struct bb_event_queue *a)
{
    struct bb_event_bucket *bucket;
    bool single_time;
    size_t n;

    if (a->used_buckets == 0)
        return false;
    bucket = &a->buckets[__builtin_ctzll(a->used_buckets)];
    a->used_buckets &= a->used_buckets - 1;
    a->now_ns = earliest_in(bucket, &single_time);
    if (single_time) { /* all events of the bucket are due now: swap it with the empty bucket 0 */
        const struct bb_event_bucket empty = a->buckets[0];

        a->buckets[0] = *bucket;
        *bucket = empty;
        return true;
    }
    n = bucket->n;
    bucket->n = 0;
    for (size_t i = 0; i < n; i++) /* each event moves to a lower bucket, so the loop does not modify the bucket that
                                      it reads */
        bb_event_queue_push(a, bucket->entries[i]);
    return true;
}

void bb_event_queue_release(struct bb_event_queue *a)
{
    for (size_t i = 0; i < sizeof(a->buckets) / sizeof(a->buckets[0]); i++)
        free(a->buckets[i].entries);
    *a = (struct bb_event_queue){0};
}
