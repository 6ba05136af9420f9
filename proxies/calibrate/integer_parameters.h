/* integer_parameters.h - parameters that are whole numbers: they are read from the rows or found by enumeration, not
 * fitted. */
#ifndef BB_PROXIES_CALIBRATE_INTEGER_PARAMETERS_H
#define BB_PROXIES_CALIBRATE_INTEGER_PARAMETERS_H

#include "proxies/calibrate/calibration.h"

/* bb_set_node_size - gpus_per_node as given by the user, or the ranks of a host if it had more than the profile's
 * GPUs per node. NICs per GPU stay the same. Fewer ranks change nothing: other GPUs may have been idle. */
void bb_set_node_size(struct bb_calibration *c, const struct bb_measurements *e);

/* bb_set_sm_count - the number of SMs that timed kernels report; attributed to the next fit. */
void bb_set_sm_count(struct bb_calibration *c, const struct bb_measurements *e);

/* bb_set_collective_sms - sharing.collective_sms: each channel of NCCL occupies one SM, so the median number of
 * channels of collectives from 1 MiB on is used. Returns 0, or -BB_EFAIL without memory. */
int bb_set_collective_sms(struct bb_calibration *c, const struct bb_measurements *e) BB_MUST_CHECK;

/* bb_fit_message_sms - sharing.message_sms: the number of SMs per message that best predicts GEMMs during sendrecv;
 * among equal candidates the one nearest to the nominal value. Unchanged if all candidates are equal. Returns 0, or
 * -BB_EFAIL without memory. */
int bb_fit_message_sms(struct bb_calibration *c, const struct bb_measurements *e) BB_MUST_CHECK;

#endif
