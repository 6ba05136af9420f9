/* row_time.h - predicts the time of a measured row: the cost model plus the way in which the bench takes the time. */
#ifndef BB_PROXIES_CALIBRATE_ROW_TIME_H
#define BB_PROXIES_CALIBRATE_ROW_TIME_H

#include "proxies/calibrate/measurements.h"

/* bb_row_time_us - time of a row. Overlap rows require a cluster with "sharing". */
double bb_row_time_us(const struct bb_cluster *c, const struct bb_measurement *row);

/* bb_row_variant - index of the variant that NCCL used for a row: as recorded, otherwise as the model would choose;
 * -1: the cluster does not have this variant. */
int bb_row_variant(const struct bb_cluster *c, const struct bb_measurement *row);

/* bb_row_time_by_us - time of a collective with a given variant; infinite if the variant does not support the
 * collective. */
double bb_row_time_by_us(const struct bb_cluster *c, int variant, const struct bb_measurement *row);

#endif
