/* conditions.h - perturbations of a predicted training step: slow GPUs, NICs and links that the user injects
 * (slow.h), and jitter (random variation of kernel times). */
#ifndef BB_PROXIES_SIMULATION_SIMULATE_MATCHING_CONDITIONS_H
#define BB_PROXIES_SIMULATION_SIMULATE_MATCHING_CONDITIONS_H

#include "proxies/simulation/machine/slow.h"

#include <stdint.h>

/* Perturbations of one simulated execution of a step. A zeroed struct means: none. */
struct bb_conditions {
    struct bb_slow slow;
    double jitter; /* standard deviation of the random factor (mean 1) on each compute operation's duration; 0: no
                      jitter */
    uint64_t seed; /* seed of the jitter's random numbers */
    int sample;    /* index of the simulated execution of the step; each execution uses different random numbers */
};

/* bb_jitter_factor - returns the random factor by which the duration of task `at` (index in bb_sim_run.tasks) is
 * multiplied in simulated execution number c->sample. The factor is normally distributed with mean 1 and standard
 * deviation c->jitter, truncated at 3 standard deviations and at 0. It depends only on c->seed, c->sample and `at`. */
double bb_jitter_factor(const struct bb_conditions *c, int at);

#endif
