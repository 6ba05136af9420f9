/* predicted_path.h - the critical path (proxies/simulation/timeline/critical_path.h) of a predicted step over all
 * ranks. */
#ifndef BB_PROXIES_SIMULATION_SIMULATE_PREDICTED_PATH_H
#define BB_PROXIES_SIMULATION_SIMULATE_PREDICTED_PATH_H

#include "proxies/simulation/simulate/predict.h"
#include "proxies/simulation/timeline/critical_path.h"

/* bb_predict_critical_path - computes the critical path of `step` from its prediction p (bb_predict_under). The caller
 * releases path with bb_critical_path_release. */
void bb_predict_critical_path(const struct bb_step *step, const struct bb_prediction *p, struct bb_critical_path *path);

#endif
