/* scaling_run.h - runs a scaling study on the GPUs, with the same runner as the other proxies. */
#ifndef BB_PROXIES_RUNNER_SCALING_SCALING_RUN_H
#define BB_PROXIES_RUNNER_SCALING_SCALING_RUN_H

#include "collectives/session/session.h"
#include "proxies/form/author/proxy.h"
#include "proxies/runner/run/step_measure.h"
#include "proxies/workloads/replicas/scaling.h"

/* A scaling study (one run on a given number of ranks) and the objects of the run that it uses. The caller owns all
 * pointers. A zeroed struct means that there is no study; all functions then do nothing. */
struct bb_scaling_run {
    struct bb_session *session; /* the session of the run; NULL: there is no study */
    const struct bb_proxy *proxy;
    int compute_sms; /* compute_sms: number of SMs that timed kernels (kernels that run for a given time) occupy;
                        compute_gbps: their memory traffic in 1e9 bytes/s (bb_runner_set_busy) */
    double compute_gbps;
    bool full;                     /* --full */
    const struct bb_slow *slow;    /* injected slow and late ranks (bb_runner_set_slow) */
    struct bb_scaling_study study; /* study.config is set by the caller, the results by the functions below */
};

/* All ranks of the job call each of these functions together. */

/* bb_scaling_run_init - resolves the options and loads the baseline. warmup: in and out, number of untimed steps
 * before the timed steps; for the format `synthetic` raised to at least BB_SCALING_BATCHES, the number of training
 * steps per iteration. Returns 0 or an error code after printing an error. */
int bb_scaling_run_init(struct bb_scaling_run *run, int *warmup) BB_MUST_CHECK;

/* bb_scaling_check_gpus - returns -BB_EUSAGE, after printing an error, if only one of the two runs (baseline and
 * this run) used emulated GPUs: a ratio of their times is meaningless. */
int bb_scaling_check_gpus(struct bb_scaling_run *run) BB_MUST_CHECK;

/* bb_scaling_run_prologue - before the full-batch steps, times the first broadcast and the last step of each epoch,
 * which has fewer samples. These two use step programs that differ from the full-batch step, each with a separate
 * runner (runner.h). */
int bb_scaling_run_prologue(struct bb_scaling_run *run) BB_MUST_CHECK;

/* bb_scaling_run_rounds - times all epochs (format `epochs`) or iterations (format `synthetic`), using the runner
 * (runner.h) of the full-batch step. */
int bb_scaling_run_rounds(struct bb_scaling_run *run, struct bb_runner *r) BB_MUST_CHECK;

/* bb_scaling_run_report - on rank 0, prints the results and sets the object `scaling` of the results file. step:
 * measured times of the full step. */
int bb_scaling_run_report(struct bb_scaling_run *run, const struct bb_measured *step) BB_MUST_CHECK;

#endif
