/* conditions.c - the random factors of the jitter (see conditions.h). */
#include "proxies/simulation/simulate/matching/conditions.h"

#include <math.h>

#define TWO_PI 6.283185307179586

/* Returns a pseudo-random number for a counter value by SplitMix64 (Steele, Lea and Flood, OOPSLA 2014). The numbers
 * of different counter values are statistically independent. */
static uint64_t splitmix64(uint64_t x)
{
    x += 0x9e3779b97f4a7c15u;
    x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
    x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
    return x ^ (x >> 31);
}

static double uniform(uint64_t bits)
{
    return ((double)(bits >> 11) + 0.5) / 9007199254740992.0;
}

double bb_jitter_factor(const struct bb_conditions *c, int at)
{
    uint64_t first = splitmix64(splitmix64(splitmix64(c->seed) + (uint64_t)c->sample) + (uint64_t)at);
    double normal = sqrt(-2 * log(uniform(first))) * cos(TWO_PI * uniform(splitmix64(first)));

    return fmax(0, 1 + c->jitter * fmax(-3, fmin(3, normal)));
}
