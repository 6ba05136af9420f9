/* training_time.h - extrapolates the predicted step time to a whole training run (`plan --tokens`). */
#ifndef BB_PROXIES_OFFLINE_PLAN_TRAINING_TIME_H
#define BB_PROXIES_OFFLINE_PLAN_TRAINING_TIME_H

#include "proxies/offline/plan/plan.h"

struct bb_training_time {
    double tokens, steps; /* tokens: number of tokens of the training run; steps: number of whole steps that process
                             them */
    double days, gpu_hours;
};

/*
 * bb_training_time - return the time of a training run, without restarts, evaluation and checkpoints.
 *   step     a step whose number of tokens is known
 *   ns       time of one step in nanoseconds
 *   tokens   number of tokens to train on
 */
struct bb_training_time bb_training_time(const struct bb_step *step, double ns, double tokens);

/* bb_training_time_text - write "15T tokens: 1,788,140 steps, 356 days, 4.38M GPU hours". */
void bb_training_time_text(const struct bb_training_time *t, char *text, size_t size);
json_t *bb_training_time_json(const struct bb_training_time *t);

/* bb_tokens_parse - parse a number of tokens such as "15T". Returns 0, or -BB_EUSAGE after printing an error line. */
int bb_tokens_parse(const char *text, double *tokens) BB_MUST_CHECK;

#endif
