/*
 * start_barrier.h - a kernel that holds a stream back until the host opens it, so that everything behind it is enqueued before
 * the first of it starts. It looks at a word of pinned host memory and gives up by itself after a limit on the GPU's
 * clock: a call behind a closed gate that needs the GPU (a full launch queue, memory being freed) ends late, not never.
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

/* In pinned host memory. Closings are numbered from 1, so nothing has to be reset between them. */
struct bb_start_barrier_flags {
    uint32_t opened;  /* by the host: every closing up to this one is over      */
    uint32_t expired; /* by the GPU: the last closing whose limit ran out, or 0 */
};

struct bb_start_barrier {
    struct bb_start_barrier_flags *flags; /* NULL: not made */
    int64_t limit_ns;
    uint32_t closed; /* the number of the last closing */
};

/* The argument of the kernel. */
struct bb_start_barrier_args {
    struct bb_start_barrier_flags *flags;
    uint32_t number;
    int64_t limit_ns;
};

/* bb_start_barrier_load - see cuda/load: its kernel. */
BB_MUST_CHECK int bb_start_barrier_load(void);

BB_MUST_CHECK int bb_start_barrier_init(struct bb_start_barrier *g, int64_t limit_ns);

/* bb_start_barrier_release - opens it first; the streams must be done with it. Fine on a zeroed one. */
void bb_start_barrier_release(struct bb_start_barrier *g);

/* bb_start_barrier_close - what is enqueued on `stream` from here on waits; returns at once. bb_start_barrier_open lets it go. */
BB_MUST_CHECK int bb_start_barrier_close(struct bb_start_barrier *g, cudaStream_t stream);
void bb_start_barrier_open(struct bb_start_barrier *g);

/* bb_start_barrier_expired - whether the last closing ended by its limit. To be asked when the stream is done. */
bool bb_start_barrier_expired(const struct bb_start_barrier *g);

#ifdef __cplusplus
}
#endif
#endif
