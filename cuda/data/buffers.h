/*
 * buffers.h - device memory with guard zones. The bytes before and after the buffer contain a canary value, so that
 * bb_guarded_check_guards() detects writes outside the buffer.
 */
#ifndef BB_CUDA_DATA_BUFFERS_H
#define BB_CUDA_DATA_BUFFERS_H

#include "bootstrap/base/err.h"
#include "cuda/data/kernels.h"

#include <cuda_runtime_api.h>
#include <stddef.h>

#define BB_GUARD_BYTES 4096

/* An allocator of device memory. */
struct bb_allocator {
    const char *name;
    int (*alloc)(void **memory, size_t bytes); /* allocates on the current device, aligned to 256 bytes; returns 0,
                                                  or an error code after printing an error */
    void (*free)(void *memory);
    size_t (*device_bytes)(size_t bytes); /* returns the device memory that alloc(bytes) takes: `bytes`, possibly
                                             rounded up */
};
extern const struct bb_allocator bb_cuda_allocator; /* "cuda": cudaMalloc */

struct bb_guarded {
    unsigned char *area; /* device address of the buffer, aligned to 256 bytes and without guard zones; NULL: no
                            buffer */
    size_t bytes;        /* size of the buffer, without the guard zones */
    void *base;          /* the allocation including the guard zones, owned; NULL if the caller owns the memory */
    const struct bb_allocator *from;
};

/*
 * bb_guarded_bytes - return the size of a buffer of `bytes` including its guard zones.
 * bb_guarded_device_bytes - return the device memory that bb_guarded_init takes for such a buffer. This can be more
 * than bb_guarded_bytes, because an allocator may round sizes up.
 */
size_t bb_guarded_bytes(size_t bytes);
size_t bb_guarded_device_bytes(size_t bytes, const struct bb_allocator *from);

/*
 * bb_guarded_init - allocate a buffer on the current device and write its guard zones on `stream`.
 *   from  the allocator; borrowed until bb_guarded_release
 * bb_guarded_release accepts a partly initialized buffer.
 */
BB_MUST_CHECK int bb_guarded_init(struct bb_guarded *b, size_t bytes, const struct bb_allocator *from,
                                  cudaStream_t stream);

/* bb_guarded_place - create a buffer and write its guard zones like bb_guarded_init, but in memory that the caller
 * owns: bb_guarded_bytes(bytes) bytes, aligned to 256. */
BB_MUST_CHECK int bb_guarded_place(struct bb_guarded *b, void *memory, size_t bytes, cudaStream_t stream);
void bb_guarded_release(struct bb_guarded *b);

/* bb_guarded_check_guards - enqueue on `stream` a kernel that adds the number of overwritten guard bytes to *verdict
 * (device memory). */
BB_MUST_CHECK int bb_guarded_check_guards(const struct bb_guarded *b, struct bb_verdict *verdict, cudaStream_t stream);

/*
 * bb_memory_refuse - print the error that a GPU has too little memory.
 *   bytes            required
 *   available        free bytes on the device
 *   what_would_help  advice to the user, printed at the end of the error
 *   Returns          -BB_EUSAGE
 */
int bb_memory_refuse(size_t bytes, size_t available, const char *what_would_help);

#endif
