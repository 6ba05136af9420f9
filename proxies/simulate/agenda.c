/* agenda.c - see agenda.h. Moments are never negative, so that their bits, read as whole numbers, stand in their order. */
#include "proxies/simulate/agenda.h"

#include <stdlib.h>
#include <string.h>

static uint64_t bits_of(double when_ns)
{
    uint64_t bits;

    memcpy(&bits, &when_ns, sizeof(bits));
    return bits;
}

/* It shrinks and grows all the time, so not by BB_GROW, which knows its room by the number alone. */
static int make_room(struct bb_agenda_slot *slot)
{
    size_t room = slot->room ? 2 * slot->room : 64;
    struct bb_agenda_entry *entries = realloc(slot->entries, room * sizeof(*entries));

    if (!entries)
        return bb_err(BB_EFAIL, "out of memory for %zu moments", room);
    slot->entries = entries;
    slot->room = room;
    return 0;
}

int bb_agenda_add(struct bb_agenda *a, struct bb_agenda_entry entry)
{
    const int at = entry.when_ns > a->now_ns ? 64 - __builtin_clzll(bits_of(entry.when_ns) ^ bits_of(a->now_ns)) : 0;
    struct bb_agenda_slot *slot = &a->slots[at];

    if (slot->n == slot->room && make_room(slot))
        return -BB_EFAIL;
    slot->entries[slot->n++] = entry;
    if (at > 0)
        a->used |= (uint64_t)1 << at;
    return 0;
}

bool bb_agenda_take(struct bb_agenda *a, struct bb_agenda_entry *entry)
{
    if (a->taken == a->slots[0].n) {
        a->taken = a->slots[0].n = 0;
        return false;
    }
    *entry = a->slots[0].entries[a->taken++];
    return true;
}

static double earliest_of(const struct bb_agenda_slot *slot)
{
    double earliest_ns = slot->entries[0].when_ns;

    for (size_t i = 1; i < slot->n; i++)
        earliest_ns = slot->entries[i].when_ns < earliest_ns ? slot->entries[i].when_ns : earliest_ns;
    return earliest_ns;
}

int bb_agenda_advance(struct bb_agenda *a)
{
    struct bb_agenda_slot *slot;
    size_t n;
    int rc;

    if (a->used == 0)
        return 0;
    slot = &a->slots[__builtin_ctzll(a->used)];
    a->used &= a->used - 1;
    a->now_ns = earliest_of(slot);
    n = slot->n;
    slot->n = 0;
    for (size_t i = 0; i < n; i++)
        TRY(bb_agenda_add(a, slot->entries[i])); /* to lower slots: none comes back here */
    return 1;
out:
    return rc;
}

void bb_agenda_release(struct bb_agenda *a)
{
    for (size_t i = 0; i < sizeof(a->slots) / sizeof(a->slots[0]); i++)
        free(a->slots[i].entries);
    *a = (struct bb_agenda){0};
}
