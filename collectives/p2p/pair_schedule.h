/*
 * pair_schedule.h - a schedule of rounds in which every rank is paired with every other rank exactly once. The pairs of
 * a round have no common rank. Pure functions.
 *
 * If `one` is false, pairs run concurrently. The schedule is the round-robin tournament by the circle method: one rank
 * stays fixed, the others rotate on a circle, and opposite ranks form a pair. There are n-1 rounds of n/2 pairs for
 * even n, and n rounds with one idle rank each for odd n.
 * If `one` is true, there are n(n-1)/2 rounds of one pair.
 */
#ifndef BB_COLLECTIVES_P2P_PAIR_SCHEDULE_H
#define BB_COLLECTIVES_P2P_PAIR_SCHEDULE_H

#include <stdbool.h>

struct bb_pair_schedule {
    int ranks; /* number of ranks, at least 1 */
    bool one;  /* true: one pair per round */
};

int bb_pair_schedule_rounds(const struct bb_pair_schedule *p);

/* bb_pair_schedule_partner - return the partner of `rank` in a round, or -1 if the rank is idle. */
int bb_pair_schedule_partner(const struct bb_pair_schedule *p, int round, int rank);

#endif
