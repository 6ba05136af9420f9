/* training_time.h - a whole training from the predicted time of one step: `plan --tokens`. */
#ifndef BB_PROXIES_PLAN_TRAINING_TIME_H
#define BB_PROXIES_PLAN_TRAINING_TIME_H

#include "proxies/plan/plan.h"

struct bb_training_time {
    double tokens, steps; /* as asked for; whole steps that hold them */
    double days, gpu_hours;
};

/* bb_training_time - of a step that has tokens and takes ns on all its ranks. Nothing else counts: no restarts, no
 * evaluation, no checkpoints. */
struct bb_training_time bb_training_time(const struct bb_step *step, double ns, double tokens);

void bb_training_time_print(const struct bb_training_time *t, FILE *out);
json_t *bb_training_time_json(const struct bb_training_time *t); /* NULL without memory */

/* bb_tokens_parse - "15T" to tokens; what is no such count is said, -BB_EUSAGE. */
int bb_tokens_parse(const char *text, double *tokens) BB_MUST_CHECK;

#endif
