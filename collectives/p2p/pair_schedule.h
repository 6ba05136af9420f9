/*
 * pair_schedule.h - schedule in which every rank meets every other rank once: rounds of pairs without a common rank.
 * Pure.
 *
 * together: round-robin tournament by the circle method. One rank stays fixed, the others rotate on a circle, and pairs
 *           are opposite: n-1 rounds of n/2 pairs for even n; n rounds with one pausing rank each for odd n.
 * one:      n(n-1)/2 rounds of one pair.
 */
#ifndef BB_COLLECTIVES_P2P_PAIR_SCHEDULE_H
#define BB_COLLECTIVES_P2P_PAIR_SCHEDULE_H

#include <stdbool.h>

struct bb_pair_schedule {
    int ranks; /* >= 1 */
    bool one;  /* one pair at a time */
};

int bb_pair_schedule_rounds(const struct bb_pair_schedule *p);

/* bb_pair_schedule_partner - partner of `rank` in a round, or -1 when the rank pauses. */
int bb_pair_schedule_partner(const struct bb_pair_schedule *p, int round, int rank);

#endif
