/*
 * busy.h - a stand-in for compute that takes exactly the time it is told: it holds some of the GPU's multiprocessors
 * for so many nanoseconds on the GPU's own clock and meanwhile uses as much memory bandwidth as asked, as the layer
 * that it stands for would. No host round trip: it is one kernel.
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

/* What a launch says of itself, in device or pinned host memory; written by the GPU's atomics, so cleared before
 * (bb_busy_report_clear). */
struct bb_busy_report {
    unsigned long long start_ns, end_ns; /* the GPU's clock: first block in, last block out   */
    unsigned long long bytes;            /* moved, read plus written                          */
    unsigned long long blocks;           /* that ran: multiprocessors held                    */
};

struct bb_busy {
    int sms;       /* multiprocessors to hold; below 1: one, above what the GPU has: all of them                   */
    int64_t ns;    /* time from the start of each block                                                            */
    double gbps;   /* memory traffic meanwhile, 1e9 bytes per second, read plus written; 0: none. What the blocks  */
                   /* cannot reach is not made up for: the time stays exact                                        */
    void *scratch; /* device memory for the traffic, larger than the L2 cache; its content stays. NULL with gbps 0 */
    size_t scratch_bytes;
    struct bb_busy_report *report; /* device or pinned host memory, or NULL */
};

/* bb_busy_load - see cuda/load: its kernels. */
BB_MUST_CHECK int bb_busy_load(void);

/* bb_busy_run - enqueue on `stream`; returns at once. Returns 0, -BB_EUSAGE (traffic without memory for it: said) or
 * -BB_EFAIL. */
BB_MUST_CHECK int bb_busy_run(const struct bb_busy *busy, cudaStream_t stream);

BB_MUST_CHECK int bb_busy_report_clear(struct bb_busy_report *report, cudaStream_t stream);

#ifdef __cplusplus
}
#endif
#endif
