/*
 * stream.h - waiting for the GPU under the run's deadline, so that a hang ends with the names of the ranks that are
 * missing and not with a process that has to be killed.
 */
#ifndef BB_CUDA_DEVICE_STREAM_H
#define BB_CUDA_DEVICE_STREAM_H

#include "bootstrap/world/comms.h"

#include <cuda_runtime_api.h>

/*
 * bb_stream_wait / bb_event_wait - until everything enqueued on the stream so far, or before the event, is done. health
 * (may be NULL) is asked now and then with its argument whether it is worth while to go on: 0, or the error that ends
 * the wait, e.g. a communicator's asynchronous error. Returns as bb_world_wait does.
 */
typedef int bb_health(void *arg);
BB_MUST_CHECK int bb_stream_wait(struct bb_world *w, cudaStream_t stream, const char *what, bb_health *health,
                                 void *arg);
BB_MUST_CHECK int bb_event_wait(struct bb_world *w, cudaEvent_t event, const char *what, bb_health *health, void *arg);

/* bb_comm_wait - bb_stream_wait for a stream with operations of a communicator, whose error ends the wait. */
BB_MUST_CHECK int bb_comm_wait(struct bb_comm *c, cudaStream_t stream, const char *what);

/* bb_event_us - microseconds of the GPU from one event to a later one; both are over. A driver that tells another time
 * than 0 or more ends the run (-BB_EFAIL, said): what follows from it would be no measurement. */
BB_MUST_CHECK int bb_event_us(cudaEvent_t start, cudaEvent_t stop, double *us);

/* bb_event_difference_us - the same where nothing says which of the two is the later one: below 0 if `to` was before. */
BB_MUST_CHECK int bb_event_difference_us(cudaEvent_t from, cudaEvent_t to, double *us);

/* Fine with NULL. */
void bb_event_destroy(cudaEvent_t event);
void bb_stream_destroy(cudaStream_t stream);

#endif
