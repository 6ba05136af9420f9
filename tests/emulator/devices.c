/*
 * devices.c - devices: the current device of a thread, properties, limits, peer access.
 */
#include "internal.h"
#include <cuda_profiler_api.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

static _Thread_local int current_device;

int emu_current_device(void)
{
    return current_device;
}

static cudaError_t device_ok(int device)
{
    return device >= 0 && device < emu.n_devices ? cudaSuccess : cudaErrorInvalidDevice;
}

cudaError_t cudaGetDeviceCount(int *count)
{
    cudaError_t rc;

    if (!count)
        return emu_report(cudaErrorInvalidValue);
    *count = 0;
    TRY(emu_enter_any(__func__));
    *count = emu.n_devices;
out:
    return emu_report(rc);
}

cudaError_t cudaSetDevice(int device)
{
    cudaError_t rc;

    TRY(emu_enter_any(__func__));
    TRY(device_ok(device));
    current_device = device;
out:
    return emu_report(rc);
}

cudaError_t cudaGetDevice(int *device)
{
    cudaError_t rc;

    TRY(emu_enter_any(__func__));
    if (device)
        *device = current_device;
    else
        rc = cudaErrorInvalidValue;
out:
    return emu_report(rc);
}

cudaError_t cudaInitDevice(int device, unsigned int device_flags, unsigned int flags)
{
    cudaError_t rc;

    (void)device_flags, (void)flags;
    TRY(emu_enter(__func__));
    rc = device_ok(device);
out:
    return emu_report(rc);
}

cudaError_t cudaSetValidDevices(int *devices, int n)
{
    cudaError_t rc;

    TRY(emu_enter(__func__));
    for (int i = 0; i < n; i++)
        TRY(device_ok(devices[i]));
out:
    return emu_report(rc);
}

cudaError_t cudaChooseDevice(int *device, const struct cudaDeviceProp *prop)
{
    cudaError_t rc;

    TRY(emu_enter(__func__));
    if (device && prop)
        *device = 0; /* all devices are equal */
    else
        rc = cudaErrorInvalidValue;
out:
    return emu_report(rc);
}

cudaError_t cudaDeviceSynchronize(void)
{
    cudaError_t rc;

    TRY(emu_enter(__func__));
    TRY(emu_capture_unsafe());
    emu_lock();
    rc = emu_drain_device_locked(current_device);
    emu_unlock();
out:
    return emu_report(rc);
}

/* Ends running work, frees the memory and clears a sticky error. Streams and events of the device stay usable, which
 * the runtime leaves undefined. */
cudaError_t cudaDeviceReset(void)
{
    cudaError_t rc;

    TRY(emu_enter_any(__func__));
    emu_lock();
    emu_drain_device_locked(current_device);
    emu.devices[current_device].sticky = cudaSuccess;
    emu.devices[current_device].peers = 0;
    emu_unlock();
    emu_free_device_memory(current_device);
out:
    return emu_report(rc);
}

/* ---- properties ---- */

/* Limits of compute capability 9.0, then the values of the profile. */
static void fill_limits(struct cudaDeviceProp *p)
{
    p->sharedMemPerBlock = 49152;
    p->sharedMemPerBlockOptin = 232448;
    p->sharedMemPerMultiprocessor = 233472;
    p->reservedSharedMemPerBlock = 1024;
    p->regsPerBlock = p->regsPerMultiprocessor = 65536;
    p->warpSize = 32;
    p->memPitch = 2147483647;
    p->maxThreadsPerBlock = p->maxThreadsDim[0] = p->maxThreadsDim[1] = 1024;
    p->maxThreadsDim[2] = 64;
    p->maxGridSize[0] = 2147483647;
    p->maxGridSize[1] = p->maxGridSize[2] = 65535;
    p->totalConstMem = 65536;
    p->major = 9;
    p->textureAlignment = 512;
    p->texturePitchAlignment = 32;
    p->surfaceAlignment = 512;
    p->memoryBusWidth = 5120;
    p->l2CacheSize = 50 << 20;
    p->maxThreadsPerMultiProcessor = 2048;
    p->maxBlocksPerMultiProcessor = 32;
}

static void fill_abilities(struct cudaDeviceProp *p)
{
    p->concurrentKernels = p->canMapHostMemory = p->unifiedAddressing = p->managedMemory = 1;
    p->streamPrioritiesSupported = p->globalL1CacheSupported = p->localL1CacheSupported = 1;
    p->concurrentManagedAccess = p->computePreemptionSupported = p->canUseHostPointerForRegisteredMem = 1;
    p->cooperativeLaunch = p->hostRegisterSupported = p->memoryPoolsSupported = p->clusterLaunch = 1;
    p->asyncEngineCount = 3;
#if CUDART_VERSION >= 13000
    p->hostNumaId = -1;
#endif
}

