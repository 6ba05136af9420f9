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
    a.window = window;
    reduce_pack<T, 16 / (int)sizeof(T)>(peers_at(a, from), peers_at(a, to), comm.lsaRank, comm.lsaSize, 0);
}

template <void (*K)(struct bb_device_args)> static void run(struct emu_launch *l, const char *name)
{
    struct host_gpu_launch h = {};

    h.name = name;
    h.grid = l->grid;
    h.block = l->block;
    h.body = host_gpu_thread<struct bb_device_args, K>;
    h.args = l->args[0];
    h.start_ns = l->start_ns;
    h.lasts_ns = l->end_ns - l->start_ns;
    h.is_stopping = emu_stopping;
    (void)host_gpu_run(&h);
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
/* A barrier and the last message over the network; each rank sends a slice to each other rank. */
static double gin_alltoall_ns(const struct emu_launch *l, const struct emu_profile *p)
{
    const struct bb_link *link = &emu_machine()->inter;
    const int others = EMU_ARG(l, 0, struct bb_device_args).comm.nRanks - 1;

    return 1e3 * (p->kernel_us + 2 * link->latency_us) + bytes_of(l, others) / link->gbps;
}

/* In addition two barriers within the node, whose slices are faster than those of the network. */
static double hybrid_alltoall_ns(const struct emu_launch *l, const struct emu_profile *p)
{
    const struct bb_cluster *m = emu_machine();
    const ncclDevComm *comm = &EMU_ARG(l, 0, struct bb_device_args).comm;

    return 1e3 * (p->kernel_us + 2 * m->intra.latency_us + 2 * m->inter.latency_us) +
           fmax(bytes_of(l, comm->nRanks - comm->lsaSize) / m->inter.gbps,
                bytes_of(l, comm->lsaSize - 1) / m->intra.gbps);
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
        TWIN(bb_gin_alltoall_kernel, gin_alltoall_ns),
        TWIN(bb_hybrid_alltoall_kernel, hybrid_alltoall_ns),
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
