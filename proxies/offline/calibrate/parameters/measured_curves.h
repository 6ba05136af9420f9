/*
 * measured_curves.h - keeps what the fits leave: the ratio of measured and predicted times of collectives by size, which
 * a profile has as "measured". Powers of two between the measured sizes and above them, up to 16 GiB, get the ratio of a time
 * with the shape of the starting profile: between two sizes its time plus what it differs by, linear in the size; above them
 * its growth, times the ratio of the measured and its own growth at the largest sizes, as far as these reach the bandwidth.
 */
#ifndef BB_PROXIES_OFFLINE_CALIBRATE_MEASURED_CURVES_H
#define BB_PROXIES_OFFLINE_CALIBRATE_MEASURED_CURVES_H

#include "proxies/offline/calibrate/parameters/calibration.h"

/* bb_keep_curves - sets c->cluster.measured from the measurements for which NCCL chose the variant, without outliers. */
void bb_keep_curves(struct bb_calibration *c);

#endif
