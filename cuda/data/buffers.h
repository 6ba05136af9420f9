/*
 * buffers.h - device memory with guard zones: the bytes before and after the area hold a canary value, so
 * bb_guarded_check_guards() detects writes outside the area.
 */
#ifndef BB_CUDA_DATA_BUFFERS_H
#define BB_CUDA_DATA_BUFFERS_H

#include "bootstrap/base/err.h"
#include "cuda/data/kernels.h"

#include <cuda_runtime_api.h>
#include <stddef.h>

#define BB_GUARD_BYTES 4096

/* A source of device memory. */
struct bb_allocator {
    const char *name;
    int (*alloc)(void **memory, size_t bytes); /* on the current device, aligned to 256 bytes; returns 0, or an error
                                                  code after printing one line */
    void (*free)(void *memory);
    size_t (*device_bytes)(size_t bytes); /* bytes that alloc(bytes) takes from the device */
};
extern const struct bb_allocator bb_cuda_allocator; /* "cuda": cudaMalloc */

struct bb_guarded {
    unsigned char *area; /* device pointer, aligned to 256 bytes; NULL for an empty buffer */
    size_t bytes;        /* size of the area, without the guard zones */
    void *base;          /* the allocation, owned; NULL if the memory belongs to the caller */
    const struct bb_allocator *from;
};

/* bb_guarded_bytes - size of an area of `bytes` with its guard zones. bb_guarded_device_bytes - what bb_guarded_init
 * takes from the device, since an allocator may round up to whole units. */
size_t bb_guarded_bytes(size_t bytes);
size_t bb_guarded_device_bytes(size_t bytes, const struct bb_allocator *from);

/* bb_guarded_init - allocate on the current device and write the guard zones on `stream`. Release accepts a partly
 * initialised buffer. */
BB_MUST_CHECK int bb_guarded_init(struct bb_guarded *b, size_t bytes, const struct bb_allocator *from,
                                  cudaStream_t stream);

/* bb_guarded_place - as bb_guarded_init, but in `memory` of bb_guarded_bytes(bytes) bytes, aligned to 256, that the
 * caller owns. */
BB_MUST_CHECK int bb_guarded_place(struct bb_guarded *b, void *memory, size_t bytes, cudaStream_t stream);
void bb_guarded_release(struct bb_guarded *b);

/* bb_guarded_check_guards - add the number of overwritten guard bytes to *verdict (device memory), on `stream`. */
BB_MUST_CHECK int bb_guarded_check_guards(const struct bb_guarded *b, struct bb_verdict *verdict, cudaStream_t stream);

/* bb_memory_refuse - print the required and the available bytes and a remedy. Returns -BB_EUSAGE. */
int bb_memory_refuse(size_t bytes, size_t available, const char *what_would_help);

#endif
