/*
 * device_buffers.h - the device memory of a step program: one guarded area per buffer, all in one piece, since NCCL's
 * allocator rounds each up by far. Its size is known before anything is allocated.
 */
#ifndef BB_PROXIES_RUN_DEVICE_BUFFERS_H
#define BB_PROXIES_RUN_DEVICE_BUFFERS_H

#include "bootstrap/base/err.h"
#include "cuda/data/buffers.h"

#include <cuda_runtime_api.h>
#include <stddef.h>

struct bb_device_buffers; /* opaque */

/* bb_device_buffers_cost - memory that bb_device_buffers_init asks for, of areas of bytes[n], guards included. */
size_t bb_device_buffers_cost(const size_t *bytes, int n);

/* bb_device_buffers_init - *m = n areas of bytes[i] on the current device, their guards written on stream. */
int bb_device_buffers_init(struct bb_device_buffers **m, const size_t *bytes, int n, const struct bb_allocator *from,
                           cudaStream_t stream) BB_MUST_CHECK;
void bb_device_buffers_release(struct bb_device_buffers *m); /* NULL is fine */

/* bb_device_buffers_at - the device address of area i; NULL for an empty one and for i < 0. */
void *bb_device_buffers_at(const struct bb_device_buffers *m, int i);

/*
 * bb_device_buffers_check_guards - adds the guard bytes that were overwritten, of all areas, to *verdict (device
 * memory).
 */
int bb_device_buffers_check_guards(const struct bb_device_buffers *m, struct bb_verdict *verdict,
                                   cudaStream_t stream) BB_MUST_CHECK;

#endif
