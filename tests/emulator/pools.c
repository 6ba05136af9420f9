/*
 * pools.c - stream-ordered allocation, and hints about managed memory. Memory is allocated at the call, and freed when
 * its stream reaches the free. A pool is an id with attributes.
 */
#include "internal.h"
#include "names.h"
#include <stdlib.h>
#include <string.h>

struct CUmemPoolHandle_st {
    int device;
    bool own; /* created by the program */
    uint64_t threshold;
    int reuse[3];
};
static struct CUmemPoolHandle_st default_pools[EMU_MAX_DEVICES];
static cudaMemPool_t chosen_pools[EMU_MAX_DEVICES]; /* NULL: the default pool */

static cudaMemPool_t default_pool(int device)
{
    default_pools[device].device = device;
    return &default_pools[device];
}

static cudaError_t check_device(const char *function, int device, const void *out)
{
    cudaError_t rc = emu_enter(function);

    if (!rc && !out)
        rc = cudaErrorInvalidValue;
    if (!rc && (device < 0 || device >= emu.n_devices))
        rc = cudaErrorInvalidDevice;
    return emu_report(rc);
}

cudaError_t cudaDeviceGetDefaultMemPool(cudaMemPool_t *pool, int device)
{
    cudaError_t rc = check_device(__func__, device, pool);

    if (rc == cudaSuccess)
        *pool = default_pool(device);
    return rc;
}

cudaError_t cudaDeviceGetMemPool(cudaMemPool_t *pool, int device)
{
    cudaError_t rc = check_device(__func__, device, pool);

    if (rc == cudaSuccess)
        *pool = chosen_pools[device] ? chosen_pools[device] : default_pool(device);
    return rc;
}

cudaError_t cudaDeviceSetMemPool(int device, cudaMemPool_t pool)
{
    cudaError_t rc = check_device(__func__, device, pool);

    if (rc == cudaSuccess)
        chosen_pools[device] = pool;
    return rc;
}

cudaError_t cudaMemPoolCreate(cudaMemPool_t *pool, const struct cudaMemPoolProps *props)
{
    cudaError_t rc = check_device(__func__, props ? props->location.id : 0, pool);

    if (rc == cudaSuccess && (!props || props->location.type != cudaMemLocationTypeDevice))
        return emu_report(props ? cudaErrorNotSupported : cudaErrorInvalidValue);
    if (rc != cudaSuccess)
        return rc;
    *pool = calloc(1, sizeof(**pool));
    if (!*pool)
        return emu_report(cudaErrorMemoryAllocation);
    (*pool)->device = props->location.id;
    (*pool)->own = true;
    return cudaSuccess;
}

cudaError_t cudaMemPoolDestroy(cudaMemPool_t pool)
{
    if (!pool || !pool->own)
        return emu_report(cudaErrorInvalidValue);
    for (int d = 0; d < EMU_MAX_DEVICES; d++)
        if (chosen_pools[d] == pool)
            chosen_pools[d] = NULL;
    free(pool);
    return cudaSuccess;
}

cudaError_t cudaMemPoolTrimTo(cudaMemPool_t pool, size_t least)
{
    (void)least;
    return emu_report(pool ? emu_enter(__func__) : cudaErrorInvalidValue);
}

cudaError_t cudaMemPoolSetAccess(cudaMemPool_t pool, const struct cudaMemAccessDesc *access, size_t n)
{
    return emu_report(pool && (access || n == 0) ? emu_enter(__func__) : cudaErrorInvalidValue);
}

static uint64_t used_bytes(int device)
{
    uint64_t used;

    emu_lock();
    used = emu.devices[device].used_bytes;
    emu_unlock();
    return used;
}

cudaError_t cudaMemPoolSetAttribute(cudaMemPool_t pool, enum cudaMemPoolAttr id, void *value)
{
    cudaError_t rc = emu_enter(__func__);

    if (!rc && (!pool || !value))
        rc = cudaErrorInvalidValue;
    if (rc)
        return emu_report(rc);
    if (id == cudaMemPoolAttrReleaseThreshold)
        memcpy(&pool->threshold, value, sizeof(pool->threshold));
    else if (id >= cudaMemPoolReuseFollowEventDependencies && id <= cudaMemPoolReuseAllowInternalDependencies)
        memcpy(&pool->reuse[id - 1], value, sizeof(int));
    return cudaSuccess;
}

