/* jitter.h - how much longer or shorter each compute operation lasts in a sample of a step. */
#ifndef BB_PROXIES_SIMULATE_JITTER_H
#define BB_PROXIES_SIMULATE_JITTER_H

#include "proxies/simulate/match.h"

/* bb_jitter_times - for the task `at` in the conditions' sample: normally distributed about 1 with the standard
 * deviation `jitter`, cut at three of them and at 0. The same for the same seed, sample and task. */
double bb_jitter_times(const struct bb_conditions *c, int at);

#endif
