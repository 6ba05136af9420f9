/*
 * busy.h - the timed kernel, a stand-in for compute with a given duration: it occupies a given number of SMs for a
 * given time on the GPU's clock, and meanwhile uses as much memory bandwidth as the layer it stands for. The time
 * contains no host round trip, because a single kernel does all of this.
 */
#ifndef BB_CUDA_COMPUTE_BUSY_H
#define BB_CUDA_COMPUTE_BUSY_H

#include "bootstrap/base/err.h"

#include <cuda_runtime_api.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Result of a launch, in device or pinned host memory. GPU atomics update it, so clear it with bb_busy_report_clear
 * first. */
struct bb_busy_report {
    unsigned long long start_ns, end_ns; /* GPU clock: start of the first block, end of the last block */
    unsigned long long bytes;            /* bytes read plus bytes written */
    unsigned long long blocks;           /* blocks that ran, which is the number of SMs occupied */
};

struct bb_busy {
    int sms;       /* SMs to occupy; values below 1 mean 1, values above the number of SMs mean all */
    int64_t ns;    /* duration, from the start of each block */
    double gbps;   /* memory traffic, 1e9 bytes per second, read plus written; 0: none. If the blocks cannot reach this
                    rate, the traffic is */
                   /* lower and the duration stays exact */
    void *scratch; /* device memory for the traffic, larger than the L2 cache; content is preserved. NULL if gbps is
                      0 */
    size_t scratch_bytes;
    struct bb_busy_report *report; /* device or pinned host memory, or NULL */
};

/* bb_busy_load - load the timed kernels on the current GPU (see cuda/load). */
BB_MUST_CHECK int bb_busy_load(void);

/*
 * bb_busy_run - enqueue the timed kernel on `stream` and return at once.
 *   Returns  0, -BB_EUSAGE after printing one line (traffic without enough scratch memory), or -BB_EFAIL
 */
BB_MUST_CHECK int bb_busy_run(const struct bb_busy *busy, cudaStream_t stream);

BB_MUST_CHECK int bb_busy_report_clear(struct bb_busy_report *report, cudaStream_t stream);

#ifdef __cplusplus
}
#endif
#endif
