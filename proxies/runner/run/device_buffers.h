/*
 * device_buffers.h - the device memory of a step program. Each buffer has an area with guard zones before and after it,
 * which detect writes outside the buffer. All areas are in one allocation, because ncclMemAlloc rounds each allocation
 * up to a large multiple. The total size is known before the allocation.
 */
#ifndef BB_PROXIES_RUNNER_RUN_DEVICE_BUFFERS_H
#define BB_PROXIES_RUNNER_RUN_DEVICE_BUFFERS_H

#include "bootstrap/base/err.h"
#include "cuda/data/buffers.h"

#include <cuda_runtime_api.h>
#include <stddef.h>

struct bb_device_buffers {
    const struct bb_allocator *from;
    unsigned char *memory;    /* device memory of all buffers with their guard zones, one allocation; NULL: all buffers
                                 are empty */
    struct bb_guarded *areas; /* [n] one buffer with its guard zones per element */
    int n;                    /* number of initialized elements of `areas` */
};

/* bb_device_buffers_cost - returns the number of bytes, including guard zones, that bb_device_buffers_init allocates
 * for n buffers; buffer i has bytes[i] bytes. */
size_t bb_device_buffers_cost(const size_t *bytes, int n);

/* bb_device_buffers_init - allocates n buffers on the current device; buffer i has bytes[i] bytes. m: out, released
 * by the caller with bb_device_buffers_release; from: the allocator, owned by the caller; stream:
 * the stream on which the guard zones are written. Returns 0 or an error code. */
int bb_device_buffers_init(struct bb_device_buffers *m, const size_t *bytes, int n, const struct bb_allocator *from,
                           cudaStream_t stream) BB_MUST_CHECK;
void bb_device_buffers_release(struct bb_device_buffers *m); /* *m may be zeroed */

/* bb_device_buffers_at - returns the device address of buffer i; NULL for an empty buffer and for i < 0. */
void *bb_device_buffers_at(const struct bb_device_buffers *m, int i);

/*
 * bb_device_buffers_check_guards - counts the overwritten bytes in the guard zones of all buffers and adds this number
 * to *verdict in device memory.
 */
int bb_device_buffers_check_guards(const struct bb_device_buffers *m, struct bb_verdict *verdict,
                                   cudaStream_t stream) BB_MUST_CHECK;

#endif
