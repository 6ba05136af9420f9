/*
 * device_kernels.cuh - collectives as kernels on NCCL's device API: all_reduce and alltoall over load and store accesses
 * to the memory of all ranks (LSA), all_reduce over multicast memory (multimem), and alltoall over the network (GIN).
 * Only device_kernels.cu launches them. The GPU emulator compiles this same source and NCCL's headers for the CPU
 * (tests/emulator/kernels).
 *
 * CTA i of all ranks meets at the entry barrier i, after which all send buffers are valid and all receive buffers may be
 * overwritten, and at the exit barrier i, after which all stores are visible. Between the barriers each element has one
 * thread of one rank, which loads the element from every rank and stores the sum to every rank. Therefore all_reduce
 * can run in place.
 */
#ifndef BB_COLLECTIVES_OPS_DEVICE_KERNELS_CUH
#define BB_COLLECTIVES_OPS_DEVICE_KERNELS_CUH

#include "collectives/ops/device_args.h"
#include "collectives/ops/multimem.cuh"
#include "cuda/work/dtype.h"

#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cuda_fp8.h>

/* The type in which elements of type T are added: float for narrower floating-point types, as in NCCL. */
template <typename T> struct bb_sum_of {
    typedef float type;
};
#define BB_SUM_IN_OWN_TYPE(T)                                                                                          \
    template <> struct bb_sum_of<T> {                                                                                  \
        typedef T type;                                                                                                \
    }
BB_SUM_IN_OWN_TYPE(uint8_t);
BB_SUM_IN_OWN_TYPE(uint32_t);
BB_SUM_IN_OWN_TYPE(uint64_t);
BB_SUM_IN_OWN_TYPE(double);

/* N consecutive elements that one access loads or stores. */
template <typename T, int N> struct alignas(sizeof(T) * N) bb_pack {
    T at[N];
};

/* The memory of all ranks at one offset of the window: rank r's begins at base + r * stride. */
struct bb_peers {
    char *base;
    size_t stride;
};

static __device__ struct bb_peers peers_at(const struct bb_device_args &a, size_t offset)
{
    char *base = static_cast<char *>(ncclGetLsaPointer(a.window, offset, 0));
    const struct bb_peers p = {base, (size_t)(static_cast<char *>(ncclGetLsaPointer(a.window, offset, 1)) - base)};

    return p;
}

template <typename V> static __device__ V *at_peer(const struct bb_peers &p, int rank, size_t offset)
{
    return reinterpret_cast<V *>(p.base + (size_t)rank * p.stride + offset);
}

static __device__ size_t thread_of_rank()
{
    return (size_t)blockIdx.x * blockDim.x + threadIdx.x;
}

static __device__ size_t threads_of_rank()
{
    return (size_t)gridDim.x * blockDim.x;
}

/* The threads of all ranks share the elements: number of this thread, and number of threads. */
static __device__ size_t thread_of_team(const struct bb_device_args &a)
{
    return (size_t)a.comm.lsaRank * threads_of_rank() + thread_of_rank();
}

static __device__ size_t threads_of_team(const struct bb_device_args &a)
{
    return (size_t)a.comm.lsaSize * threads_of_rank();
}

/* Adds the packs of all ranks at an offset and stores the sum to all ranks. Each rank's thread begins with another
 * rank, which spreads the accesses over the links. */
template <typename T, int N>
static __device__ void reduce_pack(const struct bb_peers &send, const struct bb_peers &recv, int rank, int ranks,
                                   size_t offset)
{
    typedef typename bb_sum_of<T>::type S;
    typedef struct bb_pack<T, N> V;
    V v = *at_peer<V>(send, rank, offset);
    S sum[N];

    for (int k = 0; k < N; k++)
        sum[k] = static_cast<S>(v.at[k]);
#pragma unroll(N > 8 ? 2 : 8)
    for (int i = 1; i < ranks; i++) {
        const V other = *at_peer<V>(send, rank + i < ranks ? rank + i : rank + i - ranks, offset);
        for (int k = 0; k < N; k++)
            sum[k] = static_cast<S>(sum[k] + static_cast<S>(other.at[k]));
    }
    for (int k = 0; k < N; k++)
        v.at[k] = static_cast<T>(sum[k]);
#pragma unroll(N > 8 ? 2 : 8)
    for (int i = 0; i < ranks; i++)
        *at_peer<V>(recv, rank + i < ranks ? rank + i : rank + i - ranks, offset) = v;
}

/* Reduces `n` packs that begin at an offset from the buffers. */
template <typename T, int N>
static __device__ void reduce_packs(const struct bb_device_args &a, size_t offset, size_t n)
{
    const struct bb_peers send = peers_at(a, a.send), recv = peers_at(a, a.recv);

    for (size_t i = thread_of_team(a); i < n; i += threads_of_team(a))
        reduce_pack<T, N>(send, recv, a.comm.lsaRank, a.comm.lsaSize, offset + i * sizeof(struct bb_pack<T, N>));
}

