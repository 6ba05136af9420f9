/* predicted_path.h - the critical path (proxies/timeline/critical_path.h) of a predicted step, over all its ranks. */
#ifndef BB_PROXIES_SIMULATE_PREDICTED_PATH_H
#define BB_PROXIES_SIMULATE_PREDICTED_PATH_H

#include "proxies/simulate/predict.h"
#include "proxies/timeline/critical_path.h"

/* bb_predict_critical_path - path of the step whose prediction is p; released by the caller. Returns 0 or, after
 * printing an error, -BB_EFAIL. */
int bb_predict_critical_path(const struct bb_step *step, const struct bb_prediction *p,
                             struct bb_critical_path *path) BB_MUST_CHECK;

#endif
