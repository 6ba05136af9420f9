/*
 * buffers.h - device memory with guard zones. The bytes on both sides of the area hold a canary, so that a write
 * outside of it is seen by bb_guarded_check_guards().
 */
#ifndef BB_CUDA_DATA_BUFFERS_H
#define BB_CUDA_DATA_BUFFERS_H

#include "bootstrap/base/err.h"
#include "cuda/data/kernels.h"

#include <cuda_runtime_api.h>
#include <stddef.h>

#define BB_GUARD_BYTES 4096

/* Where device memory comes from. */
struct bb_allocator {
    const char *name;
    int (*alloc)(void **memory, size_t bytes); /* on the current device, aligned to 256 bytes; 0 or an error, said */
    void (*free)(void *memory);
    size_t (*device_bytes)(size_t bytes); /* what alloc(bytes) takes from the device */
};
extern const struct bb_allocator bb_cuda_allocator; /* "cuda": cudaMalloc */

struct bb_guarded {
    unsigned char *area; /* device pointer, aligned to 256 bytes; NULL for an empty buffer */
    size_t bytes;        /* of the area, without the guards                                */
    void *base;          /* what the allocator gave; owned. NULL: memory of somebody else  */
    const struct bb_allocator *from;
};

/* bb_guarded_bytes - memory of an area of that many bytes with its guards. bb_guarded_device_bytes - what bb_guarded_init takes
 * from the device for it: an allocator may give whole units only. */
size_t bb_guarded_bytes(size_t bytes);
size_t bb_guarded_device_bytes(size_t bytes, const struct bb_allocator *from);

/* bb_guarded_init - allocate on the current device and write the guards on stream. Release works on a half-made one. */
BB_MUST_CHECK int bb_guarded_init(struct bb_guarded *b, size_t bytes, const struct bb_allocator *from,
                                  cudaStream_t stream);

/* bb_guarded_place - the same in memory of bb_guarded_bytes(bytes), aligned to 256 bytes, that stays its owner's. */
BB_MUST_CHECK int bb_guarded_place(struct bb_guarded *b, void *memory, size_t bytes, cudaStream_t stream);
void bb_guarded_release(struct bb_guarded *b);

/* bb_guarded_check_guards - adds the guard bytes that were overwritten to *verdict (device memory), on stream. */
BB_MUST_CHECK int bb_guarded_check_guards(const struct bb_guarded *b, struct bb_verdict *verdict, cudaStream_t stream);

/* bb_memory_refuse - says both numbers, and what would help; returns -BB_EUSAGE. */
int bb_memory_refuse(size_t bytes, size_t available, const char *what_would_help);

#endif
