/* row_time.h - how long a measured row would take on a machine: the machine's own law, and how bench times it. */
#ifndef BB_PROXIES_CALIBRATE_ROW_TIME_H
#define BB_PROXIES_CALIBRATE_ROW_TIME_H

#include "proxies/calibrate/measurements.h"

/* bb_row_time_us - products beside NCCL: of a machine that shares. */
double bb_row_time_us(const struct bb_cluster *c, const struct bb_measurement *row);

/* bb_row_variant - the way of NCCL's that a row took, as it tells, or, where it does not, as the machine would choose; -1:
 * none of the machine's. */
int bb_row_variant(const struct bb_cluster *c, const struct bb_measurement *row);

/* bb_row_time_by_us - of a collective, by one of the machine's ways; infinite where that way cannot do it. */
double bb_row_time_by_us(const struct bb_cluster *c, int variant, const struct bb_measurement *row);

#endif
