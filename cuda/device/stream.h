/*
 * stream.h - waits for the GPU with the timeout of the run. A hang ends with an error that names the missing ranks.
 */
#ifndef BB_CUDA_DEVICE_STREAM_H
#define BB_CUDA_DEVICE_STREAM_H

#include "bootstrap/world/comms.h"

#include <cuda_runtime_api.h>

/*
 * bb_stream_wait, bb_event_wait - wait until everything enqueued on the stream so far, or before the event, is
 * complete.
 *   what     name of the operation, for the timeout message
 *   health   called from time to time with `arg`; may be NULL. Returns 0, or an error code that ends the wait, for
 *            example for an asynchronous error of a communicator
 *   Returns  as bb_world_wait
 */
typedef int bb_health(void *arg);
BB_MUST_CHECK int bb_stream_wait(struct bb_world *w, cudaStream_t stream, const char *what, bb_health *health,
                                 void *arg);
BB_MUST_CHECK int bb_event_wait(struct bb_world *w, cudaEvent_t event, const char *what, bb_health *health, void *arg);

/* bb_comm_wait - wait for a stream with operations of a communicator; an asynchronous error of the communicator ends
 * the wait. */
BB_MUST_CHECK int bb_comm_wait(struct bb_comm *c, cudaStream_t stream, const char *what);

/* bb_event_us - GPU time in microseconds between two completed events, `stop` after `start`. A negative or
 * non-finite time from the driver is -BB_EFAIL after printing one line, because every result derived from it would
 * be wrong. */
BB_MUST_CHECK int bb_event_us(cudaEvent_t start, cudaEvent_t stop, double *us);

/* bb_event_difference_us - as bb_event_us for events in any order: negative if `to` precedes `from`. */
BB_MUST_CHECK int bb_event_difference_us(cudaEvent_t from, cudaEvent_t to, double *us);

/* NULL is allowed. */
void bb_event_destroy(cudaEvent_t event);
void bb_stream_destroy(cudaStream_t stream);

#endif