template <typename T> static __device__ void multimem_packs(const struct bb_device_args &a, size_t offset, size_t n)
{
    for (size_t i = thread_of_team(a); i < n; i += threads_of_team(a))
        bb_multimem_reduce<T>(a.comm, a.window, a.send + offset + 16 * i, a.recv + offset + 16 * i);
}

/* Bytes before the first address that is a multiple of 16; all bytes if no access can have 16 bytes, because the
 * buffers are aligned differently or elements are to be accessed one by one. */
static __device__ size_t bytes_before_packs(const struct bb_device_args &a, size_t bytes)
{
    const size_t before = (16 - a.send % 16) % 16;

    return a.element_wise || a.send % 16 != a.recv % 16 || before > bytes ? bytes : before;
}

template <typename T, bool MULTIMEM> static __device__ void reduce_elements(const struct bb_device_args &a)
{
    const size_t bytes = a.count * sizeof(T), before = bytes_before_packs(a, bytes), packs = (bytes - before) / 16;

    reduce_packs<T, 1>(a, 0, before / sizeof(T));
    if constexpr (MULTIMEM)
        multimem_packs<T>(a, before, packs);
    else
        reduce_packs<T, 16 / (int)sizeof(T)>(a, before, packs);
    reduce_packs<T, 1>(a, before + 16 * packs, (bytes - before) % 16 / sizeof(T));
}

static __device__ void meet(const struct bb_device_args &a, bool multimem)
{
    ncclLsaBarrierSession<ncclCoopCta> barrier(ncclCoopCta(), a.comm, ncclTeamTagLsa(), blockIdx.x, multimem);

    barrier.sync(ncclCoopCta(), cuda::memory_order_acq_rel);
}

extern "C" __global__ void __launch_bounds__(BB_DEVICE_THREADS)
    bb_lsa_all_reduce_kernel(const __grid_constant__ struct bb_device_args a)
{
    meet(a, false);
    switch (a.dtype) {
    case BB_INT8:
    case BB_UINT8:
        reduce_elements<uint8_t, false>(a);
        break;
    case BB_INT32:
    case BB_UINT32:
        reduce_elements<uint32_t, false>(a);
        break;
    case BB_INT64:
    case BB_UINT64:
        reduce_elements<uint64_t, false>(a);
        break;
    case BB_HALF:
        reduce_elements<__half, false>(a);
        break;
    case BB_FLOAT:
        reduce_elements<float, false>(a);
        break;
    case BB_DOUBLE:
        reduce_elements<double, false>(a);
        break;
    case BB_BFLOAT16:
        reduce_elements<__nv_bfloat16, false>(a);
        break;
    case BB_F8E4M3:
        reduce_elements<__nv_fp8_e4m3, false>(a);
        break;
    case BB_F8E5M2:
        reduce_elements<__nv_fp8_e5m2, false>(a);
        break;
    default:
        break;
    }
    meet(a, false);
}

extern "C" __global__ void __launch_bounds__(BB_DEVICE_THREADS)
    bb_multimem_all_reduce_kernel(const __grid_constant__ struct bb_device_args a)
{
    meet(a, BB_MULTIMEM_BARRIER);
    switch (a.dtype) {
    case BB_INT32:
    case BB_UINT32:
        reduce_elements<uint32_t, true>(a);
        break;
    case BB_INT64:
    case BB_UINT64:
        reduce_elements<uint64_t, true>(a);
        break;
    case BB_HALF:
        reduce_elements<__half, true>(a);
        break;
    case BB_FLOAT:
        reduce_elements<float, true>(a);
        break;
    case BB_DOUBLE:
        reduce_elements<double, true>(a);
        break;
    case BB_BFLOAT16:
        reduce_elements<__nv_bfloat16, true>(a);
        break;
    default:
        break;
    }
    meet(a, BB_MULTIMEM_BARRIER);
}

/* Copies n values of type V from slice `to` of this rank's send buffer to slice `rank` of the receive buffer of rank
 * `to` of the node, both at an offset from the begin of the slice. */
template <typename V>
static __device__ void copy_to(const struct bb_device_args &a, const struct bb_peers &recv, int to, size_t offset,
                               size_t n)
{
    const size_t slice = a.count * a.element_bytes;
    const size_t first = (size_t)(a.comm.rank - a.comm.lsaRank);
    const V *from =
        static_cast<const V *>(ncclGetLocalPointer(a.window, a.send + (first + (size_t)to) * slice + offset));
    V *dest = at_peer<V>(recv, to, (size_t)a.comm.rank * slice + offset);

    for (size_t i = thread_of_rank(); i < n; i += threads_of_rank())
        dest[i] = from[i];
}

