/* clock.h - monotonic host time, for deadlines, pacing and the host times in results. GPU times in results come from
 * CUDA events. */
#ifndef BB_BOOTSTRAP_BASE_CLOCK_H
#define BB_BOOTSTRAP_BASE_CLOCK_H

#include <time.h>

/* bb_now_s - seconds of CLOCK_MONOTONIC, from an arbitrary origin. */
static inline double bb_now_s(void)
{
    struct timespec t;

    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

#endif
