/*
 * kernels.h - launches the kernels that write and check test data. Each function enqueues its kernel on `stream`,
 * returns at once, and returns 0 or -BB_EFAIL. pattern.h defines the data, for GPU and CPU.
 */
#ifndef BB_CUDA_DATA_KERNELS_H
#define BB_CUDA_DATA_KERNELS_H

#include "bootstrap/base/err.h"
#include "cuda/data/pattern.h"

#include <cuda_runtime_api.h>
#include <stddef.h>

#ifdef __cplusplus
extern "C" {
#endif

/*
 * Result of comparing a buffer with expected values, in device memory. Call bb_verdict_clear before the first
 * comparison; each comparison adds to the verdict. If `checked` is less than the number of elements to compare, a
 * comparison is incomplete or did not run.
 */
struct bb_verdict {
    unsigned long long wrong;   /* number of elements that differ */
    unsigned long long first;   /* smallest index that differs; ~0 if no element differs */
    unsigned long long checked; /* number of elements compared */
};

/* bb_data_kernels_load - load the kernels of this header on the current GPU before any measurement (see cuda/load). */
BB_MUST_CHECK int bb_data_kernels_load(void);

/* bb_fill - set buf[i], for i < count, to the value that `rank` contributes at pattern index first + i (see
 * pattern.h). */
BB_MUST_CHECK int bb_fill(void *buf, size_t count, const struct bb_pattern *pattern, int rank, size_t first,
                          cudaStream_t stream);

/* bb_check - compare buf[0..count) with the expected values and add the result to *verdict (device memory). */
BB_MUST_CHECK int bb_check(const void *buf, size_t count, const struct bb_pattern *pattern,
                           const struct bb_expect *expect, struct bb_verdict *verdict, cudaStream_t stream);

/* bb_check_bytes - compare buf[0..bytes) with `value` and add the result to *verdict (device memory). */
BB_MUST_CHECK int bb_check_bytes(const void *buf, size_t bytes, unsigned char value, struct bb_verdict *verdict,
                                 cudaStream_t stream);

/* bb_verdict_clear - reset *verdict: no element checked, none wrong. */
BB_MUST_CHECK int bb_verdict_clear(struct bb_verdict *verdict, cudaStream_t stream);

#ifdef __cplusplus
}
#endif
#endif
