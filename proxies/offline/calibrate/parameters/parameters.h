/* parameters.h - a table of the numbers in a cluster profile: key, offset in struct bb_cluster, and which measurements
 * determine the number. */
#ifndef BB_PROXIES_OFFLINE_CALIBRATE_PARAMETERS_H
#define BB_PROXIES_OFFLINE_CALIBRATE_PARAMETERS_H

#include "proxies/offline/calibrate/parameters/calibration.h"

/* bb_parameters_init - lists all parameters of the profile c->cluster in c->parameters. The value in the profile is
 * stored as the nominal and as the current value of each parameter. */
void bb_parameters_init(struct bb_calibration *c);

/* bb_parameter_of - returns the parameter whose value is stored at the address `value` in c->cluster; NULL: the profile
 * does not have this parameter. */
struct bb_calibration_parameter *bb_parameter_of(struct bb_calibration *c, const void *value);

/* bb_parameter_try - stores a value of the parameter in the cluster profile only, for example during a fit.
 * bb_parameter_set - stores the final value in c->cluster and in *parameter, and records the fit that will be
 * appended to c->fits next as its origin. Rounds the value, unless it is an integer, to the precision of a profile:
 * five digits, and latencies also to whole nanoseconds. */
void bb_parameter_try(struct bb_cluster *c, const struct bb_calibration_parameter *parameter, double value);
void bb_parameter_set(struct bb_calibration *c, struct bb_calibration_parameter *parameter, double value);

#endif