/* PCI domain: one per machine of EMU_MAX_DEVICES devices. */
static int domain_of(int device)
{
    return emu.visible[device].number / EMU_MAX_DEVICES;
}

static int bus_of(int device)
{
    return emu.visible[device].number % EMU_MAX_DEVICES + 1;
}

static void fill_properties(struct cudaDeviceProp *p, int device)
{
    memset(p, 0, sizeof(*p));
    strcpy(p->name, "Emulated GPU");
    emu_uuid_of((struct emu_device_id){.number = emu.visible[device].number}, (unsigned char *)p->uuid.bytes);
    fill_limits(p);
    fill_abilities(p);
    p->totalGlobalMem = (size_t)emu.machine.memory_bytes;
    p->multiProcessorCount = emu.machine.sm_count;
    p->pciDomainID = domain_of(device);
    p->pciBusID = bus_of(device);
#if CUDART_VERSION < 13000
    p->clockRate = emu.machine.clock_khz;
    p->memoryClockRate = emu.machine.clock_khz;
#endif
}

cudaError_t cudaGetDeviceProperties(struct cudaDeviceProp *prop, int device)
{
    cudaError_t rc;

    TRY(emu_enter_any(__func__));
    TRY(prop ? device_ok(device) : cudaErrorInvalidValue);
    fill_properties(prop, device);
out:
    return emu_report(rc);
}

enum { FROM_FIELD, FROM_SIZE, FROM_CLOCK, FROM_CONSTANT };
struct attribute {
    enum cudaDeviceAttr id;
    int kind;
    size_t offset; /* in cudaDeviceProp */
    int constant;
};
#define FIELD(attr, field)                                                                                             \
    {                                                                                                                  \
        .id = cudaDevAttr##attr, .kind = FROM_FIELD, .offset = offsetof(struct cudaDeviceProp, field)                  \
    }
#define SIZE(attr, field)                                                                                              \
    {                                                                                                                  \
        .id = cudaDevAttr##attr, .kind = FROM_SIZE, .offset = offsetof(struct cudaDeviceProp, field)                   \
    }
#define CLOCK(attr)                                                                                                    \
    {                                                                                                                  \
        .id = cudaDevAttr##attr, .kind = FROM_CLOCK                                                                    \
    }
#define CONST(attr, value)                                                                                             \
    {                                                                                                                  \
        .id = cudaDevAttr##attr, .kind = FROM_CONSTANT, .constant = (value)                                            \
    }

/* Attributes without a row are 0: unsupported features, and textures. */
static const struct attribute attributes[] = {
    FIELD(MaxThreadsPerBlock, maxThreadsPerBlock),
    FIELD(MaxBlockDimX, maxThreadsDim[0]),
    FIELD(MaxBlockDimY, maxThreadsDim[1]),
    FIELD(MaxBlockDimZ, maxThreadsDim[2]),
    FIELD(MaxGridDimX, maxGridSize[0]),
    FIELD(MaxGridDimY, maxGridSize[1]),
    FIELD(MaxGridDimZ, maxGridSize[2]),
    SIZE(MaxSharedMemoryPerBlock, sharedMemPerBlock),
    SIZE(TotalConstantMemory, totalConstMem),
    FIELD(WarpSize, warpSize),
    SIZE(MaxPitch, memPitch),
    FIELD(MaxRegistersPerBlock, regsPerBlock),
    CLOCK(ClockRate),
    SIZE(TextureAlignment, textureAlignment),
    CONST(GpuOverlap, 1),
    FIELD(MultiProcessorCount, multiProcessorCount),
    FIELD(CanMapHostMemory, canMapHostMemory),
    SIZE(SurfaceAlignment, surfaceAlignment),
    FIELD(ConcurrentKernels, concurrentKernels),
    FIELD(PciBusId, pciBusID),
    CLOCK(MemoryClockRate),
    FIELD(GlobalMemoryBusWidth, memoryBusWidth),
    FIELD(L2CacheSize, l2CacheSize),
    FIELD(MaxThreadsPerMultiProcessor, maxThreadsPerMultiProcessor),
    FIELD(AsyncEngineCount, asyncEngineCount),
    FIELD(UnifiedAddressing, unifiedAddressing),
    SIZE(TexturePitchAlignment, texturePitchAlignment),
    FIELD(ComputeCapabilityMajor, major),
    FIELD(ComputeCapabilityMinor, minor),
    FIELD(StreamPrioritiesSupported, streamPrioritiesSupported),
    FIELD(GlobalL1CacheSupported, globalL1CacheSupported),
    FIELD(LocalL1CacheSupported, localL1CacheSupported),
    SIZE(MaxSharedMemoryPerMultiprocessor, sharedMemPerMultiprocessor),
    FIELD(MaxRegistersPerMultiprocessor, regsPerMultiprocessor),
    FIELD(ManagedMemory, managedMemory),
    CONST(SingleToDoublePrecisionPerfRatio, 2),
    FIELD(ConcurrentManagedAccess, concurrentManagedAccess),
    FIELD(ComputePreemptionSupported, computePreemptionSupported),
    FIELD(CanUseHostPointerForRegisteredMem, canUseHostPointerForRegisteredMem),
    FIELD(CooperativeLaunch, cooperativeLaunch),
    SIZE(MaxSharedMemoryPerBlockOptin, sharedMemPerBlockOptin),
    FIELD(HostRegisterSupported, hostRegisterSupported),
    FIELD(MaxBlocksPerMultiprocessor, maxBlocksPerMultiProcessor),
    SIZE(ReservedSharedMemoryPerBlock, reservedSharedMemPerBlock),
    FIELD(MemoryPoolsSupported, memoryPoolsSupported),
    FIELD(ClusterLaunch, clusterLaunch),
    CONST(MemSyncDomainCount, 4),
    CONST(HostNumaId, -1),
};

