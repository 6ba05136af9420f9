/* predicted.h - for tests of predictions: the one that is looked at, which goes when the next comes and at the end. */
#ifndef BB_TESTS_PREDICTED_H
#define BB_TESTS_PREDICTED_H

#include "tests/proxies/made.h"

#include "proxies/simulate/predict.h"

static struct bb_prediction p;

/* The step is kept; conditions: NULL for an even machine. */
static inline void predict_keep_step(const struct bb_step *step, const struct bb_cluster *cluster,
                                const struct bb_conditions *conditions)
{
    bb_prediction_release(&p);
    assert_int_equal(bb_predict_under(step, cluster, conditions, &p), 0);
}

/* The step goes. */
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
