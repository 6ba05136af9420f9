/* row_time.h - predicts the time of a measurement: the time of the cost model, plus the overhead that the
 * measurement method adds, such as kernel launches. */
#ifndef BB_PROXIES_OFFLINE_CALIBRATE_MEASUREMENTS_ROW_TIME_H
#define BB_PROXIES_OFFLINE_CALIBRATE_MEASUREMENTS_ROW_TIME_H

#include "proxies/offline/calibrate/measurements/measurements.h"

/* bb_row_time_us - predicts the time of a measurement in us. Overlap measurements (GEMMs during NCCL calls) require
 * a cluster profile with "sharing". */
double bb_row_time_us(const struct bb_cluster *c, const struct bb_measurement *row);

/* bb_row_variant - returns the index of the NCCL variant (algorithm + protocol) of a measurement: the recorded
 * variant or, if the result file records none, the variant that the cost model chooses; -1: the cluster does not
 * have the recorded variant. */
int bb_row_variant(const struct bb_cluster *c, const struct bb_measurement *row);

/* bb_row_time_by_us - predicts the time of a collective in us if NCCL uses variant (algorithm + protocol) number
 * `variant`; INFINITY if the variant does not support the collective. */
double bb_row_time_by_us(const struct bb_cluster *c, int variant, const struct bb_measurement *row);

#endif
