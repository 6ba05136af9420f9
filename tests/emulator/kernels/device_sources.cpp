/*
 * device_sources.cpp - busbar's kernels on NCCL's device API, from their own source, for the emulated GPUs. The ranks'
 * kernels really meet: their windows are shared memory.
 */
#include "host_nccl_device.h"

#include "twins.h"

#ifdef HOST_NCCL_DEVICE
#include "proxies/simulation/machine/cluster.h"

/* NCCL's barrier by multicast is empty on the CPU, so the kernels use the other one. */
#define BB_MULTIMEM_BARRIER false
template <typename T> void bb_multimem_reduce(const ncclDevComm &comm, ncclWindow_t window, size_t from, size_t to);
#include "collectives/ops/device_kernels.cuh"

#include <stdio.h>
#include <stdlib.h>

/* Multicast memory cannot be accessed on the CPU: the sum comes from the memory of each rank. */
template <typename T> void bb_multimem_reduce(const ncclDevComm &comm, ncclWindow_t window, size_t from, size_t to)
{
    struct bb_device_args a = {};

    if (!comm.lsaMultimem.mcBasePtr) {
        fprintf(stderr, "emulated GPUs: a kernel uses multicast memory, which its communicator does not have\n");
        abort();
    }
    a.comm.lsaRank = comm.lsaRank;
    a.comm.lsaSize = comm.lsaSize;
    a.window = window;
    reduce_pack<T, 16 / (int)sizeof(T)>(peers_at(a, from), peers_at(a, to), 0);
}

/* Begin of a rank's resource buffer (EN_KERNEL_BYTES): number of launches, and times at which the last two of them began.
 * A rank begins a launch only when all ranks have read the times of the launch before the last one. */
struct rank_times {
    uint64_t launches;
    int64_t begin_ns[2];
};

static struct rank_times *times_of(const ncclDevComm &comm, int rank)
{
    const ptrdiff_t stride = (ptrdiff_t)comm.resourceWindow_inlined.stride4G << 32;

    return reinterpret_cast<struct rank_times *>(static_cast<char *>(comm.resourceWindow_inlined.lsaFlatBase) +
                                                 (rank - comm.rank + comm.lsaRank) * stride);
}

/* The kernels of all ranks meet, so the time of each begins when the last one begins. */
template <void (*K)(struct bb_device_args)> static void run(struct emu_launch *l, const char *name)
{
    const ncclDevComm &comm = EMU_ARG(l, 0, struct bb_device_args).comm;
    struct rank_times *own = times_of(comm, comm.rank);
    const unsigned slot = own->launches++ % 2;
    struct host_gpu_launch h = {};
    int64_t last_ns = l->start_ns;

    h.name = name;
    h.grid = l->grid;
    h.block = l->block;
    h.body = host_gpu_thread<struct bb_device_args, K>;
    h.args = l->args[0];
    h.start_ns = l->start_ns;
    h.lasts_ns = l->end_ns - l->start_ns;
    h.is_stopping = emu_stopping;
    __atomic_store_n(&own->begin_ns[slot], l->start_ns, __ATOMIC_SEQ_CST);
    (void)host_gpu_run(&h);
    for (int r = 0; r < comm.nRanks; r++) {
        const int64_t begin_ns = __atomic_load_n(&times_of(comm, r)->begin_ns[slot], __ATOMIC_SEQ_CST);
        last_ns = begin_ns > last_ns ? begin_ns : last_ns;
    }
    l->end_ns += last_ns - l->start_ns;
}

/* A kernel, two barriers of one latency each, and the bytes that a GPU sends. */
static double lasts_ns(const struct emu_profile *p, double bytes)
{
    const struct bb_link *link = &emu_machine()->intra;

    return 1e3 * (p->kernel_us + 2 * link->latency_us) + bytes / link->gbps;
}

static double bytes_of(const struct emu_launch *l, double buffers)
{
    const struct bb_device_args *a = &EMU_ARG(l, 0, struct bb_device_args);

    return buffers * (double)a->count * a->element_bytes;
}

