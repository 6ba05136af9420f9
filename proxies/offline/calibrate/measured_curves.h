/*
 * measured_curves.h - keeps what the fits leave: the ratio of measured and predicted times of collectives by size, which a
 * profile has as "measured". Between two measured sizes the forecast is then nearer than the model.
 */
#ifndef BB_PROXIES_OFFLINE_CALIBRATE_MEASURED_CURVES_H
#define BB_PROXIES_OFFLINE_CALIBRATE_MEASURED_CURVES_H

#include "proxies/offline/calibrate/calibration.h"

/* bb_keep_curves - sets c->cluster.measured from the measurements for which NCCL chose the variant, without outliers. */
void bb_keep_curves(struct bb_calibration *c);

#endif
