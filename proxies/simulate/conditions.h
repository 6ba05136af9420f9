/* conditions.h - perturbations of a predicted step: injected slow parts, and jitter of kernel times. */
#ifndef BB_PROXIES_SIMULATE_CONDITIONS_H
#define BB_PROXIES_SIMULATE_CONDITIONS_H

#include "proxies/machine/slow.h"

#include <stdint.h>

/* All zero: no perturbation. */
struct bb_conditions {
    struct bb_slow slow;
    double jitter; /* relative standard deviation of each compute operation's time; 0: none */
    uint64_t seed; /* of the jitter */
    int sample;    /* sample index for this seed */
};

/* bb_jitter_factor - the factor on the time of task `at` in this sample: normally distributed with mean 1 and
 * standard deviation `jitter`, truncated at 3 sigma and at 0. It depends only on seed, sample and task. */
double bb_jitter_factor(const struct bb_conditions *c, int at);

#endif
