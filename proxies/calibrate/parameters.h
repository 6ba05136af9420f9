/* parameters.h - the numbers of a cluster profile by their keys: where each lies in the machine, and what may fit it. */
#ifndef BB_PROXIES_CALIBRATE_PARAMETERS_H
#define BB_PROXIES_CALIBRATE_PARAMETERS_H

#include "proxies/calibrate/calibration.h"

/* bb_parameters_of - every figure that the profile has, nominal; figures[BB_CALIBRATION_PARAMETERS]. Returns their number. */
int bb_parameters_of(const struct bb_cluster *base, struct bb_calibration_parameter *parameters);

/* bb_parameter_find - by key, -1: there is none. _way_key: of a way's, "nccl.ring.LL.base_us". */
int bb_parameter_find(const struct bb_calibration_parameter *parameters, int n, const char *key);
void bb_parameter_variant_key(char *key, size_t size, const struct bb_nccl_variant *variant, const char *part);

/* bb_parameter_set - into the machine; value: of rates the inverse, as it is fitted. */
void bb_parameter_set(struct bb_cluster *c, const struct bb_calibration_parameter *parameter, double value);

/* bb_parameter_round - to the five digits that a profile is written with, latencies to whole ns. */
double bb_parameter_round(const struct bb_calibration_parameter *parameter, double value);

#endif
