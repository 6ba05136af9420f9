/* clock.h - host time for deadlines and pacing, never for results. */
#ifndef BB_BOOTSTRAP_BASE_CLOCK_H
#define BB_BOOTSTRAP_BASE_CLOCK_H

#include <time.h>

/* bb_now_s - seconds on a clock that only goes forward. */
static inline double bb_now_s(void)
{
    struct timespec t;

    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

#endif
