/* conditions.h - perturbations of a predicted training step: slow GPUs, NICs and links that the user injects
 * (slow.h), and jitter (random variation of kernel times). */
#ifndef BB_PROXIES_SIMULATE_CONDITIONS_H
#define BB_PROXIES_SIMULATE_CONDITIONS_H

#include "proxies/machine/slow.h"

#include <stdint.h>

/* All fields zero: no perturbation. */
struct bb_conditions {
    struct bb_slow slow;
    double jitter; /* relative standard deviation of each compute operation's time; 0: none */
    uint64_t seed; /* seed of the jitter's random numbers */
    int sample;    /* index of the sample, which is one simulated execution of the step; each sample has different
                      random numbers */
};

/* bb_jitter_factor - returns the factor on the time of task `at` (index in bb_sim_run.tasks) in sample c->sample: a
 * normally distributed random number with mean 1 and standard deviation `jitter`, truncated at 3 standard deviations
 * and at 0. The factor depends only on the seed, the sample and the task. */
double bb_jitter_factor(const struct bb_conditions *c, int at);

#endif
