/* predicted.h - for tests of predictions: one current prediction `p`, released by the next prediction and at the end
 * of the test program. */
#ifndef BB_TESTS_PREDICTED_H
#define BB_TESTS_PREDICTED_H

#include "tests/proxies/made.h"

#include "proxies/simulation/simulate/predict.h"

static struct bb_prediction p;

/* Predicts the step and leaves it to the caller. conditions: NULL for none. */
static inline void predict_keep_step(const struct bb_step *step, const struct bb_cluster *cluster,
                                     const struct bb_conditions *conditions)
{
    bb_prediction_release(&p);
    assert_int_equal(bb_predict_under(step, cluster, conditions, &p), 0);
}

/* Predicts the step and releases it. conditions: NULL for none. */
static inline void predict_under_conditions(struct bb_step *step, const struct bb_cluster *cluster,
                                            const struct bb_conditions *conditions)
{
    predict_keep_step(step, cluster, conditions);
    bb_step_release(step);
}

static inline void predict(struct bb_step *step, const struct bb_cluster *cluster)
{
    predict_under_conditions(step, cluster, NULL);
}

static inline int release_prediction(void **state)
{
    (void)state;
    bb_prediction_release(&p);
    return 0;
}

#endif
