/* integer_parameters.h - figures that rows tell as they are, as whole numbers: nothing is fitted. */
#ifndef BB_PROXIES_CALIBRATE_INTEGER_PARAMETERS_H
#define BB_PROXIES_CALIBRATE_INTEGER_PARAMETERS_H

#include "proxies/calibrate/calibration.h"

/* bb_set_node_size - as it is given, or a host with more ranks than the profile's nodes have GPUs: so many, and as
 * many NICs for each as before. Fewer ranks tell nothing: the other GPUs may have been idle. */
void bb_set_node_size(struct bb_calibration *c, const struct bb_measurements *e);

/* bb_set_sm_count - of the GPU, from timed kernels, whose fit is the next. */
void bb_set_sm_count(struct bb_calibration *c, const struct bb_measurements *e);

/* bb_set_collective_sms - a channel of NCCL holds a multiprocessor: the median of its collectives from 1 MiB on, for a
 * machine that shares. 0 or -BB_EFAIL (no memory). */
int bb_set_collective_sms(struct bb_calibration *c, const struct bb_measurements *e) BB_MUST_CHECK;

/* bb_fit_message_sms - of the numbers of multiprocessors that a message may hold the one by which products beside
 * sendrecv take what they took; of several that do as well, the nearest to the nominal one. Untold where all do. */
int bb_fit_message_sms(struct bb_calibration *c, const struct bb_measurements *e) BB_MUST_CHECK;

#endif
