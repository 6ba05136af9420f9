/* step_environment.h - variables that CUDA and NCCL read once, and that steps on many streams need. */
#ifndef BB_PROXIES_RUN_STEP_ENVIRONMENT_H
#define BB_PROXIES_RUN_STEP_ENVIRONMENT_H

#include "bootstrap/base/err.h"

#include <stdbool.h>

/*
 * bb_step_set_environment - sets them where the user has not. To be called before the first call of CUDA. side_by_side: the
 * step would deadlock if the streams of a rank were serialised.
 *   CUDA_DEVICE_MAX_CONNECTIONS=32   each stream has a hardware queue of its own; of 8, the default, streams share one,
 *                                    and what is behind another stream's operation there waits for it
 *   NCCL_RUNTIME_CONNECT=0           side_by_side: collectives are connected with their communicator; otherwise the
 *                                    first one keeps the host until its peers call it too, who may be in another
 */
int bb_step_set_environment(bool concurrent_streams) BB_MUST_CHECK;

/* bb_hardware_queues - those of the device when that is done. */
int bb_hardware_queues(void);

#endif
