/* jitter.c - see jitter.h. */
#include "proxies/simulate/jitter.h"

#include <math.h>

#define TURN 6.283185307179586

/* A number for each count, of which none says anything about another (SplitMix64). */
static uint64_t scramble(uint64_t x)
{
    x += 0x9e3779b97f4a7c15u;
    x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
    x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
    return x ^ (x >> 31);
}

static double part_of(uint64_t bits)
{
    return ((double)(bits >> 11) + 0.5) / 9007199254740992.0;
}

double bb_jitter_times(const struct bb_conditions *c, int at)
{
    uint64_t first = scramble(scramble(scramble(c->seed) + (uint64_t)c->sample) + (uint64_t)at);
    double normal = sqrt(-2 * log(part_of(first))) * cos(TURN * part_of(scramble(first)));

    return fmax(0, 1 + c->jitter * fmax(-3, fmin(3, normal)));
}
