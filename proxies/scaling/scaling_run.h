/* scaling_run.h - runs a scaling study on the GPUs, with the same runner as the other proxies. */
#ifndef BB_PROXIES_SCALING_SCALING_RUN_H
#define BB_PROXIES_SCALING_SCALING_RUN_H

#include "collectives/session/session.h"
#include "proxies/author/proxy.h"
#include "proxies/replicas/scaling.h"
#include "proxies/run/step_measure.h"

/* A scaling study and the objects of the run that it uses. The caller owns all pointers. All fields zero: no study,
 * and all functions do nothing. */
struct bb_scaling_run {
    struct bb_session *session; /* NULL: no study */
    const struct bb_proxy *proxy;
    const struct bb_proxy_config *config;
    int compute_sms; /* compute_sms: number of SMs that timed compute kernels occupy; compute_gbps: their memory
                        traffic (bb_runner_set_busy) */
    double compute_gbps;
    /* set by the functions below */
    struct bb_scaling scaling;
    struct bb_scaling_baseline baseline; /* only on rank 0, which reads the results file of the baseline run */
    struct bb_scaling_measured measured; /* the caller releases this, also after an error */
};

/* All ranks of the world call these functions together. */

/* bb_scaling_run_init - resolves the options and loads the baseline. warmup: in and out, number of untimed steps
 * before the timed steps; for the format `synthetic`, raised to at least BB_SCALING_BATCHES, the number of steps of
 * one iteration. Returns 0 or an error code after printing an error. */
int bb_scaling_run_init(struct bb_scaling_run *run, int *warmup) BB_MUST_CHECK;

/* bb_scaling_check_gpus - returns -BB_EUSAGE, after printing an error, if only one of the two runs (baseline and
 * this run) used emulated GPUs: a ratio of their times is meaningless. */
int bb_scaling_check_gpus(struct bb_scaling_run *run) BB_MUST_CHECK;

/* bb_scaling_run_prologue - before the full steps, times the first broadcast and the short last step of each epoch.
 * Each of these two kinds of step has a step program and a runner of its own. */
int bb_scaling_run_prologue(struct bb_scaling_run *run) BB_MUST_CHECK;

/* bb_scaling_run_rounds - times all epochs (format `epochs`) or iterations (format `synthetic`) with the runner of
 * the full step. */
int bb_scaling_run_rounds(struct bb_scaling_run *run, struct bb_runner *r) BB_MUST_CHECK;

/* bb_scaling_run_report - on rank 0, prints the results and sets the object `scaling` of the results file. step:
 * measured times of the full step. */
int bb_scaling_run_report(const struct bb_scaling_run *run, const struct bb_measured *step) BB_MUST_CHECK;

#endif
