/* pair_schedule.c - see pair_schedule.h. */
#include "collectives/p2p/pair_schedule.h"

/* Returns the number of players of a round-robin tournament, from which the schedule is built: the ranks and, if
 * their number is odd, a dummy player. The rank paired with the dummy player is idle. */
static int count_players(const struct bb_pair_schedule *p)
{
    return p->ranks + p->ranks % 2;
}

int bb_pair_schedule_rounds(const struct bb_pair_schedule *p)
{
    if (p->ranks < 2)
        return 0;
    return p->one ? p->ranks * (p->ranks - 1) / 2 : count_players(p) - 1;
}

/* Returns the partner of a rank if each round measures a single pair; -1: idle. The rounds measure (0,1) (0,2) ..
 * (0,n-1) (1,2) .. */
static int partner_alone(const struct bb_pair_schedule *p, int round, int rank)
{
    int low = 0, row = p->ranks - 1;

    while (round >= row) {
        round -= row--;
        low++;
    }
    if (rank == low)
        return low + 1 + round;
    return rank == low + 1 + round ? low : -1;
}

/* Returns the partner of a rank by the circle method. With m = players - 1 (odd), ranks k and (round - k) mod m form
 * a pair. The rank k with 2k = round (mod m) would be its own partner and is paired with the last player instead.
 * This k is round * players / 2 mod m, because players / 2 is the inverse of 2 modulo m. */
static int partner_in_circle(const struct bb_pair_schedule *p, int round, int rank)
{
    int n = count_players(p), m = n - 1;
    int alone = (int)((long long)round * (n / 2) % m), partner;

    if (rank == m)
        partner = alone;
    else if (rank == alone)
        partner = m;
    else
        partner = (round - rank + m) % m;
    return partner < p->ranks ? partner : -1;
}

int bb_pair_schedule_partner(const struct bb_pair_schedule *p, int round, int rank)
{
    return p->one ? partner_alone(p, round, rank) : partner_in_circle(p, round, rank);
}