cudaError_t cudaMemPoolGetAttribute(cudaMemPool_t pool, enum cudaMemPoolAttr id, void *value)
{
    cudaError_t rc = emu_enter(__func__);
    uint64_t used;

    if (!rc && (!pool || !value))
        rc = cudaErrorInvalidValue;
    if (rc)
        return emu_report(rc);
    if (id <= cudaMemPoolReuseAllowInternalDependencies) {
        memcpy(value, &pool->reuse[id - 1], sizeof(int));
        return cudaSuccess;
    }
    used = id == cudaMemPoolAttrReleaseThreshold ? pool->threshold : used_bytes(pool->device);
    memcpy(value, &used, sizeof(used));
    return cudaSuccess;
}

/* ---- stream-ordered allocation ---- */

static cudaError_t allocate_on(const char *function, void **out, size_t bytes, int device, cudaStream_t stream)
{
    cudaError_t rc = emu_enter(function);

    if (!rc && !out)
        rc = cudaErrorInvalidValue;
    if (!rc && emu_stream_device(stream) < 0)
        rc = cudaErrorInvalidResourceHandle;
    if (!rc && emu_capturing(stream))
        rc = cudaErrorNotSupported; /* allocation nodes of graphs are not modelled */
    return emu_report(rc ? rc
                         : emu_alloc_device(out, bytes, device < 0 ? emu_stream_device(stream) : device, EMU_DEVICE));
}

cudaError_t cudaMallocAsync(void **out, size_t bytes, cudaStream_t stream)
{
    return allocate_on(__func__, out, bytes, -1, stream);
}

cudaError_t cudaMallocFromPoolAsync(void **out, size_t bytes, cudaMemPool_t pool, cudaStream_t stream)
{
    if (!pool)
        return emu_report(cudaErrorInvalidValue);
    return allocate_on(__func__, out, bytes, pool->device, stream);
}

static int64_t run_free(void *base, int64_t ready_ns)
{
    emu_free_block(base);
    return ready_ns;
}

cudaError_t cudaFreeAsync(void *base, cudaStream_t stream)
{
    cudaError_t rc = emu_enter(__func__);

    if (!rc && emu_capturing(stream))
        rc = cudaErrorNotSupported;
    if (!rc && base && (emu_space_of(base, NULL) != EMU_DEVICE || emu_block_bytes(base) == 0))
        rc = cudaErrorInvalidValue;
    if (rc || !base)
        return emu_report(rc);
    return emu_report(emu_enqueue(stream, &(struct emu_op){.name = "free", .run = run_free, .arg = base}));
}

/* ---- managed memory: hints without effect ---- */

int emu_memory_hint(const char *function, const void *pointer, size_t bytes)
{
    cudaError_t rc = emu_enter(function);

    if (!rc && (emu_space_of(pointer, NULL) != EMU_MANAGED || bytes == 0))
        rc = cudaErrorInvalidValue;
    return emu_report(rc);
}

#if CUDART_VERSION >= 13000
cudaError_t cudaMemPrefetchAsync(const void *pointer, size_t bytes, struct cudaMemLocation to, unsigned int flags,
                                 cudaStream_t stream)
{
    (void)to, (void)flags, (void)stream;
    return (cudaError_t)emu_memory_hint(__func__, pointer, bytes);
}

cudaError_t cudaMemAdvise(const void *pointer, size_t bytes, enum cudaMemoryAdvise advice, struct cudaMemLocation to)
{
    (void)advice, (void)to;
    return (cudaError_t)emu_memory_hint(__func__, pointer, bytes);
}
#else
cudaError_t cudaMemPrefetchAsync(const void *pointer, size_t bytes, int to, cudaStream_t stream)
{
    (void)to, (void)stream;
    return (cudaError_t)emu_memory_hint(__func__, pointer, bytes);
}

cudaError_t cudaMemAdvise(const void *pointer, size_t bytes, enum cudaMemoryAdvise advice, int to)
{
    (void)advice, (void)to;
    return (cudaError_t)emu_memory_hint(__func__, pointer, bytes);
}
#endif

cudaError_t cudaStreamAttachMemAsync(cudaStream_t stream, void *pointer, size_t bytes, unsigned int flags)
{
    (void)bytes, (void)flags, (void)stream;
    return (cudaError_t)emu_memory_hint(__func__, pointer, 1);
}