static double other_ranks(const struct emu_launch *l)
{
    return EMU_ARG(l, 0, struct bb_device_args).comm.lsaSize - 1;
}

/* Each rank loads its part from the other ranks and stores it to them. */
static double lsa_all_reduce_ns(const struct emu_launch *l, const struct emu_profile *p)
{
    return lasts_ns(p, bytes_of(l, 2 * other_ranks(l) / (other_ranks(l) + 1)));
}

/* The switch loads each part from all ranks and stores it to all ranks; each rank stores its part to the switch. */
static double multimem_all_reduce_ns(const struct emu_launch *l, const struct emu_profile *p)
{
    return lasts_ns(p, bytes_of(l, 1 + 1 / (other_ranks(l) + 1)));
}

static double lsa_alltoall_ns(const struct emu_launch *l, const struct emu_profile *p)
{
    return lasts_ns(p, bytes_of(l, other_ranks(l)));
}

#if BB_DEVICE_HAS_GIN
/* The rank or, with load and store accesses within the node, the node is an end of the network. */
static double nodes_of(const ncclDevComm *comm, bool hybrid)
{
    return hybrid ? comm->nRanks / comm->lsaSize : comm->nRanks;
}

/* A kernel, messages over the network, and two barriers within the node. */
static double gin_ns(const struct bb_device_args *a, const struct emu_profile *p, int messages)
{
    const struct bb_cluster *m = emu_machine();

    return 1e3 * (p->kernel_us + messages * m->inter.latency_us + (a->hybrid ? 2 * m->intra.latency_us : 0));
}

/* A barrier and the last message; each rank sends a slice to each other rank, within the node over its faster links. */
static double gin_alltoall_ns(const struct emu_launch *l, const struct emu_profile *p)
{
    const struct bb_device_args *a = &EMU_ARG(l, 0, struct bb_device_args);
    const int in_node = a->hybrid ? a->comm.lsaSize : 1;

    return gin_ns(a, p, 2) + fmax(bytes_of(l, a->comm.nRanks - in_node) / emu_machine()->inter.gbps,
                                  bytes_of(l, in_node - 1) / emu_machine()->intra.gbps);
}

/* A barrier and the messages of reduce_scatter and all_gather between nodes, where each rank has its part of the node's
 * elements; reduce_scatter before and all_gather after them within the node. */
static double gin_all_reduce_ns(const struct emu_launch *l, const struct emu_profile *p)
{
    const struct bb_device_args *a = &EMU_ARG(l, 0, struct bb_device_args);
    const double nodes = nodes_of(&a->comm, a->hybrid), locals = a->comm.nRanks / nodes;

    return gin_ns(a, p, 3) + bytes_of(l, 2 * (nodes - 1) / nodes / locals) / emu_machine()->inter.gbps +
           bytes_of(l, 2 * (locals - 1) / locals) / emu_machine()->intra.gbps;
}
#endif

#define TWIN(name, ns)                                                                                                 \
    {                                                                                                                  \
#name, 1, {sizeof(struct bb_device_args) }, [](struct emu_launch * l) { run<name>(l, #name); }, ns, false,     \
                                                                                                     false, false      \
    }
const struct emu_twin *device_twins(size_t *n)
{
    static const struct emu_twin twins[] = {
        TWIN(bb_lsa_all_reduce_kernel, lsa_all_reduce_ns),
        TWIN(bb_multimem_all_reduce_kernel, multimem_all_reduce_ns),
        TWIN(bb_lsa_alltoall_kernel, lsa_alltoall_ns),
#if BB_DEVICE_HAS_GIN
        TWIN(bb_gin_all_reduce_kernel, gin_all_reduce_ns),
        TWIN(bb_gin_alltoall_kernel, gin_alltoall_ns),
#endif
    };

    *n = sizeof twins / sizeof *twins;
    return twins;
}
#else
const struct emu_twin *device_twins(size_t *n)
{
    *n = 0;
    return NULL;
}
#endif