static int attribute_value(const struct attribute *a, const struct cudaDeviceProp *prop)
{
    const char *field = (const char *)prop + a->offset;

    switch (a->kind) {
    case FROM_FIELD:
        return *(const int *)field;
    case FROM_SIZE:
        return (int)*(const size_t *)field;
    case FROM_CLOCK:
        return emu.machine.clock_khz;
    }
    return a->constant;
}

cudaError_t cudaDeviceGetAttribute(int *value, enum cudaDeviceAttr id, int device)
{
    struct cudaDeviceProp prop;
    cudaError_t rc;

    TRY(emu_enter_any(__func__));
    TRY(value && id >= cudaDevAttrMaxThreadsPerBlock && id < cudaDevAttrMax ? device_ok(device)
                                                                            : cudaErrorInvalidValue);
    *value = 0;
    fill_properties(&prop, device);
    for (size_t i = 0; i < sizeof(attributes) / sizeof(attributes[0]); i++)
        if (attributes[i].id == id)
            *value = attribute_value(&attributes[i], &prop);
out:
    return emu_report(rc);
}

cudaError_t cudaDeviceGetPCIBusId(char *text, int bytes, int device)
{
    cudaError_t rc;

    TRY(emu_enter_any(__func__));
    TRY(text && bytes >= 13 ? device_ok(device) : cudaErrorInvalidValue);
    snprintf(text, (size_t)bytes, "%04x:%02x:%02x.0", domain_of(device), (unsigned char)bus_of(device), 0);
out:
    return emu_report(rc);
}

static cudaError_t device_on_bus(unsigned domain, unsigned bus, int *device)
{
    for (int i = 0; i < emu.n_devices; i++)
        if (domain_of(i) == (int)domain && bus_of(i) == (int)bus) {
            *device = i;
            return cudaSuccess;
        }
    return cudaErrorInvalidDevice;
}

cudaError_t cudaDeviceGetByPCIBusId(int *device, const char *text)
{
    unsigned domain, bus, slot;
    cudaError_t rc;

    TRY(emu_enter_any(__func__));
    if (!device || !text || (sscanf(text, "%x:%x:%x", &domain, &bus, &slot) != 3))
        rc = cudaErrorInvalidValue;
    else
        rc = slot == 0 ? device_on_bus(domain, bus, device) : cudaErrorInvalidDevice;
out:
    return emu_report(rc);
}

/* ---- settings ---- */

cudaError_t cudaSetDeviceFlags(unsigned int flags)
{
    cudaError_t rc;

    TRY(emu_enter(__func__));
    if (flags & ~(unsigned)cudaDeviceMask)
        rc = cudaErrorInvalidValue;
    else
        emu.devices[current_device].flags = flags;
out:
    return emu_report(rc);
}

cudaError_t cudaGetDeviceFlags(unsigned int *flags)
{
    cudaError_t rc;

    TRY(emu_enter(__func__));
    if (flags)
        *flags = emu.devices[current_device].flags;
    else
        rc = cudaErrorInvalidValue;
out:
    return emu_report(rc);
}

