/* parameters.h - a table of the numbers in a cluster profile: key, offset in struct bb_cluster, and whether a fit
 * may change the number. */
#ifndef BB_PROXIES_CALIBRATE_PARAMETERS_H
#define BB_PROXIES_CALIBRATE_PARAMETERS_H

#include "proxies/calibrate/calibration.h"

/* bb_parameters_init - lists all parameters of the profile c->cluster in c->parameters. The value in the profile is
 * stored as the nominal and as the current value of each parameter. */
void bb_parameters_init(struct bb_calibration *c);

/* bb_parameter_find - returns the parameter with this key; NULL: not found. bb_parameter_of_variant - returns a
 * parameter of an NCCL variant (algorithm + protocol). part: last word of the key, for example "base_us". */
struct bb_calibration_parameter *bb_parameter_find(struct bb_calibration *c, const char *key);
struct bb_calibration_parameter *bb_parameter_of_variant(struct bb_calibration *c, int variant, const char *part);

/* bb_parameter_try - stores a value of the parameter in the cluster profile only, for example during a fit.
 * bb_parameter_set - stores the final value in c->cluster and in *parameter, and records the fit that will be
 * appended to c->fits next as its origin. */
void bb_parameter_try(struct bb_cluster *c, const struct bb_calibration_parameter *parameter, double value);
void bb_parameter_set(struct bb_calibration *c, struct bb_calibration_parameter *parameter, double value);

/* bb_parameter_round - rounds a value to the precision of a profile: five digits, and latencies also to whole
 * nanoseconds. */
double bb_parameter_round(const struct bb_calibration_parameter *parameter, double value);

#endif
