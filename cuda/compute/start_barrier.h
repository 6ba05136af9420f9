/*
 * start_barrier.h - a kernel that blocks a stream until the host opens it, so that all later operations are enqueued
 * before the first one starts. The kernel polls a flag in pinned host memory and gives up after a time limit on the
 * GPU's clock. The limit prevents a deadlock: a host call that needs the GPU while the barrier is closed (full launch
 * queue, release of memory) returns late instead of never.
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

/* Flags in pinned host memory. Each call of close gets a number, from 1 up, so the flags need no reset. */
struct bb_start_barrier_flags {
    uint32_t opened;  /* written by the host: all closings up to this number are open */
    uint32_t expired; /* written by the GPU: the last closing whose limit expired, or 0 */
};

struct bb_start_barrier {
    struct bb_start_barrier_flags *flags; /* owned; NULL: not initialised */
    int64_t limit_ns;
    uint32_t closed; /* number of the last closing */
};

/* The argument of the kernel. */
struct bb_start_barrier_args {
    struct bb_start_barrier_flags *flags;
    uint32_t number;
    int64_t limit_ns;
};

/* bb_start_barrier_load - load the kernel on the current GPU (see cuda/load). */
BB_MUST_CHECK int bb_start_barrier_load(void);

/* bb_start_barrier_init - allocate the flags. The barrier opens after limit_ns if the host does not open it earlier. */
BB_MUST_CHECK int bb_start_barrier_init(struct bb_start_barrier *g, int64_t limit_ns);

/* bb_start_barrier_release - open the barrier and free it. The streams must have passed it. A zeroed struct is
 * allowed. */
void bb_start_barrier_release(struct bb_start_barrier *g);

/* bb_start_barrier_close - enqueue the kernel on `stream` and return at once: later operations on `stream` wait
 * until bb_start_barrier_open. */
BB_MUST_CHECK int bb_start_barrier_close(struct bb_start_barrier *g, cudaStream_t stream);
void bb_start_barrier_open(struct bb_start_barrier *g);

/* bb_start_barrier_expired - whether the last closing ended by its time limit. Call it after the stream has
 * finished. */
bool bb_start_barrier_expired(const struct bb_start_barrier *g);

#ifdef __cplusplus
}
#endif
#endif
