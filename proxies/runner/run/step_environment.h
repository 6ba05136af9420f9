/* step_environment.h - environment variables required by steps that use many streams. CUDA and NCCL read these
 * variables once per process. */
#ifndef BB_PROXIES_RUNNER_RUN_STEP_ENVIRONMENT_H
#define BB_PROXIES_RUNNER_RUN_STEP_ENVIRONMENT_H

#include "bootstrap/base/err.h"

#include <stdbool.h>

/*
 * bb_step_set_environment - sets the following variables unless the user has set them. Call before the first CUDA call.
 *   concurrent_streams  true: the step would deadlock if the operations of a rank ran one after another
 *
 *   CUDA_DEVICE_MAX_CONNECTIONS=32   Each stream gets a separate hardware queue. With the default of 8, streams share
 *                                    queues, and an operation waits for earlier operations of other streams in its
 *                                    queue.
 *   NCCL_RUNTIME_CONNECT=0           Set only with concurrent_streams: collectives connect when their communicator is
 *                                    created. By default, the first call blocks the host until all peers make the same
 *                                    call, while a peer may be blocked in another call.
 */
int bb_step_set_environment(bool concurrent_streams) BB_MUST_CHECK;

/* bb_hardware_queues - returns the number of hardware queues of the device, the value of
 * CUDA_DEVICE_MAX_CONNECTIONS. */
int bb_hardware_queues(void);

#endif
