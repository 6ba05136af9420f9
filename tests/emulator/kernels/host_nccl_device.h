/*
 * host_nccl_device.h - NCCL's own device headers, compiled for the CPU, for kernels that use LSA barriers and windows.
 * Include it instead of nccl_device.h and before the kernels. device_api/ contains the headers of CUDA's C++ library
 * that NCCL includes. Defines HOST_NCCL_DEVICE for NCCL headers 2.28.9 to 2.32.
 */
#ifndef HOST_NCCL_DEVICE_H
#define HOST_NCCL_DEVICE_H

#include <cuda_runtime.h>

#include "host_gpu.h"

#include <nccl.h>

#if NCCL_VERSION_CODE >= 22809 && NCCL_VERSION_CODE < 23300 && __has_include(<nccl_device.h>)
#define HOST_NCCL_DEVICE

template <typename T> static inline T __ldg(const T *p)
{
    return *p;
}

static inline int __popc(unsigned x)
{
    return __builtin_popcount(x);
}

static inline int __ffs(int x)
{
    return __builtin_ffs(x);
}

/* NCCL's headers mention these functions. A kernel that uses one cannot be loaded. */
unsigned __activemask();
unsigned __fns(unsigned mask, unsigned base, int offset);
void __syncwarp(unsigned mask = ~0u);
void __barrier_sync_count(unsigned barrier, unsigned threads);
long long clock64();

/* Set after CUDA's own headers, which would not compile with it. */
#define __CUDACC__              1
#define NCCL_GIN_GDAKI_ENABLE   0
#define NCCL_GIN_EFA_GDA_ENABLE 0
#define NCCL_GIN_GPI_ENABLE     0
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wunused-parameter"
#include <nccl_device/impl/comm__funcs.h>
#include <nccl_device/impl/core__funcs.h>
#include <nccl_device/impl/lsa_barrier__funcs.h>
#include <nccl_device/impl/ptr__funcs.h>
#pragma GCC diagnostic pop
#endif

#endif
