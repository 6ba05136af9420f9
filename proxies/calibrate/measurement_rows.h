/* measurement_rows.h - the rows of one result file; a room's own header. */
#ifndef BB_PROXIES_CALIBRATE_MEASUREMENT_ROWS_H
#define BB_PROXIES_CALIBRATE_MEASUREMENT_ROWS_H

#include "proxies/calibrate/measurements.h"

/* bb_measurements_add_results - the rows of a file of busbar bench, _take_foreign of nccl-tests; its head has been read. */
int bb_measurements_add_results(struct bb_measurements *e, const json_t *root) BB_MUST_CHECK;
int bb_measurements_add_nccl_tests(struct bb_measurements *e, json_t *root) BB_MUST_CHECK;

#endif
