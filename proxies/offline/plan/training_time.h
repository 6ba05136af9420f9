/* training_time.h - extrapolates the predicted step time to a whole training run (`plan --tokens`, epochs of `plan
 * scaling`), also with failures of nodes (`--mtbf-node`). */
#ifndef BB_PROXIES_OFFLINE_PLAN_TRAINING_TIME_H
#define BB_PROXIES_OFFLINE_PLAN_TRAINING_TIME_H

#include "proxies/offline/plan/plan.h"

/* Options as given; NULL: not given. */
struct bb_failure_options {
    const char *mtbf_node, *checkpoint, *restart, *spares, *repair;
};

/* Durations in seconds. */
struct bb_failures {
    double mtbf_node_s;  /* mean time between failures of a node; 0: no failures */
    double checkpoint_s; /* time that a checkpoint stops training */
    double restart_s;    /* from a failure until training goes on, including the detection and reading the checkpoint */
    double repair_s;     /* mean time until a failed node can be used again */
    int spares;          /* nodes that replace failed ones; -1: a failed node is always replaced within the restart */
};

/* The values of --tokens and of the options of failures. */
struct bb_training_plan {
    double tokens;
    struct bb_failures failures;
};

/* A training run in which nodes fail. The shares of the run's duration add up to 1. */
struct bb_reliability {
    double mtbf_s;                                       /* mean time between failures of the job; 0: no failures */
    double daly_interval_s, interval_s;                  /* time of training between two checkpoints: by Daly's formula,
                                                            and rounded to whole steps */
    double goodput;                                      /* share of steps that are not lost */
    double checkpoints, lost_steps, restarts, node_wait; /* shares of the other causes; node_wait: more nodes are in
                                                            repair than there are spares */
    double days, gpu_hours;                              /* gpu_hours: also of the spare nodes */
    int spares;                                          /* as in struct bb_failures */
};

struct bb_training_time {
    double tokens, steps;   /* tokens: number of tokens of the training run, 0 with epochs; steps: number of whole steps
                               that process them */
    double samples, epochs; /* with epochs: samples of each, and their number; otherwise 0 */
    double days, gpu_hours;
    struct bb_reliability with_failures;
};

/*
 * bb_training_time - return the time of a training run, without restarts, evaluation and checkpoints.
 *   step_tokens  number of tokens of a step
 *   ranks        number of GPUs
 *   ns           time of one step in nanoseconds
 *   tokens       number of tokens to train on
 */
struct bb_training_time bb_training_time(double step_tokens, int ranks, double ns, double tokens);

/* bb_failures_parse - parse the options of failures. Returns 0, or -BB_EUSAGE after printing an error line, also if only
 * some of --mtbf-node, --checkpoint and --restart are given. */
int bb_failures_parse(const struct bb_failure_options *o, struct bb_failures *f) BB_MUST_CHECK;

/*
 * bb_reliability - predict the duration of a training run on nodes that fail independently, with exponentially
 * distributed times between failures, also during checkpoints and restarts.
 * Source: J. Daly, A higher order estimate of the optimum checkpoint interval for restart dumps, FGCS 22 (2006): the
 * interval (eq. 37) and the expected duration (eq. 20). Share of node_wait: Erlang's loss formula for the nodes in
 * repair; the job does not fail while it waits.
 *   t        training time without failures
 *   Returns  0, or -BB_EUSAGE after printing an error line if failures leave less than 0.1 % of the time for training
 */
int bb_reliability(const struct bb_failures *f, int nodes, const struct bb_training_time *t,
                   struct bb_reliability *result) BB_MUST_CHECK;

/* bb_training_time_text - write "15T tokens: 1,788,140 steps, 356 days, 4.38M GPU hours". bb_reliability_text - write the
 * duration with failures and what they cost; both are empty without --mtbf-node. */
void bb_training_time_text(const struct bb_training_time *t, char *text, size_t size);
void bb_reliability_text(const struct bb_training_time *t, char *failures, char *lost, size_t size);
json_t *bb_training_time_json(const struct bb_training_time *t);

/* bb_tokens_parse - parse a number of tokens such as "15T". Returns 0, or -BB_EUSAGE after printing an error line. */
int bb_tokens_parse(const char *text, double *tokens) BB_MUST_CHECK;

#endif