/* One limit of the current device; stored without effect. */
static cudaError_t limit_at(const char *function, enum cudaLimit id, size_t **limit)
{
    static const size_t defaults[] = {1024, 1 << 20, 8 << 20, 2, 2048, 64, 0};
    size_t *limits = emu.devices[current_device].limits;
    cudaError_t rc = emu_enter(function);

    if (!rc && (unsigned)id >= sizeof(defaults) / sizeof(defaults[0]))
        rc = cudaErrorUnsupportedLimit;
    if (!rc && limits[0] == 0)
        memcpy(limits, defaults, sizeof(defaults));
    *limit = &limits[(unsigned)id & 7];
    return emu_report(rc);
}

cudaError_t cudaDeviceSetLimit(enum cudaLimit id, size_t value)
{
    size_t *limit;
    cudaError_t rc = limit_at(__func__, id, &limit);

    if (rc == cudaSuccess)
        *limit = value;
    return rc;
}

cudaError_t cudaDeviceGetLimit(size_t *value, enum cudaLimit id)
{
    size_t *limit;
    cudaError_t rc = limit_at(__func__, id, &limit);

    if (rc == cudaSuccess && value)
        *value = *limit;
    return value ? rc : emu_report(cudaErrorInvalidValue);
}

cudaError_t cudaDeviceGetCacheConfig(enum cudaFuncCache *config)
{
    cudaError_t rc;

    TRY(emu_enter(__func__));
    if (config)
        *config = cudaFuncCachePreferNone;
    else
        rc = cudaErrorInvalidValue;
out:
    return emu_report(rc);
}

cudaError_t cudaDeviceSetCacheConfig(enum cudaFuncCache config)
{
    (void)config;
    return emu_report(emu_enter(__func__));
}

cudaError_t cudaDeviceFlushGPUDirectRDMAWrites(enum cudaFlushGPUDirectRDMAWritesTarget target,
                                               enum cudaFlushGPUDirectRDMAWritesScope scope)
{
    (void)target, (void)scope;
    return emu_report(emu_enter(__func__));
}

cudaError_t cudaCtxResetPersistingL2Cache(void)
{
    return emu_report(emu_enter(__func__));
}

/* ---- peers: every device of a process can access every other ---- */

cudaError_t cudaDeviceCanAccessPeer(int *can, int device, int peer)
{
    cudaError_t rc;

    TRY(emu_enter(__func__));
    TRY(can ? device_ok(device) : cudaErrorInvalidValue);
    TRY(device_ok(peer));
    *can = device != peer;
out:
    return emu_report(rc);
}

cudaError_t cudaDeviceGetP2PAttribute(int *value, enum cudaDeviceP2PAttr id, int device, int peer)
{
    cudaError_t rc;

    TRY(emu_enter(__func__));
    TRY(value && device != peer ? device_ok(device) : cudaErrorInvalidValue);
    TRY(device_ok(peer));
    *value = id == cudaDevP2PAttrAccessSupported || id == cudaDevP2PAttrNativeAtomicSupported;
out:
    return emu_report(rc);
}

static cudaError_t set_peer(const char *function, int peer, bool on, cudaError_t already)
{
    uint64_t bit = peer >= 0 && peer < EMU_MAX_DEVICES ? (uint64_t)1 << peer : 0;
    cudaError_t rc;

    TRY(emu_enter(function));
    TRY(peer != current_device ? device_ok(peer) : cudaErrorInvalidDevice);
    emu_lock();
    if (!(emu.devices[current_device].peers & bit) != on)
        rc = already;
    else
        emu.devices[current_device].peers ^= bit;
    emu_unlock();
out:
    return emu_report(rc);
}

cudaError_t cudaDeviceEnablePeerAccess(int peer, unsigned int flags)
{
    if (flags)
        return emu_report(cudaErrorInvalidValue);
    return set_peer(__func__, peer, true, cudaErrorPeerAccessAlreadyEnabled);
}

cudaError_t cudaDeviceDisablePeerAccess(int peer)
{
    return set_peer(__func__, peer, false, cudaErrorPeerAccessNotEnabled);
}

/* ---- versions, profiler ---- */

cudaError_t cudaRuntimeGetVersion(int *version)
{
    if (!version)
        return emu_report(cudaErrorInvalidValue);
    *version = CUDART_VERSION;
    return cudaSuccess;
}

cudaError_t cudaDriverGetVersion(int *version)
{
    const int driver = emu_env_number("EMU_DRIVER", 1000000);
    cudaError_t rc = cudaRuntimeGetVersion(version);

    if (rc == cudaSuccess && driver > 0)
        *version = driver;
    return rc;
}

cudaError_t cudaProfilerStart(void)
{
    return emu_report(emu_enter(__func__));
}

cudaError_t cudaProfilerStop(void)
{
    return emu_report(emu_enter(__func__));
}
