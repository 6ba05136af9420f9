/*
 * host_nccl_device.h - NCCL's own device headers, compiled for the CPU, for kernels that use windows, LSA barriers and GIN.
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

template <typename T> static inline T min(T a, T b)
{
    return a < b ? a : b;
}

static inline void __stwt(uint4 *p, const uint4 &x)
{
    for (int i = 0; i < 2; i++)
        __atomic_store_n(reinterpret_cast<uint64_t *>(p) + i, reinterpret_cast<const uint64_t *>(&x)[i],
                         __ATOMIC_SEQ_CST);
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
#pragma GCC diagnostic ignored "-Wmissing-field-initializers"
#include <nccl_device/impl/comm__funcs.h>
#include <nccl_device/impl/core__funcs.h>
#include <nccl_device/impl/lsa_barrier__funcs.h>
#include <nccl_device/impl/ptr__funcs.h>
#if NCCL_VERSION_CODE >= 23007
#include <nccl_device/impl/gin__funcs.h>

#include <nccl_device/impl/barrier__funcs.h>
#include <nccl_device/impl/gin_barrier__funcs.h>
#endif
#pragma GCC diagnostic pop
#endif

#endif
