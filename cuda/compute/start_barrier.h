/*
 * start_barrier.h - a kernel that blocks a stream until the host opens the barrier, so that all later operations are
 * enqueued before the first one starts. The kernel polls a flag in pinned host memory and gives up after a time limit
 * on the GPU's clock. The limit prevents a deadlock: a host call that needs the GPU while the barrier is closed (full
 * launch queue, cudaFree) then returns late instead of never.
 */
#ifndef BB_CUDA_COMPUTE_START_BARRIER_H
#define BB_CUDA_COMPUTE_START_BARRIER_H

#include "bootstrap/base/err.h"

#include <cuda_runtime_api.h>
#include <stdbool.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Flags in pinned host memory. Every call of bb_start_barrier_close creates a barrier with the next number, from 1.
 * The flags contain barrier numbers instead of booleans, so they need no reset between barriers. */
struct bb_start_barrier_flags {
    uint32_t opened;  /* written by the host: barriers with this number or a lower one are open */
    uint32_t expired; /* written by the GPU: number of the most recent barrier that reached its time limit; 0: none */
};

struct bb_start_barrier {
    struct bb_start_barrier_flags *flags; /* owned; NULL: not initialized */
    int64_t limit_ns;
    uint32_t closed; /* number of the most recent barrier that was closed; 0: none yet */
};

/* The argument of the kernel, passed by value. */
struct bb_start_barrier_args {
    struct bb_start_barrier_flags *flags;
    uint32_t number;
    int64_t limit_ns;
};

/* bb_start_barrier_load - load the kernel on the current GPU before any measurement (see cuda/load). */
BB_MUST_CHECK int bb_start_barrier_load(void);

/* bb_start_barrier_init - allocate the flags. A closed barrier opens by itself after limit_ns. */
BB_MUST_CHECK int bb_start_barrier_init(struct bb_start_barrier *g, int64_t limit_ns);

/* bb_start_barrier_release - open the barrier and free the flags. The kernel must have finished on every stream. A
 * zeroed struct is allowed. */
void bb_start_barrier_release(struct bb_start_barrier *g);

/* bb_start_barrier_close - enqueue the kernel on `stream` and return at once. Later operations on `stream` wait
 * until bb_start_barrier_open, or until the time limit. */
BB_MUST_CHECK int bb_start_barrier_close(struct bb_start_barrier *g, cudaStream_t stream);
void bb_start_barrier_open(struct bb_start_barrier *g);

/* bb_start_barrier_expired - returns whether the most recent barrier reached its time limit. Call it after the
 * stream has finished. */
bool bb_start_barrier_expired(const struct bb_start_barrier *g);

#ifdef __cplusplus
}
#endif
#endif
