/* step_environment.h - environment variables required by steps that use many streams. CUDA and NCCL read these
 * variables once per process. */
#ifndef BB_PROXIES_RUNNER_RUN_STEP_ENVIRONMENT_H
#define BB_PROXIES_RUNNER_RUN_STEP_ENVIRONMENT_H

#include "bootstrap/base/err.h"

/*
 * bb_step_set_environment - sets CUDA_DEVICE_MAX_CONNECTIONS=32 unless the user has set the variable, and reserves an
 * entry of the environment for bb_step_connect_at_init. Call while the process has one thread: setenv() concurrent with
 * getenv() is undefined, and MPI and CUDA start threads.
 *   CUDA_DEVICE_MAX_CONNECTIONS=32: each stream gets a separate hardware queue. With the default of 8, streams share
 *   queues, and an operation waits for earlier operations of other streams in its queue.
 *   sharing  number of ranks that share a GPU. They divide the 32 queues, down to 4 each: the clients of an MPS server
 *            share its connections, and a client without connections fails with cudaErrorMpsMaxConnectionsReached
 */
int bb_step_set_environment(int sharing) BB_MUST_CHECK;

/*
 * bb_step_connect_at_init - sets NCCL_RUNTIME_CONNECT=0 unless the user has set the variable. Required by steps that
 * would deadlock if the operations of a rank ran one after another. Collectives then connect when their communicator is
 * created. By default, the first call blocks the host until all peers make the same call, while a peer may be blocked in
 * another call. Call before the first NCCL communicator; other threads may read the environment meanwhile, because the
 * call changes one byte of the reserved entry.
 */
void bb_step_connect_at_init(void);

/* bb_hardware_queues - returns the number of hardware queues of the device, the value of
 * CUDA_DEVICE_MAX_CONNECTIONS. */
int bb_hardware_queues(void);

#endif
