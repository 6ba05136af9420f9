/*
 * device_kernels.cuh - collectives as kernels on NCCL's device API: all_reduce and alltoall over load and store accesses
 * to the memory of all ranks (LSA) and over the network (GIN), and all_reduce over multicast memory (multimem).
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

/* Memories at equal distances, such as those of the ranks of a node at one offset of the window. The n accesses begin
 * with memory `first`; memory 0 follows the last one. */
struct bb_peers {
    char *base;
    size_t stride;
    int ranks, first, n;
};

static __device__ struct bb_peers peers_at(const struct bb_device_args &a, size_t offset)
{
    char *base = static_cast<char *>(ncclGetLsaPointer(a.window, offset, 0));
    const struct bb_peers p = {base, (size_t)(static_cast<char *>(ncclGetLsaPointer(a.window, offset, 1)) - base),
                               a.comm.lsaSize, a.comm.lsaRank, a.comm.lsaSize};

    return p;
}

template <typename V> static __device__ V *at_peer(const struct bb_peers &p, int rank, size_t offset)
{
    return reinterpret_cast<V *>(p.base + (size_t)rank * p.stride + offset);
}

static __device__ int peer_of_access(const struct bb_peers &p, int i)
{
    return p.first + i < p.ranks ? p.first + i : p.first + i - p.ranks;
}

static __device__ size_t thread_of_rank()
{
    return (size_t)blockIdx.x * blockDim.x + threadIdx.x;
}

static __device__ size_t threads_of_rank()
{
    return (size_t)gridDim.x * blockDim.x;
}

/* Number of a thread among those that share elements, and number of these threads. */
struct bb_share {
    size_t thread, threads;
};

/* The threads of all ranks of the node share the elements. */
static __device__ struct bb_share share_of_team(const struct bb_device_args &a)
{
    const struct bb_share s = {(size_t)a.comm.lsaRank * threads_of_rank() + thread_of_rank(),
                               (size_t)a.comm.lsaSize * threads_of_rank()};

    return s;
}

/* Adds the packs of all memories at an offset and stores the sum. Each rank's thread begins with another rank, which
 * spreads the accesses over the links. */
template <typename T, int N>
static __device__ void reduce_pack(const struct bb_peers &send, const struct bb_peers &recv, size_t offset)
{
    typedef typename bb_sum_of<T>::type S;
    typedef struct bb_pack<T, N> V;
    V v = *at_peer<V>(send, send.first, offset);
    S sum[N];

    for (int k = 0; k < N; k++)
        sum[k] = static_cast<S>(v.at[k]);
#pragma unroll(N > 8 ? 2 : 8)
    for (int i = 1; i < send.n; i++) {
        const V other = *at_peer<V>(send, peer_of_access(send, i), offset);
        for (int k = 0; k < N; k++)
            sum[k] = static_cast<S>(sum[k] + static_cast<S>(other.at[k]));
    }
    for (int k = 0; k < N; k++)
        v.at[k] = static_cast<T>(sum[k]);
#pragma unroll(N > 8 ? 2 : 8)
    for (int i = 0; i < recv.n; i++)
        *at_peer<V>(recv, peer_of_access(recv, i), offset) = v;
}

/* Reduces `n` packs that begin at an offset from the memories. */
template <typename T, int N>
static __device__ void reduce_packs(const struct bb_peers &send, const struct bb_peers &recv,
                                    const struct bb_share &share, size_t offset, size_t n)
{
    for (size_t i = share.thread; i < n; i += share.threads)
        reduce_pack<T, N>(send, recv, offset + i * sizeof(struct bb_pack<T, N>));
}

template <typename T> static __device__ void multimem_packs(const struct bb_device_args &a, size_t offset, size_t n)
{
    const struct bb_share share = share_of_team(a);

    for (size_t i = share.thread; i < n; i += share.threads)
        bb_multimem_reduce<T>(a.comm, a.window, a.send + offset + 16 * i, a.recv + offset + 16 * i);
}

/* Bytes before the first address that is a multiple of 16; all bytes if no access can have 16 bytes, because the memories
 * are aligned differently or elements are to be accessed one by one. send, recv: addresses or offsets in the window. */
static __device__ size_t bytes_before_packs(const struct bb_device_args &a, size_t send, size_t recv, size_t bytes)
{
    const size_t before = (16 - send % 16) % 16;

    return a.element_wise || send % 16 != recv % 16 || before > bytes ? bytes : before;
}

