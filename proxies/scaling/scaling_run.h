/* scaling_run.h - a scaling study on the GPUs: its steps are run by the runner of every proxy. */
#ifndef BB_PROXIES_SCALING_SCALING_RUN_H
#define BB_PROXIES_SCALING_SCALING_RUN_H

#include "collectives/session/session.h"
#include "proxies/author/proxy.h"
#include "proxies/replicas/scaling.h"
#include "proxies/run/step_measure.h"

/* A study and what it needs of the run around it; pointers are borrowed. Zeroed there is none: all calls do nothing. */
struct bb_scaling_run {
    struct bb_session *session; /* NULL: no study */
    const struct bb_proxy *proxy;
    const struct bb_proxy_config *config;
    int compute_sms; /* for bb_runner_set_busy */
    double compute_gbps;
    /* of bb_scaling_run_init and what follows: */
    struct bb_scaling scaling;
    struct bb_scaling_baseline baseline; /* of rank 0, which reads the file of the former run */
    struct bb_scaling_measured measured; /* to be released, also after an error */
};

/* Each is collective over the world. */

/* bb_scaling_run_init - what the options mean, and the baseline. *warmup: steps before the timed ones, raised to the
 * batches of the synthetic form. */
int bb_scaling_run_init(struct bb_scaling_run *run, int *warmup) BB_MUST_CHECK;

/* bb_scaling_check_gpus - refuse a baseline of emulated GPUs on others, and the reverse: their times have no ratio. */
int bb_scaling_check_gpus(struct bb_scaling_run *run) BB_MUST_CHECK;

/* bb_scaling_run_prologue - before the step's own runner: the first broadcast, and the short last steps of all epochs, each
 * as a program with a runner of its own. */
int bb_scaling_run_prologue(struct bb_scaling_run *run) BB_MUST_CHECK;

/* bb_scaling_run_rounds - every epoch or iteration, with the step's runner. */
int bb_scaling_run_rounds(struct bb_scaling_run *run, struct bb_runner *r) BB_MUST_CHECK;

/* bb_scaling_run_report - rank 0: the text, and scaling{} of busbar.proxy/1. step: the figures of the full step. */
int bb_scaling_run_report(const struct bb_scaling_run *run, const struct bb_measured *step) BB_MUST_CHECK;

#endif
