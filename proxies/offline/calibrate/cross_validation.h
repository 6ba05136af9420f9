/* cross_validation.h - the errors of a calibration at message sizes that were not measured. */
#ifndef BB_PROXIES_OFFLINE_CALIBRATE_CROSS_VALIDATION_H
#define BB_PROXIES_OFFLINE_CALIBRATE_CROSS_VALIDATION_H

#include "bootstrap/base/stats.h"
#include "proxies/offline/calibrate/calibration.h"

/*
 * bb_cross_validate - calibrates twice, with every other size of the collectives and messages, and predicts the sizes
 * that were left out.
 *   c       a finished calibration, whose starting profile and measurements are used; its outliers are not predicted
 *   errors  out: |predicted / measured - 1| in percent; n is 0 if fewer than MIN_SIZES sizes were measured
 */
void bb_cross_validate(const struct bb_calibration *c, struct bb_stats *errors);

#endif