template <typename T, bool MULTIMEM>
static __device__ void reduce_bytes(const struct bb_device_args &a, const struct bb_peers &send,
                                    const struct bb_peers &recv, const struct bb_share &share, size_t bytes)
{
    const size_t before = bytes_before_packs(a, (size_t)send.base, (size_t)recv.base, bytes),
                 packs = (bytes - before) / 16;

    reduce_packs<T, 1>(send, recv, share, 0, before / sizeof(T));
    if constexpr (MULTIMEM)
        multimem_packs<T>(a, before, packs);
    else
        reduce_packs<T, 16 / (int)sizeof(T)>(send, recv, share, before, packs);
    reduce_packs<T, 1>(send, recv, share, before + 16 * packs, (bytes - before) % 16 / sizeof(T));
}

template <typename T, bool MULTIMEM> static __device__ void reduce_elements(const struct bb_device_args &a)
{
    reduce_bytes<T, MULTIMEM>(a, peers_at(a, a.send), peers_at(a, a.recv), share_of_team(a), a.count * sizeof(T));
}

static __device__ void meet(const struct bb_device_args &a, bool multimem)
{
    ncclLsaBarrierSession<ncclCoopCta> barrier(ncclCoopCta(), a.comm, ncclTeamTagLsa(), blockIdx.x, multimem);

    barrier.sync(ncclCoopCta(), cuda::memory_order_acq_rel);
}

/* Calls f with a value of the type in which elements of a.dtype are added. With MULTIMEM: only types that multicast memory
 * adds. */
template <bool MULTIMEM, typename F> static __device__ void with_type(const struct bb_device_args &a, const F &f)
{
    switch (a.dtype) {
    case BB_INT32:
    case BB_UINT32:
        f(uint32_t());
        break;
    case BB_INT64:
    case BB_UINT64:
        f(uint64_t());
        break;
    case BB_HALF:
        f(__half());
        break;
    case BB_FLOAT:
        f(float());
        break;
    case BB_DOUBLE:
        f(double());
        break;
    case BB_BFLOAT16:
        f(__nv_bfloat16());
        break;
    default:
        if constexpr (!MULTIMEM) {
            if (a.dtype == BB_INT8 || a.dtype == BB_UINT8)
                f(uint8_t());
            else if (a.dtype == BB_F8E4M3)
                f(__nv_fp8_e4m3());
            else if (a.dtype == BB_F8E5M2)
                f(__nv_fp8_e5m2());
        }
    }
}

extern "C" __global__ void __launch_bounds__(BB_DEVICE_THREADS)
    bb_lsa_all_reduce_kernel(const __grid_constant__ struct bb_device_args a)
{
    meet(a, false);
    with_type<false>(a, [&](auto zero) { reduce_elements<decltype(zero), false>(a); });
    meet(a, false);
}

