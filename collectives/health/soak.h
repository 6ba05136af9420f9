/*
 * soak.h - the stage soak of `busbar health`: repeats the GEMM of all GPUs and the all_reduce of all GPUs for a long time, and
 * judges each value against the first one of the same GPU. A pure module, as verdict.h.
 */
#ifndef BB_COLLECTIVES_HEALTH_SOAK_H
#define BB_COLLECTIVES_HEALTH_SOAK_H

#include "collectives/health/verdict.h"

/* What a test showed. */
struct bb_soak {
    enum bb_health_test test;
    int rounds;         /* 0: not run */
    double first, last; /* median of the GPUs in the first and in the last round */
    double last_s;      /* begin of the last round, in seconds after the begin of the stage */
    double worst;       /* lowest value of a GPU / its first one */
    double worst_value, worst_s;
    int node, gpu; /* with this value */
};
enum { BB_SOAK_TESTS = 2 };

/*
 * bb_soak_run - repeat the tests until the time is over, at least twice, and add a finding for each GPU, or for all together,
 * whose lowest value is below 93 % (warn) or 80 % (fail) of the first. Nodes that have failed take no part.
 *   clock    sets *s to the seconds since a fixed time, the same on all ranks. Returns 0, or a negative error code. Called
 *            before each measurement; the findings and `soak` are then those of the measurements before
 *   soak     out
 *   Returns  0, or the first error of the clock or of h->measure
 */
typedef int bb_soak_clock(void *arg, double *s);
int bb_soak_run(struct bb_health *h, double seconds, bb_soak_clock *clock,
                struct bb_soak soak[BB_SOAK_TESTS]) BB_MUST_CHECK;

#endif
