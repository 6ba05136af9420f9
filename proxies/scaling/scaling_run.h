/* scaling_run.h - a scaling study on the GPUs: its steps are run by the runner of every proxy. */
#ifndef BB_PROXIES_SCALING_SCALING_RUN_H
#define BB_PROXIES_SCALING_SCALING_RUN_H

#include "bootstrap/base/progress.h"
#include "proxies/replicas/scaling.h"
#include "proxies/run/runner.h"

/* What a study needs of the run around it. Pointers are borrowed. */
struct bb_scaling_run {
    struct bb_world *world;
    const struct bb_proxy *proxy;
    const struct bb_proxy_config *config;
    const struct bb_scaling *scaling;
    struct bb_progress *progress;
    int compute_sms; /* for bb_runner_busy */
    double compute_gbps;
    bool emulated;
    FILE *out; /* for a line after each round; NULL: none */
};

/* bb_scaling_before - before the step's own runner: the first broadcast, and the short last steps of all epochs, each
 * as a program with a runner of its own. Collective over the world; m is to be released, also after an error. */
int bb_scaling_before(const struct bb_scaling_run *run, struct bb_scaling_measured *m) BB_MUST_CHECK;

/* bb_scaling_rounds - every epoch or iteration, with the step's runner. */
int bb_scaling_rounds(const struct bb_scaling_run *run, struct bb_runner *r,
                      struct bb_scaling_measured *m) BB_MUST_CHECK;

#endif
