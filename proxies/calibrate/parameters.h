/* parameters.h - a table of the numbers in a cluster profile: key, offset in struct bb_cluster, and whether a fit
 * may change the number. */
#ifndef BB_PROXIES_CALIBRATE_PARAMETERS_H
#define BB_PROXIES_CALIBRATE_PARAMETERS_H

#include "proxies/calibrate/calibration.h"

/* bb_parameters_of - lists all parameters of a profile. The value in the profile is stored as the nominal and as the
 * current value of each parameter. parameters: [BB_CALIBRATION_PARAMETERS] out. Returns the number of parameters. */
int bb_parameters_of(const struct bb_cluster *base, struct bb_calibration_parameter *parameters);

/* bb_parameter_find - returns the index of the parameter with this key; -1: not found. bb_parameter_variant_key -
 * writes the key of a parameter of an NCCL variant (algorithm + protocol), for example "nccl.ring.LL.base_us". */
int bb_parameter_find(const struct bb_calibration_parameter *parameters, int n, const char *key);
void bb_parameter_variant_key(char *key, size_t size, const struct bb_nccl_variant *variant, const char *part);

/* bb_parameter_set - stores a fitted value in the cluster profile. value: 1 / rate if the parameter is a rate,
 * otherwise the parameter's value. */
void bb_parameter_set(struct bb_cluster *c, const struct bb_calibration_parameter *parameter, double value);

/* bb_parameter_round - rounds a value to the precision of a profile: five digits, and latencies also to whole
 * nanoseconds. */
double bb_parameter_round(const struct bb_calibration_parameter *parameter, double value);

#endif
