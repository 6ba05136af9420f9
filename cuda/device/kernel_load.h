/*
 * kernel_load.h - loads kernels before their first launch. By default CUDA loads a kernel at its first launch, and may
 * then wait for running kernels. This can deadlock: on this rank a running NCCL receive waits for a peer, and the peer
 * has not sent yet, because its own kernel load waits in the same way. Reading the attributes of a kernel loads the
 * kernel.
 */
#ifndef BB_CUDA_DEVICE_KERNEL_LOAD_H
#define BB_CUDA_DEVICE_KERNEL_LOAD_H

#include "bootstrap/base/err.h"
#include "cuda/device/check.h"

#include <cuda_runtime_api.h>
#include <stddef.h>

/* bb_kernel_table_load - load functions[count] on the current GPU. The elements are the host addresses of kernels. */
static inline int bb_kernel_table_load(const void *const *functions, size_t count)
{
    struct cudaFuncAttributes attributes;
    int rc = 0;

    for (size_t i = 0; i < count && rc == 0; i++)
        rc = BB_CUDA(cudaFuncGetAttributes(&attributes, functions[i]));
    return rc;
}

#endif
