/*
 * pair_schedule.h - who meets whom when every rank is to meet every other: rounds of pairs that share no rank. Pure.
 *
 * together: a round-robin tournament by the circle method. All ranks but one turn in a circle, pairs lie opposite: n-1
 *           rounds of n/2 pairs when n is even, n rounds in which one rank pauses when it is odd.
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

/* bb_pair_schedule_partner - of `rank` in a round, -1 when it pauses. */
int bb_pair_schedule_partner(const struct bb_pair_schedule *p, int round, int rank);

#endif