template <typename T> static __device__ void copy_slices(const struct bb_device_args &a)
{
    const size_t bytes = a.count * sizeof(T), before = bytes % 16 != 0 ? bytes : bytes_before_packs(a, bytes),
                 packs = (bytes - before) / 16;
    const struct bb_peers recv = peers_at(a, a.recv);

    for (int i = 0; i < a.comm.lsaSize; i++) {
        const int to = (a.comm.lsaRank + i) % a.comm.lsaSize;

        copy_to<T>(a, recv, to, 0, before / sizeof(T));
        copy_to<uint4>(a, recv, to, before, packs);
        copy_to<T>(a, recv, to, before + 16 * packs, (bytes - before) % 16 / sizeof(T));
    }
}

static __device__ void copy_all_slices(const struct bb_device_args &a)
{
    switch (a.element_bytes) {
    case 1:
        copy_slices<uint8_t>(a);
        break;
    case 2:
        copy_slices<uint16_t>(a);
        break;
    case 4:
        copy_slices<uint32_t>(a);
        break;
    case 8:
        copy_slices<uint64_t>(a);
        break;
    default:
        break;
    }
}

extern "C" __global__ void __launch_bounds__(BB_DEVICE_THREADS)
    bb_lsa_alltoall_kernel(const __grid_constant__ struct bb_device_args a)
{
    meet(a, false);
    copy_all_slices(a);
    meet(a, false);
}

#if BB_DEVICE_HAS_GIN
/* Whether GIN carries the slice between this rank and another one: with HYBRID only to other nodes. */
template <bool HYBRID> static __device__ bool is_over_gin(const struct bb_device_args &a, int rank)
{
    const int of_node = rank - a.comm.rank + a.comm.lsaRank;

    return !HYBRID || of_node < 0 || of_node >= a.comm.lsaSize;
}

/* This CTA exchanges slices with the ranks at distances blockIdx.x, blockIdx.x + gridDim.x, ... after and before this
 * rank. Puts the slices, and returns how many slices of other ranks come to this CTA. */
template <bool HYBRID> static __device__ uint64_t put_slices(const struct bb_device_args &a, const ncclGin &gin)
{
    const size_t slice = a.count * a.element_bytes;
    const int ranks = a.comm.nRanks, rank = a.comm.rank;
    uint64_t comes = 0;

    for (int i = blockIdx.x; i < ranks; i += gridDim.x) {
        const int to = (rank + i) % ranks, from = (rank - i + ranks) % ranks;

        comes += is_over_gin<HYBRID>(a, from);
        if (is_over_gin<HYBRID>(a, to) && i / gridDim.x % blockDim.x == threadIdx.x)
            gin.put(ncclTeamWorld(a.comm), to, a.window, a.recv + (size_t)rank * slice, a.window,
                    a.send + (size_t)to * slice, slice, ncclGin_WeakSignalInc{blockIdx.x});
    }
    return comes;
}

/* Waits for the slices, and until the network has read the send buffer. The signals only grow, so the wait is for their
 * number before the entry barrier and what comes after it. */
static __device__ void finish_slices(const ncclGin &gin, uint64_t before, uint64_t comes)
{
    gin.waitSignal(ncclCoopCta(), blockIdx.x, before + comes);
    gin.flush(ncclCoopCta());
}

extern "C" __global__ void __launch_bounds__(BB_DEVICE_THREADS)
    bb_gin_alltoall_kernel(const __grid_constant__ struct bb_device_args a)
{
    const ncclGin gin(a.comm, blockIdx.x % a.comm.ginContextCount);
    const uint64_t before = gin.readSignal(blockIdx.x);
    ncclGinBarrierSession<ncclCoopCta> barrier(ncclCoopCta(), gin, ncclTeamTagWorld(), blockIdx.x);

    barrier.sync(ncclCoopCta(), cuda::memory_order_acq_rel, ncclGinFenceLevel::None);
    finish_slices(gin, before, put_slices<false>(a, gin));
}

extern "C" __global__ void __launch_bounds__(BB_DEVICE_THREADS)
    bb_hybrid_alltoall_kernel(const __grid_constant__ struct bb_device_args a)
{
    const ncclGin gin(a.comm, blockIdx.x % a.comm.ginContextCount);
    const uint64_t before = gin.readSignal(blockIdx.x);
    ncclBarrierSession<ncclCoopCta> barrier(ncclCoopCta(), ncclTeamTagWorld(), gin, blockIdx.x);

    barrier.sync(ncclCoopCta(), cuda::memory_order_acq_rel, ncclGinFenceLevel::None);
    const uint64_t comes = put_slices<true>(a, gin);
    copy_all_slices(a);
    finish_slices(gin, before, comes);
    barrier.lsaBarrier().sync(ncclCoopCta(), cuda::memory_order_acq_rel);
}
#endif

#endif
