/* scaling_run.h - runs a scaling study on the GPUs, with the same runner as every proxy. */
#ifndef BB_PROXIES_SCALING_SCALING_RUN_H
#define BB_PROXIES_SCALING_SCALING_RUN_H

#include "collectives/session/session.h"
#include "proxies/author/proxy.h"
#include "proxies/replicas/scaling.h"
#include "proxies/run/step_measure.h"

/* A study and what it uses of the run; pointers are owned by the caller. All zero: no study, and all functions do
 * nothing. */
struct bb_scaling_run {
    struct bb_session *session; /* NULL: no study */
    const struct bb_proxy *proxy;
    const struct bb_proxy_config *config;
    int compute_sms; /* for bb_runner_set_busy */
    double compute_gbps;
    /* set by bb_scaling_run_init and the functions below: */
    struct bb_scaling scaling;
    struct bb_scaling_baseline baseline; /* rank 0, which reads the file of the previous run */
    struct bb_scaling_measured measured; /* released by the caller, also after an error */
};

/* All functions are collective over the world. */

/* bb_scaling_run_init - resolves the options and loads the baseline. warmup: in and out, steps before the timed
 * ones; raised to the number of batches of the synthetic format. */
int bb_scaling_run_init(struct bb_scaling_run *run, int *warmup) BB_MUST_CHECK;

/* bb_scaling_check_gpus - -BB_EUSAGE if one of baseline and run is on emulated GPUs and the other is not: a ratio of
 * their times is meaningless. */
int bb_scaling_check_gpus(struct bb_scaling_run *run) BB_MUST_CHECK;

/* bb_scaling_run_prologue - runs and times what precedes the step's own runner, each with its own program and
 * runner: the first broadcast, and the short last steps of all epochs. */
int bb_scaling_run_prologue(struct bb_scaling_run *run) BB_MUST_CHECK;

/* bb_scaling_run_rounds - runs every epoch or iteration with the step's runner. */
int bb_scaling_run_rounds(struct bb_scaling_run *run, struct bb_runner *r) BB_MUST_CHECK;

/* bb_scaling_run_report - rank 0: prints the results and sets scaling{} of busbar.proxy/1. step: results of the full
 * step. */
int bb_scaling_run_report(const struct bb_scaling_run *run, const struct bb_measured *step) BB_MUST_CHECK;

#endif
