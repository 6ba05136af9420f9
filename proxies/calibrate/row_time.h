/* row_time.h - predicts the time of a measurement: the time of the cost model, plus the overhead that the method of
 * measurement adds. */
#ifndef BB_PROXIES_CALIBRATE_ROW_TIME_H
#define BB_PROXIES_CALIBRATE_ROW_TIME_H

#include "proxies/calibrate/measurements.h"

/* bb_row_time_us - predicts the time of a measurement. Overlap measurements require a cluster with "sharing". */
double bb_row_time_us(const struct bb_cluster *c, const struct bb_measurement *row);

/* bb_row_variant - returns the index of the NCCL variant of a measurement: the recorded one or, if the file records
 * none, the one that the cost model chooses; -1: the cluster does not have this variant. */
int bb_row_variant(const struct bb_cluster *c, const struct bb_measurement *row);

/* bb_row_time_by_us - predicts the time of a collective with this variant; INFINITY if the variant does not support
 * the collective. */
double bb_row_time_by_us(const struct bb_cluster *c, int variant, const struct bb_measurement *row);

#endif
