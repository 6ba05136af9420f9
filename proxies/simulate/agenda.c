/* agenda.c - a heap of four children a node, which has fewer levels than one of two (see agenda.h). */
#include "proxies/simulate/agenda.h"

#include <stdlib.h>

#define CHILDREN ((size_t)4)

/* It shrinks and grows all the time, so not by BB_GROW, which knows its room by the number alone. */
static int make_room(struct bb_agenda *a)
{
    size_t room = a->room ? 2 * a->room : 64;
    struct bb_agenda_entry *entries = realloc(a->entries, room * sizeof(*entries));

    if (!entries)
        return bb_err(BB_EFAIL, "out of memory for %zu moments", room);
    a->entries = entries;
    a->room = room;
    return 0;
}

int bb_agenda_add(struct bb_agenda *a, struct bb_agenda_entry entry)
{
    size_t place = a->n;

    if (a->n == a->room && make_room(a))
        return -BB_EFAIL;
    a->n++;
    while (place > 0 && a->entries[(place - 1) / CHILDREN].when_ns > entry.when_ns) {
        a->entries[place] = a->entries[(place - 1) / CHILDREN];
        place = (place - 1) / CHILDREN;
    }
    a->entries[place] = entry;
    return 0;
}

static size_t earliest_child(const struct bb_agenda *a, size_t place)
{
    size_t first = place * CHILDREN + 1, best = first;

    for (size_t i = first + 1; i < first + CHILDREN && i < a->n; i++)
        if (a->entries[i].when_ns < a->entries[best].when_ns)
            best = i;
    return best;
}

struct bb_agenda_entry bb_agenda_take(struct bb_agenda *a)
{
    struct bb_agenda_entry top = a->entries[0], last = a->entries[--a->n];
    size_t place = 0;

    while (place * CHILDREN + 1 < a->n) {
        size_t child = earliest_child(a, place);

        if (a->entries[child].when_ns >= last.when_ns)
            break;
        a->entries[place] = a->entries[child];
        place = child;
    }
    a->entries[place] = last;
    return top;
}

void bb_agenda_release(struct bb_agenda *a)
{
    free(a->entries);
    *a = (struct bb_agenda){0};
}