extern "C" __global__ void __launch_bounds__(BB_DEVICE_THREADS)
    bb_multimem_all_reduce_kernel(const __grid_constant__ struct bb_device_args a)
{
    meet(a, BB_MULTIMEM_BARRIER);
    with_type<true>(a, [&](auto zero) { reduce_elements<decltype(zero), true>(a); });
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
    const size_t bytes = a.count * sizeof(T),
                 before = bytes % 16 != 0 ? bytes : bytes_before_packs(a, a.send, a.recv, bytes),
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
/* The kernels of GIN have launch bounds of one CTA per SM: with two, NCCL's functions for the network spill registers. */

/* The entry barrier of GIN kernels over all ranks; with a.hybrid the ranks of a node meet first. */
static __device__ void enter(const struct bb_device_args &a, const ncclGin &gin)
{
    if (a.hybrid) {
        ncclBarrierSession<ncclCoopCta> barrier(ncclCoopCta(), ncclTeamTagWorld(), gin, blockIdx.x);

        barrier.sync(ncclCoopCta(), cuda::memory_order_acq_rel, ncclGinFenceLevel::None);
    } else {
        ncclGinBarrierSession<ncclCoopCta> barrier(ncclCoopCta(), gin, ncclTeamTagWorld(), blockIdx.x);

        barrier.sync(ncclCoopCta(), cuda::memory_order_acq_rel, ncclGinFenceLevel::None);
    }
}

/* Waits until the network has read the sources of all puts and, with a.hybrid, for the stores of the node's ranks. */
static __device__ void leave(const struct bb_device_args &a, const ncclGin &gin)
{
    gin.flush(ncclCoopCta());
    if (a.hybrid) {
        ncclBarrierSession<ncclCoopCta> barrier(ncclCoopCta(), ncclTeamTagWorld(), gin, blockIdx.x);

        barrier.lsaBarrier().sync(ncclCoopCta(), cuda::memory_order_acq_rel);
    }
}

/* Whether GIN carries the slice between this rank and another one: with a.hybrid only to other nodes. */
static __device__ bool is_over_gin(const struct bb_device_args &a, int rank)
{
    const int of_node = rank - a.comm.rank + a.comm.lsaRank;

    return !a.hybrid || of_node < 0 || of_node >= a.comm.lsaSize;
}

/* This CTA exchanges slices with the ranks at distances blockIdx.x, blockIdx.x + gridDim.x, ... after and before this
 * rank. Puts the slices, and returns how many slices of other ranks come to this CTA. */
static __device__ uint64_t put_slices(const struct bb_device_args &a, const ncclGin &gin)
{
    const size_t slice = a.count * a.element_bytes;
    const int ranks = a.comm.nRanks, rank = a.comm.rank;
    uint64_t comes = 0;

    for (int i = blockIdx.x; i < ranks; i += gridDim.x) {
        const int to = (rank + i) % ranks, from = (rank - i + ranks) % ranks;

        comes += is_over_gin(a, from);
        if (is_over_gin(a, to) && i / gridDim.x % blockDim.x == threadIdx.x)
            gin.put(ncclTeamWorld(a.comm), to, a.window, a.recv + (size_t)rank * slice, a.window,
                    a.send + (size_t)to * slice, slice, ncclGin_WeakSignalInc{blockIdx.x});
    }
    return comes;
}

/* Signals only grow, so a kernel reads them before the entry barrier and waits for this number and what comes after it. */
extern "C" __global__ void __launch_bounds__(BB_DEVICE_THREADS, 1)
    bb_gin_alltoall_kernel(const __grid_constant__ struct bb_device_args a)
{
    const ncclGin gin(a.comm, blockIdx.x % a.comm.ginContextCount);
    const uint64_t before = gin.readSignal(blockIdx.x);

    enter(a, gin);
    const uint64_t comes = put_slices(a, gin);
    if (a.hybrid)
        copy_all_slices(a);
    gin.waitSignal(ncclCoopCta(), blockIdx.x, before + comes);
    leave(a, gin);
}

/* ---- all_reduce over GIN ---- */

/*
 * Each CTA reduces a part of the elements on its own: reduce_scatter within the node, reduce_scatter and all_gather
 * between the ranks of the nodes that have this rank's index (rail), and all_gather within the node. Without a.hybrid
 * every rank is a node. The part of a CTA has a piece for each rank: piece(local, node) is reduced on rank `local` of the
 * node. Partial sums of the other nodes arrive in slots of the scratch memory, finished pieces in the receive buffer.
 */
struct bb_rail {
    ncclTeam nodes;
    int local, locals;   /* this rank in its node, and number of ranks of a node */
    size_t bytes, piece; /* size of the buffer, and of a piece; the last pieces are shorter or empty */
};

static __device__ struct bb_rail rail_of(const struct bb_device_args &a)
{
    struct bb_rail r = {a.hybrid ? ncclTeamRail(a.comm) : ncclTeamWorld(a.comm), a.hybrid ? a.comm.lsaRank : 0,
                        a.hybrid ? a.comm.lsaSize : 1, a.count * a.element_bytes, 0};
    const size_t pieces = (size_t)gridDim.x * a.comm.nRanks;

    r.piece = ((r.bytes + pieces - 1) / pieces + 15) / 16 * 16;
    return r;
}

/* Offset in the buffer of this rank's piece that `node` reduces, and its size. */
static __device__ size_t piece_begin(const struct bb_rail &r, int node)
{
    return (((size_t)blockIdx.x * r.locals + r.local) * r.nodes.nRanks + node) * r.piece;
}

static __device__ size_t piece_bytes(const struct bb_rail &r, int node)
{
    const size_t begin = piece_begin(r, node), left = begin < r.bytes ? r.bytes - begin : 0;

    return left < r.piece ? left : r.piece;
}

/* Slot of a node's partial sum, aligned as the receive buffer. */
static __device__ size_t slot_of(const struct bb_device_args &a, const struct bb_rail &r, int node)
{
    return a.scratch + a.recv % 16 + ((size_t)blockIdx.x * r.nodes.nRanks + node) * r.piece;
}

/* One memory of this rank. */
static __device__ struct bb_peers own_at(const struct bb_device_args &a, size_t offset)
{
    const struct bb_peers p = {static_cast<char *>(ncclGetLocalPointer(a.window, offset)), 0, 1, 0, 1};

    return p;
}

static __device__ struct bb_peers node_at(const struct bb_device_args &a, size_t offset)
{
    return a.hybrid ? peers_at(a, offset) : own_at(a, offset);
}

/* The threads of the CTA copy or, if `from` has several memories, add. */
template <typename T>
static __device__ void reduce_piece(const struct bb_device_args &a, const struct bb_peers &from,
                                    const struct bb_peers &to, size_t bytes)
{
    const struct bb_share share = {threadIdx.x, blockDim.x};

    reduce_bytes<T, false>(a, from, to, share, bytes);
}

/* Adds the pieces of the node's ranks. Those of other nodes go to the receive buffer, from where they are put; that node's
 * finished piece, which overwrites them, comes after they have arrived. Without a.hybrid they are in the send buffer. */
template <typename T> static __device__ void reduce_in_node(const struct bb_device_args &a, const struct bb_rail &r)
{
    for (int i = 0; i < (a.hybrid ? r.nodes.nRanks : 1); i++) {
        const int node = (r.nodes.rank + i) % r.nodes.nRanks;
        const size_t at = piece_begin(r, node);

        reduce_piece<T>(a, node_at(a, a.send + at), own_at(a, i > 0 ? a.recv + at : slot_of(a, r, node)),
                        piece_bytes(r, node));
    }
}

/* Puts a piece to each other node: the partial sum for the slot there, or this rank's finished piece. */
static __device__ void put_pieces(const struct bb_device_args &a, const struct bb_rail &r, const ncclGin &gin,
                                  bool finished, ncclGinSignal_t signal)
{
    const size_t done = a.recv + piece_begin(r, r.nodes.rank);

    __syncthreads();
    for (int i = 1 + (int)threadIdx.x; i < r.nodes.nRanks; i += (int)blockDim.x) {
        const int node = (r.nodes.rank + i) % r.nodes.nRanks;

        gin.put(r.nodes, node, a.window, finished ? done : slot_of(a, r, r.nodes.rank), a.window,
                finished ? done : (a.hybrid ? a.recv : a.send) + piece_begin(r, node),
                piece_bytes(r, finished ? r.nodes.rank : node), ncclGin_WeakSignalInc{signal});
    }
}

template <typename T> static __device__ void reduce_slots(const struct bb_device_args &a, const struct bb_rail &r)
{
    struct bb_peers slots = own_at(a, slot_of(a, r, 0));

    slots.stride = r.piece;
    slots.first = r.nodes.rank;
    slots.ranks = slots.n = r.nodes.nRanks;
    reduce_piece<T>(a, slots, node_at(a, a.recv + piece_begin(r, r.nodes.rank)), piece_bytes(r, r.nodes.rank));
}

/* Copies the pieces that other nodes have finished to the other ranks of the node. */
template <typename T> static __device__ void spread_in_node(const struct bb_device_args &a, const struct bb_rail &r)
{
    for (int i = 1; i < r.nodes.nRanks && r.locals > 1; i++) {
        const int node = (r.nodes.rank + i) % r.nodes.nRanks;
        struct bb_peers others = peers_at(a, a.recv + piece_begin(r, node));

        others.first = (r.local + 1) % r.locals;
        others.n = r.locals - 1;
        reduce_piece<T>(a, own_at(a, a.recv + piece_begin(r, node)), others, piece_bytes(r, node));
    }
}

/* Partial sums and finished pieces have signals of their own, because a node's finished piece may come before another
 * node's partial sum. */
extern "C" __global__ void __launch_bounds__(BB_DEVICE_THREADS, 1)
    bb_gin_all_reduce_kernel(const __grid_constant__ struct bb_device_args a)
{
    const ncclGin gin(a.comm, blockIdx.x % a.comm.ginContextCount);
    const uint64_t partial = gin.readSignal(blockIdx.x), finished = gin.readSignal(gridDim.x + blockIdx.x);
    const struct bb_rail r = rail_of(a);
    const uint64_t others = (uint64_t)(r.nodes.nRanks - 1);

    enter(a, gin);
    with_type<false>(a, [&](auto zero) { reduce_in_node<decltype(zero)>(a, r); });
    put_pieces(a, r, gin, false, blockIdx.x);
    gin.waitSignal(ncclCoopCta(), blockIdx.x, partial + others);
    with_type<false>(a, [&](auto zero) { reduce_slots<decltype(zero)>(a, r); });
    put_pieces(a, r, gin, true, gridDim.x + blockIdx.x);
    gin.waitSignal(ncclCoopCta(), gridDim.x + blockIdx.x, finished + others);
    with_type<false>(a, [&](auto zero) { spread_in_node<decltype(zero)>(a, r); });
    leave(a, gin);
}
#endif

#endif
