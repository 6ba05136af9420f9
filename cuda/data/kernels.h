/*
 * kernels.h - the kernels of busbar and their launchers. All of them enqueue on `stream` and return at once with 0 or
 * -BB_EFAIL. What is written and expected is defined in pattern.h, for the GPU and the CPU alike.
 */
#ifndef BB_CUDA_DATA_KERNELS_H
#define BB_CUDA_DATA_KERNELS_H

#include "bootstrap/base/err.h"
#include "cuda/data/pattern.h"

#include <cuda_runtime_api.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/*
 * What checks leave in device memory; bb_verdict_clear before the first one that adds to it. `checked` counts what was
 * looked at, so that a check that did not run is not taken for a clean one.
 */
struct bb_verdict {
    unsigned long long wrong;   /* elements that differ                       */
    unsigned long long first;   /* smallest index that differs, ~0 where none */
    unsigned long long checked; /* elements compared                          */
};

/* bb_data_kernels_load - see cuda/load: all kernels of this file. */
BB_MUST_CHECK int bb_data_kernels_load(void);

/* bb_fill - buf[i] = what `rank` contributes at pattern index first + i, for i < count (elements). */
BB_MUST_CHECK int bb_fill(void *buf, size_t count, const struct bb_pattern *pattern, int rank, size_t first,
                          cudaStream_t stream);

/* bb_check - compare buf[0..count) with the expectation, adding to *verdict (device memory). */
BB_MUST_CHECK int bb_check(const void *buf, size_t count, const struct bb_pattern *pattern,
                           const struct bb_expect *expect, struct bb_verdict *verdict, cudaStream_t stream);

/* bb_check_bytes - every one of buf[0..bytes) must be `value`; adds to *verdict (device memory). */
BB_MUST_CHECK int bb_check_bytes(const void *buf, size_t bytes, unsigned char value, struct bb_verdict *verdict,
                                 cudaStream_t stream);

/* bb_verdict_clear - no element wrong yet. */
BB_MUST_CHECK int bb_verdict_clear(struct bb_verdict *verdict, cudaStream_t stream);

/*
 * bb_spin - hold `sms` streaming multiprocessors for `ns` nanoseconds on the GPU's own clock, without any host round
 * trip. sms <= 0: one. It returns at once; the kernel takes ns nanoseconds from its start on the GPU.
 */
BB_MUST_CHECK int bb_spin(int sms, int64_t ns, cudaStream_t stream);

#ifdef __cplusplus
}
#endif
#endif
