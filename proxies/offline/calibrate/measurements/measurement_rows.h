/* measurement_rows.h - reads the measurements of one result file; internal to this module. */
#ifndef BB_PROXIES_OFFLINE_CALIBRATE_MEASUREMENTS_MEASUREMENT_ROWS_H
#define BB_PROXIES_OFFLINE_CALIBRATE_MEASUREMENTS_MEASUREMENT_ROWS_H

#include "proxies/offline/calibrate/measurements/measurements.h"

/* bb_measurements_add_results and bb_measurements_add_nccl_tests - append the measurements of a result file of
 * busbar bench or of nccl-tests. The last element of e->files must already describe this file. */
int bb_measurements_add_results(struct bb_measurements *e, const json_t *root) BB_MUST_CHECK;
int bb_measurements_add_nccl_tests(struct bb_measurements *e, json_t *root) BB_MUST_CHECK;

#endif
