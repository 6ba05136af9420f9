/*
 * kernel_load.h - loads kernels before their first launch. CUDA loads a kernel lazily at its first use and may then
 * wait for running kernels. During a step this deadlocks if a running NCCL receive waits for a peer that is blocked in
 * the same way. Reading the attributes of a kernel loads it.
 */
#ifndef BB_CUDA_DEVICE_KERNEL_LOAD_H
#define BB_CUDA_DEVICE_KERNEL_LOAD_H

#include "bootstrap/base/err.h"
#include "cuda/device/check.h"

#include <cuda_runtime_api.h>
#include <stddef.h>

/* bb_kernel_table_load - load functions[count], the host addresses of kernels, on the current GPU. */
static inline int bb_kernel_table_load(const void *const *functions, size_t count)
{
    struct cudaFuncAttributes attributes;
    int rc = 0;

    for (size_t i = 0; i < count && rc == 0; i++)
        rc = BB_CUDA(cudaFuncGetAttributes(&attributes, functions[i]));
    return rc;
}

#endif
