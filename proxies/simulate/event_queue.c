/* event_queue.c - see event_queue.h. Moments are never negative, so that their bits, read as whole numbers, stand in their order. */
#include "proxies/simulate/event_queue.h"

#include <stdlib.h>
#include <string.h>

static uint64_t bits_of(double when_ns)
{
    uint64_t bits;

    memcpy(&bits, &when_ns, sizeof(bits));
    return bits;
}

/* It shrinks and grows all the time, so not by BB_GROW, which knows its room by the number alone. */
static int make_room(struct bb_event_bucket *slot)
{
    size_t room = slot->room ? 2 * slot->room : 64;
    struct bb_event *entries = realloc(slot->entries, room * sizeof(*entries));

    if (!entries)
        return bb_err(BB_EFAIL, "out of memory for %zu moments", room);
    slot->entries = entries;
    slot->room = room;
    return 0;
}

int bb_event_queue_push(struct bb_event_queue *a, struct bb_event entry)
{
    const int at = entry.when_ns > a->now_ns ? 64 - __builtin_clzll(bits_of(entry.when_ns) ^ bits_of(a->now_ns)) : 0;
    struct bb_event_bucket *slot = &a->slots[at];

    if (slot->n == slot->room && make_room(slot))
        return -BB_EFAIL;
    slot->entries[slot->n++] = entry;
    if (at > 0)
        a->used |= (uint64_t)1 << at;
    return 0;
}

bool bb_event_queue_pop(struct bb_event_queue *a, struct bb_event *entry)
{
    if (a->taken == a->slots[0].n) {
        a->taken = a->slots[0].n = 0;
        return false;
    }
    *entry = a->slots[0].entries[a->taken++];
    return true;
}

/* one: nothing in the slot is later. */
static double earliest_of(const struct bb_event_bucket *slot, bool *one)
{
    double earliest_ns = slot->entries[0].when_ns, latest_ns = earliest_ns;

    for (size_t i = 1; i < slot->n; i++) {
        const double when_ns = slot->entries[i].when_ns;

        earliest_ns = when_ns < earliest_ns ? when_ns : earliest_ns;
        latest_ns = when_ns > latest_ns ? when_ns : latest_ns;
    }
    *one = earliest_ns == latest_ns;
    return earliest_ns;
}

/* All that is in the slot is due: it changes places with the first slot, which is empty. */
static void swap_in(struct bb_event_queue *a, struct bb_event_bucket *slot)
{
    const struct bb_event_bucket empty = a->slots[0];

    a->slots[0] = *slot;
    *slot = empty;
}

int bb_event_queue_advance(struct bb_event_queue *a)
{
    struct bb_event_bucket *slot;
    bool one;
    size_t n;
    int rc;

    if (a->used == 0)
        return 0;
    slot = &a->slots[__builtin_ctzll(a->used)];
    a->used &= a->used - 1;
    a->now_ns = earliest_of(slot, &one);
    if (one) {
        swap_in(a, slot);
        return 1;
    }
    n = slot->n;
    slot->n = 0;
    for (size_t i = 0; i < n; i++)
        TRY(bb_event_queue_push(a, slot->entries[i])); /* to lower slots: none comes back here */
    return 1;
out:
    return rc;
}

void bb_event_queue_release(struct bb_event_queue *a)
{
    for (size_t i = 0; i < sizeof(a->slots) / sizeof(a->slots[0]); i++)
        free(a->slots[i].entries);
    *a = (struct bb_event_queue){0};
}
