/*
 * driver.c - the driver functions that the runtime returns through cudaGetDriverEntryPoint: UUID of a device, and
 * properties of memory. No others exist.
 */
#include "internal.h"
#include <cuda.h>
#include <stdlib.h>
#include <string.h>

static CUresult get_device(CUdevice *device, int ordinal)
{
    if (!device || ordinal < 0 || ordinal >= emu.n_devices)
        return CUDA_ERROR_INVALID_DEVICE;
    *device = ordinal;
    return CUDA_SUCCESS;
}

/* cuDeviceGetUuid_v2: the UUID of the MIG instance, where the runtime's properties have the GPU's. */
static CUresult get_uuid(CUuuid *uuid, CUdevice device)
{
    if (!uuid || device < 0 || device >= emu.n_devices)
        return CUDA_ERROR_INVALID_DEVICE;
    emu_uuid_of(emu.visible[device], (unsigned char *)uuid->bytes);
    return CUDA_SUCCESS;
}

size_t emu_granularity(void)
{
    int mib = emu_env_number("EMU_GRANULARITY_MIB", 1 << 20);

    return (size_t)(mib ? mib : 2) << 20;
}

static CUresult get_granularity(size_t *bytes, const CUmemAllocationProp *asked, CUmemAllocationGranularity_flags flags)
{
    (void)flags;
    if (!bytes || !asked || asked->type != CU_MEM_ALLOCATION_TYPE_PINNED)
        return CUDA_ERROR_INVALID_VALUE;
    *bytes = emu_granularity();
    return CUDA_SUCCESS;
}

/* With EMU_MULTICAST_MIB, all devices support multicast. */
static CUresult get_attribute(int *value, CUdevice_attribute attribute, CUdevice device)
{
    if (!value || device < 0 || device >= emu.n_devices || attribute != CU_DEVICE_ATTRIBUTE_MULTICAST_SUPPORTED)
        return CUDA_ERROR_INVALID_VALUE;
    *value = emu_env_number("EMU_MULTICAST_MIB", 1 << 20) > 0;
    return CUDA_SUCCESS;
}

static CUresult get_multicast_granularity(size_t *bytes, const CUmulticastObjectProp *asked,
                                          CUmulticastGranularity_flags flags)
{
    (void)flags;
    if (!bytes || !asked || asked->numDevices == 0 || asked->size == 0)
        return CUDA_ERROR_INVALID_VALUE;
    *bytes = (size_t)emu_env_number("EMU_MULTICAST_MIB", 1 << 20) << 20;
    return CUDA_SUCCESS;
}

static CUresult retain_handle(CUmemGenericAllocationHandle *handle, void *memory)
{
    if (!handle || !emu_is_physical(memory))
        return CUDA_ERROR_INVALID_VALUE;
    *handle = (CUmemGenericAllocationHandle)(uintptr_t)memory;
    return CUDA_SUCCESS;
}

static CUresult release_handle(CUmemGenericAllocationHandle handle)
{
    return handle ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

#define FUNCTION(name, own)                                                                                            \
    {                                                                                                                  \
        name, (void (*)(void))(own)                                                                                    \
    }
static const struct {
    const char *name;
    void (*function)(void);
} functions[] = {
    FUNCTION("cuDeviceGet", get_device),
    FUNCTION("cuDeviceGetUuid", get_uuid),
    FUNCTION("cuDeviceGetAttribute", get_attribute),
    FUNCTION("cuMulticastGetGranularity", get_multicast_granularity),
    FUNCTION("cuMemGetAllocationGranularity", get_granularity),
    FUNCTION("cuMemRetainAllocationHandle", retain_handle),
    FUNCTION("cuMemRelease", release_handle),
};

bool emu_has_physical_memory(void)
{
    return emu_env_number("EMU_NO_CUMEM", 1) == 0;
}

static bool is_there(const char *name)
{
    return emu_has_physical_memory() || strncmp(name, "cuMem", 5) != 0;
}

cudaError_t cudaGetDriverEntryPointByVersion(const char *symbol, void **entry, unsigned int version,
                                             unsigned long long flags, enum cudaDriverEntryPointQueryResult *status)
{
    (void)version, (void)flags;
    emu_init();
    if (!symbol || !entry)
        return emu_report(cudaErrorInvalidValue);
    *entry = NULL;
    for (size_t i = 0; i < sizeof(functions) / sizeof(*functions); i++)
        if (strcmp(functions[i].name, symbol) == 0 && is_there(symbol))
            memcpy(entry, &functions[i].function, sizeof(*entry));
    if (status)
        *status = *entry ? cudaDriverEntryPointSuccess : cudaDriverEntryPointSymbolNotFound;
    return cudaSuccess;
}

cudaError_t cudaGetDriverEntryPoint(const char *symbol, void **entry, unsigned long long flags,
                                    enum cudaDriverEntryPointQueryResult *status)
{
    return cudaGetDriverEntryPointByVersion(symbol, entry, CUDART_VERSION, flags, status);
}
