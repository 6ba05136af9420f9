/*
 * memory.h - the device memory of a step program: one guarded area per buffer. Its size is known, and refused when it
 * does not fit, before anything is allocated.
 */
#ifndef BB_PROXIES_MEMORY_H
#define BB_PROXIES_MEMORY_H

#include "bootstrap/err.h"
#include "cuda/kernels.h"

#include <cuda_runtime_api.h>
#include <stddef.h>

struct bb_memory; /* opaque */

/* bb_memory_cost - what bb_memory_init takes from the device for areas of bytes[n], guards included. */
size_t bb_memory_cost(const size_t *bytes, int n);

/* bb_memory_refuse - -BB_EUSAGE, after a line with both numbers, when that much is not free on the current device. */
int bb_memory_refuse(const size_t *bytes, int n) BB_MUST_CHECK;

/* bb_memory_init - *m = n areas of bytes[i] on the current device, their guards written on stream. */
int bb_memory_init(struct bb_memory **m, const size_t *bytes, int n, cudaStream_t stream) BB_MUST_CHECK;
void bb_memory_release(struct bb_memory *m); /* NULL is fine */

/* bb_memory_at - the device address of area i; NULL for an empty one and for i < 0. */
void *bb_memory_at(const struct bb_memory *m, int i);

/* bb_memory_check_guards - adds the guard bytes that were overwritten, of all areas, to *verdict (device memory). */
int bb_memory_check_guards(const struct bb_memory *m, struct bb_verdict *verdict, cudaStream_t stream) BB_MUST_CHECK;

#endif
