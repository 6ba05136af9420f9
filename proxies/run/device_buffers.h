/*
 * device_buffers.h - the device memory of a step program: one guarded area per buffer. Its size is known before
 * anything is allocated.
 */
#ifndef BB_PROXIES_RUN_DEVICE_BUFFERS_H
#define BB_PROXIES_RUN_DEVICE_BUFFERS_H

#include "bootstrap/base/err.h"
#include "cuda/data/kernels.h"

#include <cuda_runtime_api.h>
#include <stddef.h>

struct bb_areas; /* opaque */

/* bb_areas_cost - what bb_areas_init takes from the device for areas of bytes[n], guards included. */
size_t bb_areas_cost(const size_t *bytes, int n);

/* bb_areas_init - *m = n areas of bytes[i] on the current device, their guards written on stream. */
int bb_areas_init(struct bb_areas **m, const size_t *bytes, int n, cudaStream_t stream) BB_MUST_CHECK;
void bb_areas_release(struct bb_areas *m); /* NULL is fine */

/* bb_areas_at - the device address of area i; NULL for an empty one and for i < 0. */
void *bb_areas_at(const struct bb_areas *m, int i);

/* bb_areas_check_guards - adds the guard bytes that were overwritten, of all areas, to *verdict (device memory). */
int bb_areas_check_guards(const struct bb_areas *m, struct bb_verdict *verdict, cudaStream_t stream) BB_MUST_CHECK;

#endif
