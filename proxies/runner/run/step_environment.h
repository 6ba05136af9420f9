/* step_environment.h - environment variables required by steps that use many streams. CUDA and NCCL read these
 * variables once per process. */
#ifndef BB_PROXIES_RUNNER_RUN_STEP_ENVIRONMENT_H
#define BB_PROXIES_RUNNER_RUN_STEP_ENVIRONMENT_H

#include "bootstrap/base/err.h"

/*
 * bb_step_set_environment - sets CUDA_DEVICE_MAX_CONNECTIONS=32 unless the user has set the variable, and reserves
 * entries of the environment for bb_step_enable. Call while the process has one thread: setenv() concurrent with
 * getenv() is undefined, and MPI and CUDA start threads.
 *   CUDA_DEVICE_MAX_CONNECTIONS=32: each stream gets a separate hardware queue. With the default of 8, streams share
 *   queues, and an operation waits for earlier operations of other streams in its queue.
 *   sharing  number of ranks of this host if ranks share GPUs, otherwise 1. They divide the 32 queues, down to 4 each:
 *            the clients of an MPS server share its connections, and a client without connections fails with
 *            cudaErrorMpsMaxConnectionsReached
 */
int bb_step_set_environment(int sharing) BB_MUST_CHECK;

/*
 * bb_step_enable - sets a variable unless the user has set it. Call before the first NCCL communicator; other threads may
 * read the environment meanwhile, because the call changes one byte of the reserved entry.
 *   BB_STEP_CONNECT_AT_INIT  NCCL_RUNTIME_CONNECT=0. Required by steps that would deadlock if the operations of a rank ran
 *                            one after another. Collectives then connect when their communicator is created. By default,
 *                            the first call blocks the host until all peers make the same call, while a peer may be
 *                            blocked in another call.
 *   BB_STEP_ORDER_LAUNCHES   NCCL_LAUNCH_ORDER_IMPLICIT=1, for all other steps with several communicators. The kernels of
 *                            communicators become resident in the order of their calls. Otherwise two ranks can each hold
 *                            the SMs that the other one's kernel requires (NCCL user guide, "Using multiple NCCL
 *                            communicators concurrently"). Requires NCCL 2.26 and CUDA 12.3; with an older CUDA the
 *                            kernels would run one after another.
 */
enum bb_step_variable { BB_STEP_CONNECT_AT_INIT, BB_STEP_ORDER_LAUNCHES };
void bb_step_enable(enum bb_step_variable variable);

/* bb_hardware_queues - returns the number of hardware queues of the device, the value of
 * CUDA_DEVICE_MAX_CONNECTIONS. */
int bb_hardware_queues(void);

#endif
