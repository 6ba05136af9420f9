/* integer_parameters.h - determines the parameters that are whole numbers: from the measurements directly, or by
 * trying all values, instead of by a fit. */
#ifndef BB_PROXIES_CALIBRATE_INTEGER_PARAMETERS_H
#define BB_PROXIES_CALIBRATE_INTEGER_PARAMETERS_H

#include "proxies/calibrate/calibration.h"

/* bb_set_node_size - sets gpus_per_node to the value of --gpus-per-node. Without this option: if a measured host had
 * more ranks than the profile has GPUs per node, sets gpus_per_node to this number of ranks. Hosts with fewer ranks
 * change nothing, because some of their GPUs may have been idle. The number of NICs per GPU stays the same. */
void bb_set_node_size(struct bb_calibration *c, const struct bb_measurements *e);

/* bb_set_sm_count - sets sm_count to the number of SMs that `bench compute` recorded with its timed kernels. The
 * report lists sm_count with the next fit, which is the fit of kernels. */
void bb_set_sm_count(struct bb_calibration *c, const struct bb_measurements *e);

/* bb_set_collective_sms - sets sharing.collective_sms to the median number of NCCL channels in collectives of 1 MiB
 * or more, because each channel occupies one SM. Returns 0, or -BB_EFAIL if memory is exhausted. */
int bb_set_collective_sms(struct bb_calibration *c, const struct bb_measurements *e) BB_MUST_CHECK;

/* bb_fit_message_sms - sets sharing.message_sms to the number of SMs per message with which the times of GEMMs
 * during a sendrecv are predicted best. If several numbers are equally good, the one nearest to the value of the
 * starting profile is set; if all are equally good, the value stays. Returns 0, or -BB_EFAIL if memory is exhausted. */
int bb_fit_message_sms(struct bb_calibration *c, const struct bb_measurements *e) BB_MUST_CHECK;

#endif
