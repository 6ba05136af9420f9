/* nccl_memory.c - see nccl_memory.h. */
#include "collectives/session/nccl_memory.h"

#include "bootstrap/base/units.h"
#include "bootstrap/world/comms.h"
#include "cuda/device/driver.h"

#include <string.h>

static int alloc_nccl(void **memory, size_t bytes)
{
    return BB_NCCL(ncclMemAlloc(memory, bytes));
}

static void free_nccl(void *memory)
{
    (void)ncclMemFree(memory);
}

/* Returns the device memory of an allocation: ncclMemAlloc rounds up to the allocation granularity and adds nothing
 * (NCCL allocator.cc). Before NCCL 2.26 it rounds up to the granularity of multicast objects, too (init.cc). If
 * ncclMemAlloc falls back to cudaMalloc, the allocation is slightly smaller. */
static size_t device_bytes_nccl(size_t bytes)
{
    const size_t granularity = bb_driver_granularity();
    size_t multicast = 0;
    int version = 0;

    if (ncclGetVersion(&version) == ncclSuccess && version < 22600)
        multicast = bb_driver_multicast_granularity();
    return bb_round_up(bytes, multicast > granularity ? multicast : granularity);
}

static const struct bb_allocator nccl_allocator = {"nccl", alloc_nccl, free_nccl, device_bytes_nccl};

const struct bb_allocator *bb_nccl_memory(const char *name)
{
    return name && strcmp(name, bb_cuda_allocator.name) == 0 ? &bb_cuda_allocator : &nccl_allocator;
}

int bb_nccl_memory_falls_back(const struct bb_allocator *from, bool *falls_back)
{
    void *memory = NULL;
    int rc = 0;

    *falls_back = false;
    if (from != &nccl_allocator)
        return 0;
    TRY(alloc_nccl(&memory, 1));
    *falls_back = !bb_driver_is_mapped(memory);
    rc = BB_NCCL(ncclMemFree(memory));
out:
    return rc;
}
