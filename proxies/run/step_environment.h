/* step_environment.h - environment variables that CUDA and NCCL read once, and that steps on many streams require. */
#ifndef BB_PROXIES_RUN_STEP_ENVIRONMENT_H
#define BB_PROXIES_RUN_STEP_ENVIRONMENT_H

#include "bootstrap/base/err.h"

#include <stdbool.h>

/*
 * bb_step_set_environment - sets these variables unless the user has set them. Call before the first CUDA call.
 *   concurrent_streams  the step would deadlock if the streams of a rank were serialised
 *
 *   CUDA_DEVICE_MAX_CONNECTIONS=32   Each stream gets its own hardware queue. With the default of 8, streams share
 *                                    queues, and an operation waits for earlier operations of other streams in its
 *                                    queue.
 *   NCCL_RUNTIME_CONNECT=0           Only with concurrent_streams: collectives connect when their communicator is
 *                                    created. Otherwise the first call blocks the host until all peers call it, and a
 *                                    peer may be blocked in another call.
 */
int bb_step_set_environment(bool concurrent_streams) BB_MUST_CHECK;

/* bb_hardware_queues - number of hardware queues of the device with this environment. */
int bb_hardware_queues(void);

#endif
