/* integer_parameters.h - parameters that are whole numbers. They are taken from the measurements or found by
 * enumeration instead of by a fit. */
#ifndef BB_PROXIES_CALIBRATE_INTEGER_PARAMETERS_H
#define BB_PROXIES_CALIBRATE_INTEGER_PARAMETERS_H

#include "proxies/calibrate/calibration.h"

/* bb_set_node_size - sets gpus_per_node to --gpus-per-node or, without this option, to the ranks of a host if a host
 * had more ranks than the profile has GPUs per node. Fewer ranks change nothing, because other GPUs of the node may
 * have been idle. The number of NICs per GPU stays the same. */
void bb_set_node_size(struct bb_calibration *c, const struct bb_measurements *e);

/* bb_set_sm_count - sets sm_count to the number of SMs that measurements of timed kernels report. The value is
 * attributed to the next fit, which is that of the kernels. */
void bb_set_sm_count(struct bb_calibration *c, const struct bb_measurements *e);

/* bb_set_collective_sms - sets sharing.collective_sms to the median number of NCCL channels in collectives of 1 MiB
 * or more, because each channel occupies one SM. Returns 0, or -BB_EFAIL if memory is exhausted. */
int bb_set_collective_sms(struct bb_calibration *c, const struct bb_measurements *e) BB_MUST_CHECK;

/* bb_fit_message_sms - sets sharing.message_sms to the number of SMs per message that best predicts GEMMs during
 * sendrecv. Of equally good numbers it takes the one nearest to the nominal value; if all are equally good, the
 * value stays. Returns 0, or -BB_EFAIL if memory is exhausted. */
int bb_fit_message_sms(struct bb_calibration *c, const struct bb_measurements *e) BB_MUST_CHECK;

#endif
