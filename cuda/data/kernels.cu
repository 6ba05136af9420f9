/*
 * kernels.cu - launches the kernels that write and check test data. Data is always written and checked outside the
 * timed part of a measurement.
 */
#include "cuda/data/data_kernels.cuh"
#include "cuda/device/check.h"
#include "cuda/device/kernel_load.h"

static const int THREADS = 256, MAX_BLOCKS = 4096;

int bb_data_kernels_load(void)
{
    static const void *const kernels[] = {
        (const void *)bb_fill_kernel,
        (const void *)bb_check_kernel,
        (const void *)bb_check_bytes_kernel,
        (const void *)bb_verdict_clear_kernel,
    };

    return bb_kernel_table_load(kernels, sizeof kernels / sizeof *kernels);
}

static int blocks_for(uint64_t count)
{
    uint64_t blocks = (count + THREADS - 1) / THREADS;

    return blocks < (uint64_t)MAX_BLOCKS ? (int)blocks : MAX_BLOCKS;
}

int bb_fill(void *buf, size_t count, const struct bb_pattern *pattern, int rank, size_t first, cudaStream_t stream)
{
    if (count == 0)
        return 0;
    struct bb_fill_args args = {buf, count, *pattern, rank, first};
    bb_fill_kernel<<<blocks_for(count), THREADS, 0, stream>>>(args);
    return BB_CUDA(cudaGetLastError());
}

int bb_check(const void *buf, size_t count, const struct bb_pattern *pattern, const struct bb_expect *expect,
             struct bb_verdict *verdict, cudaStream_t stream)
{
    if (count == 0)
        return 0;
    struct bb_check_args args = {buf, count, *pattern, *expect, verdict};
    bb_check_kernel<<<blocks_for(count), THREADS, 0, stream>>>(args);
    return BB_CUDA(cudaGetLastError());
}

int bb_check_bytes(const void *buf, size_t bytes, unsigned char value, struct bb_verdict *verdict, cudaStream_t stream)
{
    if (bytes == 0)
        return 0;
    struct bb_check_bytes_args args = {buf, bytes, value, verdict};
    bb_check_bytes_kernel<<<blocks_for(bytes), THREADS, 0, stream>>>(args);
    return BB_CUDA(cudaGetLastError());
}

int bb_verdict_clear(struct bb_verdict *verdict, cudaStream_t stream)
{
    bb_verdict_clear_kernel<<<1, 1, 0, stream>>>(verdict);
    return BB_CUDA(cudaGetLastError());
}
