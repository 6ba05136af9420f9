/*
 * busy.cu - launches the timed kernel, a substitute for compute. Each thread block requests the maximum of shared
 * memory, so each SM runs one block. Each block polls the GPU clock, and reads and writes memory whenever its traffic
 * since its start is below the requested rate.
 */
#include "cuda/compute/busy_kernels.cuh"
#include "cuda/device/check.h"
#include "cuda/device/kernel_load.h"

/* ---- loading and launching ---- */

int bb_busy_load(void)
{
    static const void *const kernels[] = {
        (const void *)bb_busy_kernel,
        (const void *)bb_hold_kernel,
        (const void *)bb_busy_clear_kernel,
    };

    return bb_kernel_table_load(kernels, sizeof kernels / sizeof *kernels);
}

/* Returns the dynamic shared memory in bytes to request for each block: the GPU's maximum, so that an SM runs only
 * one block. If CUDA rejects the maximum, returns only what the kernel needs, and an SM may run several blocks. */
static int blocking_shared_bytes(const void *kernel, int device)
{
    int bytes;

    if (cudaDeviceGetAttribute(&bytes, cudaDevAttrMaxSharedMemoryPerBlockOptin, device) == cudaSuccess &&
        cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, bytes) == cudaSuccess)
        return bytes;
    (void)cudaGetLastError();
    return sizeof(int64_t);
}

int bb_busy_run(const struct bb_busy *busy, cudaStream_t stream)
{
    const uint64_t words = busy->scratch_bytes / sizeof(uint4), portion = BB_BUSY_THREADS * BB_BUSY_WORDS;
    const bool moves = busy->gbps > 0;
    int device, sms, rc;

    if (moves && (!busy->scratch || words < portion))
        return bb_err(BB_EUSAGE, "%g GB/s of memory traffic requires at least %zu bytes of scratch memory, not %zu",
                      busy->gbps, (size_t)portion * sizeof(uint4), busy->scratch_bytes);
    rc = BB_CUDA(cudaGetDevice(&device));
    if (rc == 0)
        rc = BB_CUDA(cudaDeviceGetAttribute(&sms, cudaDevAttrMultiProcessorCount, device));
    if (rc != 0)
        return rc;
    /* computed once, because the values are the same for every launch */
    static const int busy_shared = blocking_shared_bytes((const void *)bb_busy_kernel, device);
    static const int hold_shared = blocking_shared_bytes((const void *)bb_hold_kernel, device);
    const int blocks = busy->sms < 1 ? 1 : busy->sms > sms ? sms : busy->sms;
    const struct bb_busy_args args = {busy->ns, busy->gbps / blocks, busy->scratch, words, busy->report};
    if (moves)
        bb_busy_kernel<<<blocks, BB_BUSY_THREADS, busy_shared, stream>>>(args);
    else
        bb_hold_kernel<<<blocks, 32, hold_shared, stream>>>(args);
    return BB_CUDA(cudaGetLastError());
}

int bb_busy_report_clear(struct bb_busy_report *report, cudaStream_t stream)
{
    bb_busy_clear_kernel<<<1, 1, 0, stream>>>(report);
    return BB_CUDA(cudaGetLastError());
}
