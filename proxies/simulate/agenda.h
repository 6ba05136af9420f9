/* agenda.h - what is to happen when: a heap of moments, the earliest first. What comes at one moment has no order. */
#ifndef BB_PROXIES_SIMULATE_AGENDA_H
#define BB_PROXIES_SIMULATE_AGENDA_H

#include "bootstrap/base/err.h"

#include <stddef.h>

/* Whoever reads an entry knows its kinds, and by the epoch whether it still holds. */
struct bb_agenda_entry {
    double when_ns;
    int id;
    unsigned kind : 4, epoch : 28;
};

struct bb_agenda {
    struct bb_agenda_entry *entries;
    size_t n, room;
};

int bb_agenda_add(struct bb_agenda *a, struct bb_agenda_entry entry) BB_MUST_CHECK;
struct bb_agenda_entry bb_agenda_take(struct bb_agenda *a); /* the earliest; there must be one */
void bb_agenda_release(struct bb_agenda *a);

#endif
