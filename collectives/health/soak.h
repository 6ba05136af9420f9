/*
 * soak.h - the stage soak of `busbar health`: repeats the GEMM of all GPUs and the all_reduce of all GPUs for a long
 * time, and judges each value against a reference of the same GPU. A pure module, as verdict.h.
 *
 * The reference is the highest one of the first value, the median of the first five, and the value in the stage gpu or
 * whole (the job: with the same nodes). Without this stage, a slow GPU, or a slow job, may be slow from the first round
 * on: if the reference is below 93 % of the expectation, or of the median of the GPUs (at least three), this takes its
 * place. If more than three quarters of at least three GPUs are slow for the expectation, this is one finding, and they
 * are judged by their median.
 */
#ifndef BB_COLLECTIVES_HEALTH_SOAK_H
#define BB_COLLECTIVES_HEALTH_SOAK_H

#include "collectives/health/verdict/verdict.h"

/* What a test showed. */
struct bb_soak {
    enum bb_health_test test;
    int rounds;         /* 0: not run */
    double first, last; /* median of the GPUs in the first and in the last round */
    double last_s;      /* begin of the last round, in seconds after the begin of the stage */
    double worst;       /* lowest value of a GPU / its reference */
    double worst_value, worst_s;
    enum bb_soak_reference reference;
    int node, gpu; /* with this value */
};
enum { BB_SOAK_TESTS = 2 };

/* bb_soak_reference_name - return the name of a reference: "value of the first rounds". */
const char *bb_soak_reference_name(enum bb_soak_reference reference, enum bb_health_test test);

/*
 * bb_soak_run - repeat the tests until the time is over, at least twice, and add a finding for each GPU, or for all
 * together, whose lowest value is below 93 % (warn) or 80 % (fail) of the reference; of the first round only: warn.
 * Nodes that have failed take no part.
 *   clock    sets *s to the seconds since a fixed time, the same on all ranks. Returns 0, or a negative error code.
 *            Called before each measurement; the findings and `soak` are then those of the measurements before
 *   soak     out
 *   Returns  0, or the first error of the clock or of h->measure
 */
typedef int bb_soak_clock(void *arg, double *s);
int bb_soak_run(struct bb_health *h, double seconds, bb_soak_clock *clock,
                struct bb_soak soak[BB_SOAK_TESTS]) BB_MUST_CHECK;

#endif
