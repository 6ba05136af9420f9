/*
 * kernel_load.h - loading of kernels ahead of their first launch. CUDA loads a kernel when it is first used, and may wait
 * there for the kernels that run on the GPU: in the middle of a step that is a deadlock as soon as one of them, a
 * receive of NCCL, waits for a peer that is held up in the same way. Asking for a kernel's attributes loads it.
 */
#ifndef BB_CUDA_DEVICE_KERNEL_LOAD_H
#define BB_CUDA_DEVICE_KERNEL_LOAD_H

#include "bootstrap/base/err.h"
#include "cuda/device/check.h"

#include <cuda_runtime_api.h>
#include <stddef.h>

/* bb_kernel_table_load - loads each of functions[count], the host addresses of kernels, on the current GPU. */
static inline int bb_kernel_table_load(const void *const *functions, size_t count)
{
    struct cudaFuncAttributes attributes;
    int rc = 0;

    for (size_t i = 0; i < count && rc == 0; i++)
        rc = BB_CUDA(cudaFuncGetAttributes(&attributes, functions[i]));
    return rc;
}

#endif
