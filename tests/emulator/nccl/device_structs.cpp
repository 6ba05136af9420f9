/* device_structs.cpp - see device_structs.h. */
#include "device_structs.h"

#include <cuda_runtime_api.h>
#include <nccl.h>
#include <stdlib.h>
#include <string.h>

#if NCCL_VERSION_CODE >= 22809 && NCCL_VERSION_CODE < 23300 && __has_include(<nccl_device.h>)
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wunused-function"
#include <nccl_device.h>
#pragma GCC diagnostic pop

bool en_has_device_structs()
{
    return true;
}

void *en_new_window(const struct en_lsa *lsa, void *owner)
{
    struct ncclWindow_vidmem *w = static_cast<struct ncclWindow_vidmem *>(calloc(1, sizeof *w));

    if (!w)
        return NULL;
    w->winHost = owner;
    w->lsaFlatBase = lsa->flat;
    w->lsaRank = lsa->rank;
    w->worldRank = lsa->world_rank;
    w->stride4G = lsa->stride_4g;
    w->mcOffset4K = lsa->multicast_4k;
#if NCCL_VERSION_CODE >= 23100
    w->numSegments = 1;
    w->ginWinsDefaultBackend[0] = const_cast<struct en_gin_memory *>(&lsa->gin);
#elif NCCL_VERSION_CODE >= 23007
    w->numSegments = 1;
    w->ginWins[0] = const_cast<struct en_gin_memory *>(&lsa->gin);
#endif
    return w;
}

void *en_window_owner(void *window)
{
    return static_cast<struct ncclWindow_vidmem *>(window)->winHost;
}

/* Since 2.29 the struct contains its size and the version of the program's header. */
bool en_read_requirements(const void *requirements, struct en_requirements *out)
{
    const struct ncclDevCommRequirements *r = static_cast<const struct ncclDevCommRequirements *>(requirements);
    const int more = r->barrierCount > r->lsaBarrierCount ? r->barrierCount : r->lsaBarrierCount;

#if NCCL_VERSION_CODE >= 22900
    if (r->size != sizeof *r || r->version / 100 != NCCL_VERSION_CODE / 100)
        return false;
#endif
    *out = (struct en_requirements){};
    out->barriers = more;
    out->multimem = r->lsaMultimem;
    out->signals = r->ginSignalCount;
    out->hybrid_barriers = r->barrierCount;
#if NCCL_VERSION_CODE >= 23007
    out->gin = r->ginConnectionType != NCCL_GIN_CONNECTION_NONE;
    out->world_barriers = r->worldGinBarrierCount;
    if (r->ginConnectionType == NCCL_GIN_CONNECTION_RAIL || r->ginCounterCount > 0 || r->railGinBarrierCount > 0 ||
        (!out->gin && r->ginSignalCount + r->worldGinBarrierCount > 0))
        out->unsupported = "GIN with rails, with counters, or without connections";
#else
    if (r->ginForceEnable || r->ginSignalCount > 0 || r->ginCounterCount > 0 || r->railGinBarrierCount > 0)
        out->unsupported = "GIN";
#endif

    if (r->resourceRequirementsList || r->teamRequirementsList || r->lsaLLA2ABlockCount > 0)
        out->unsupported = "resources other than barriers";
    return true;
}

/* As ncclLsaBarrierSession uses it: 2 epochs and an inbox per barrier for multicast and others, and an inbox per rank. */
size_t en_barrier_bytes(int barriers, int ranks)
{
    return EN_KERNEL_BYTES + sizeof(uint32_t) * (size_t)barriers * (size_t)(3 + ranks);
}

void en_write_device_comm(void *out, const struct en_lsa *lsa, void *window, int barriers, void *multicast,
                          uint32_t *abort_flag)
{
    struct ncclDevComm *c = static_cast<struct ncclDevComm *>(out);

    memset(c, 0, sizeof *c);
#if NCCL_VERSION_CODE >= 22900
    c->magic = NCCL_API_MAGIC;
    c->version = NCCL_VERSION_CODE;
#endif
#if NCCL_VERSION_CODE >= 23000
    c->abortFlag = abort_flag;
#else
    (void)abort_flag;
#endif
    c->rank = lsa->world_rank;
    c->nRanks = lsa->world_ranks;
    c->nRanks_rcp32 = nccl::utility::idivRcp32((uint32_t)lsa->world_ranks);
    c->lsaRank = lsa->rank;
    c->lsaSize = lsa->ranks;
    c->lsaSize_rcp32 = nccl::utility::idivRcp32((uint32_t)lsa->ranks);
    c->resourceWindow = static_cast<ncclWindow_t>(window);
    c->resourceWindow_inlined.lsaFlatBase = lsa->flat;
    c->resourceWindow_inlined.stride4G = lsa->stride_4g;
    c->resourceWindow_inlined.mcOffset4K = lsa->multicast_4k;
    c->lsaMultimem.mcBasePtr = multicast;
    c->lsaBarrier.nBarriers = barriers;
    c->lsaBarrier.bufHandle = EN_KERNEL_BYTES / 128; /* NCCL's unit */
#if NCCL_VERSION_CODE >= 23007
    c->hybridLsaBarrier = c->lsaBarrier; /* programs use only one of them */
#endif
}

void *en_device_comm_window(const void *device_comm)
{
    return static_cast<const struct ncclDevComm *>(device_comm)->resourceWindow;
}
#else
bool en_has_device_structs()
{
    return false;
}

void *en_new_window(const struct en_lsa *, void *)
{
    return NULL;
}

void *en_window_owner(void *)
{
    return NULL;
}

bool en_read_requirements(const void *, struct en_requirements *)
{
    return false;
}

size_t en_barrier_bytes(int, int)
{
    return 0;
}

void en_write_device_comm(void *, const struct en_lsa *, void *, int, void *, uint32_t *)
{
}

void *en_device_comm_window(const void *)
{
    return NULL;
}
#endif
