/* direct_parameters.h - determines the integer parameters of a cluster profile, and the time to enqueue a collective,
 * directly from the measurements or by trying all values, instead of by a fit. */
#ifndef BB_PROXIES_OFFLINE_CALIBRATE_DIRECT_PARAMETERS_H
#define BB_PROXIES_OFFLINE_CALIBRATE_DIRECT_PARAMETERS_H

#include "proxies/offline/calibrate/parameters/calibration.h"

/* bb_set_node_size - sets gpus_per_node to the value of --gpus-per-node. Without this option, sets it to the maximum
 * number of ranks per measured host if this exceeds the profile's gpus_per_node. Hosts with fewer ranks change
 * nothing, because some of their GPUs may have been idle. The number of NICs per GPU stays the same. */
void bb_set_node_size(struct bb_calibration *c);

/* bb_set_sm_count - sets sm_count to the number of SMs recorded by `bench compute` together with its timed kernels
 * (kernels of known duration). The report lists sm_count with the next fit, which is the fit of kernels. */
void bb_set_sm_count(struct bb_calibration *c);

/* bb_set_collective_min - sets collective_min_us if collectives on one node take the same time at sizes at which the starting
 * profile predicts different, shorter times: then the host enqueues collectives more slowly than the GPUs complete them.
 * Only times on the host's clock determine this parameter. Requires all of them to be at least as long. */
void bb_set_collective_min(struct bb_calibration *c);

/* bb_set_collective_sms - sets sharing.collective_sms to the median number of NCCL channels in collectives of 1 MiB
 * or more, because each channel occupies one SM. */
void bb_set_collective_sms(struct bb_calibration *c);

/* bb_fit_message_sms - sets sharing.message_sms to the number of SMs per NCCL message that best predicts the times
 * of GEMMs during a sendrecv. Among equally good numbers, the one nearest to the value of the starting profile is
 * set; if all numbers are equally good, the value stays. */
void bb_fit_message_sms(struct bb_calibration *c);

#endif
