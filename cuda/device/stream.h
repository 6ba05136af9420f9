/*
 * stream.h - waits for the GPU with the run's timeout, so that a hang ends with an error that names the missing ranks.
 * Also times between events, and fills device memory.
 */
#ifndef BB_CUDA_DEVICE_STREAM_H
#define BB_CUDA_DEVICE_STREAM_H

#include "bootstrap/world/comms.h"

#include <cuda_runtime_api.h>

/*
 * bb_stream_wait, bb_event_wait - wait until the GPU has completed all work enqueued so far on the stream, or all work
 * before the event.
 *   what     name of the operation, for the timeout message
 *   health   called between polls with `arg`; returns 0, or an error code that ends the wait (for example for an
 *            asynchronous error of a communicator). NULL: no check
 *   Returns  0, the error code of `health` or of bb_world_wait, or -BB_EFAIL for a CUDA error
 */
typedef int bb_health(void *arg);
BB_MUST_CHECK int bb_stream_wait(struct bb_world *w, cudaStream_t stream, const char *what, bb_health *health,
                                 void *arg);
BB_MUST_CHECK int bb_event_wait(struct bb_world *w, cudaEvent_t event, const char *what, bb_health *health, void *arg);

/* bb_comm_wait - wait for a stream with operations of a communicator. An asynchronous error of the communicator ends
 * the wait. */
BB_MUST_CHECK int bb_comm_wait(struct bb_comm *c, cudaStream_t stream, const char *what);

/*
 * bb_event_us - get the GPU time in microseconds between two completed events, where `stop` was recorded after `start`.
 *   Returns  0, or -BB_EFAIL after printing an error; also if the driver reports a negative or non-finite time, because
 *            every result derived from it would be wrong
 */
BB_MUST_CHECK int bb_event_us(cudaEvent_t start, cudaEvent_t stop, double *us);

/* bb_event_difference_us - get the GPU time in microseconds from event `from` to event `to`; negative if `to` was
 * recorded before `from`. Returns 0, or -BB_EFAIL after printing an error. */
BB_MUST_CHECK int bb_event_difference_us(cudaEvent_t from, cudaEvent_t to, double *us);

/*
 * bb_fill_repeated - fill area[0, bytes) in device memory with copies of the host's block[0, block_bytes). Copies
 * within the area, each time doubling the filled length. Enqueues on `stream`. `block` is pageable memory, at least 1
 * byte, and may be freed after the call.
 */
BB_MUST_CHECK int bb_fill_repeated(void *area, size_t bytes, const void *block, size_t block_bytes,
                                   cudaStream_t stream);

/* Destroy an event or a stream; NULL is allowed. */
void bb_event_destroy(cudaEvent_t event);
void bb_stream_destroy(cudaStream_t stream);

#endif
