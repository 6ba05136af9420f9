/*
 * busy.h - the timed kernel: a substitute for compute with a given duration. The kernel occupies a given number of SMs
 * for a given time on the GPU's clock. Meanwhile it reads and writes memory at a given rate, to use as much bandwidth
 * as the layer that it replaces. One kernel does all of this, so no host round trip adds to the duration.
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

/* Result of a launch of the timed kernel, in device or pinned host memory. The kernel updates it with GPU atomics,
 * so clear it with bb_busy_report_clear before the launch. */
struct bb_busy_report {
    unsigned long long start_ns, end_ns; /* in ns of the GPU clock: start of the first thread block, end of the last
                                            thread block */
    unsigned long long bytes;            /* memory traffic of the launch: bytes read plus bytes written */
    unsigned long long blocks;           /* number of thread blocks that ran, one per SM */
};

struct bb_busy {
    int sms;       /* SMs to occupy; below 1: one SM; above the GPU's number of SMs: all SMs */
    int64_t ns;    /* duration of each thread block in ns, from the block's own start */
    double gbps;   /* rate of memory traffic (read plus written) of the whole kernel, 1e9 bytes per second; 0: no
                    traffic. If the blocks cannot reach the rate, the traffic is lower and the duration stays exact. */
    void *scratch; /* device memory that the traffic reads and writes back unchanged; larger than the L2 cache; NULL
                      if gbps is 0 */
    size_t scratch_bytes;
    struct bb_busy_report *report; /* filled by the kernel, in device or pinned host memory; NULL: no report */
};

/* bb_busy_load - load the timed kernels on the current GPU before any measurement (see cuda/load). */
BB_MUST_CHECK int bb_busy_load(void);

/*
 * bb_busy_run - enqueue the timed kernel on `stream` and return at once.
 *   Returns  0, -BB_EUSAGE after printing an error (gbps > 0 without enough scratch memory), or -BB_EFAIL
 */
BB_MUST_CHECK int bb_busy_run(const struct bb_busy *busy, cudaStream_t stream);

BB_MUST_CHECK int bb_busy_report_clear(struct bb_busy_report *report, cudaStream_t stream);

#ifdef __cplusplus
}
#endif
#endif
