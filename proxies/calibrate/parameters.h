/* parameters.h - the numbers of a cluster profile by key: their offsets in struct bb_cluster, and whether they can
 * be fitted. */
#ifndef BB_PROXIES_CALIBRATE_PARAMETERS_H
#define BB_PROXIES_CALIBRATE_PARAMETERS_H

#include "proxies/calibrate/calibration.h"

/* bb_parameters_of - list all parameters of a profile with their nominal values. parameters: out
 * [BB_CALIBRATION_PARAMETERS]. Returns their number. */
int bb_parameters_of(const struct bb_cluster *base, struct bb_calibration_parameter *parameters);

/* bb_parameter_find - index of a key, -1: not found. bb_parameter_variant_key - key of a variant's parameter:
 * "nccl.ring.LL.base_us". */
int bb_parameter_find(const struct bb_calibration_parameter *parameters, int n, const char *key);
void bb_parameter_variant_key(char *key, size_t size, const struct bb_nccl_variant *variant, const char *part);

/* bb_parameter_set - store a value in the cluster. value: as fitted; for a rate its inverse. */
void bb_parameter_set(struct bb_cluster *c, const struct bb_calibration_parameter *parameter, double value);

/* bb_parameter_round - round to the precision of a written profile: five digits, latencies to whole ns. */
double bb_parameter_round(const struct bb_calibration_parameter *parameter, double value);

#endif
