/* conditions.h - what keeps a machine from being even: slow parts, and times that differ from step to step. */
#ifndef BB_PROXIES_SIMULATE_CONDITIONS_H
#define BB_PROXIES_SIMULATE_CONDITIONS_H

#include "proxies/machine/slow.h"

#include <stdint.h>

/* All zero: an even machine. */
struct bb_conditions {
    struct bb_slow slow;
    double jitter; /* of each compute operation's time: the standard deviation, as a part of it; 0: none */
    uint64_t seed; /* of the jitter                                                                      */
    int sample;    /* the how-manieth step of that seed                                                  */
};

/* bb_jitter_factor - how many times as long the task `at` lasts in the sample: normally distributed about 1 with the
 * standard deviation `jitter`, cut at three of them and at 0. The same for the same seed, sample and task. */
double bb_jitter_factor(const struct bb_conditions *c, int at);

#endif
