/* driver.c - see driver.h. */
#include "cuda/device/driver.h"

#include "bootstrap/base/alloc.h"

#include <cuda.h>
#include <cuda_runtime_api.h>
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>

#include <string.h>

/* CUDA version (1000 x major + 10 x minor) that defines the driver function signatures used in this file */
enum { MIN_DRIVER_VERSION = 12000 };

/*
 * Returns the address of a driver function, or NULL if the driver lacks the function. CUDA 12.5 introduced
 * cudaGetDriverEntryPointByVersion; the older cudaGetDriverEntryPoint will be removed. Both are looked up at run time,
 * so a program built with an older CUDA version also runs with a newer one, and vice versa.
 */
static void *find_function(const char *name)
{
    cudaError_t (*by_version)(const char *, void **, unsigned, unsigned long long,
                              enum cudaDriverEntryPointQueryResult *);
    cudaError_t (*older)(const char *, void **, unsigned long long, enum cudaDriverEntryPointQueryResult *);
    enum cudaDriverEntryPointQueryResult found = cudaDriverEntryPointSymbolNotFound;
    cudaError_t e = cudaErrorSymbolNotFound;
    void *function = NULL;

    *(void **)&by_version = dlsym(RTLD_DEFAULT, "cudaGetDriverEntryPointByVersion");
    *(void **)&older = dlsym(RTLD_DEFAULT, "cudaGetDriverEntryPoint");
    if (by_version)
        e = by_version(name, &function, MIN_DRIVER_VERSION, cudaEnableDefault, &found);
    else if (older)
        e = older(name, &function, cudaEnableDefault, &found);
    if (e != cudaSuccess)
        (void)cudaGetLastError();
    return e == cudaSuccess && found == cudaDriverEntryPointSuccess ? function : NULL;
}

bool bb_driver_uuid(int ordinal, unsigned char uuid[16])
{
    CUresult (*get_device)(CUdevice *, int), (*get_uuid)(CUuuid *, CUdevice);
    CUdevice device;
    CUuuid id;

    *(void **)&get_device = find_function("cuDeviceGet");
    *(void **)&get_uuid = find_function("cuDeviceGetUuid"); /* resolves to cuDeviceGetUuid_v2, which distinguishes
                                                               MIG instances */
    if (!get_device || !get_uuid || get_device(&device, ordinal) || get_uuid(&id, device))
        return false;
    memcpy(uuid, id.bytes, sizeof(id.bytes));
    return true;
}

size_t bb_driver_granularity(void)
{
    CUresult (*get_granularity)(size_t *, const CUmemAllocationProp *, CUmemAllocationGranularity_flags);
    const CUmemAllocationProp asked = {.type = CU_MEM_ALLOCATION_TYPE_PINNED,
                                       .requestedHandleTypes = CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR,
                                       .location = {.type = CU_MEM_LOCATION_TYPE_DEVICE, .id = 0}};
    size_t bytes = 0;

    *(void **)&get_granularity = find_function("cuMemGetAllocationGranularity");
    if (!get_granularity || get_granularity(&bytes, &asked, CU_MEM_ALLOC_GRANULARITY_RECOMMENDED) || bytes == 0)
        return (size_t)2 << 20;
    return bytes;
}

size_t bb_driver_multicast_granularity(void)
{
    CUresult (*get_attribute)(int *, CUdevice_attribute, CUdevice);
    CUresult (*get_granularity)(size_t *, const CUmulticastObjectProp *, CUmulticastGranularity_flags);
    int devices = 0, multicast = 0;
    size_t bytes = 0;

    *(void **)&get_attribute = find_function("cuDeviceGetAttribute");
    *(void **)&get_granularity = find_function("cuMulticastGetGranularity");
    if (!get_attribute || !get_granularity || cudaGetDeviceCount(&devices) != cudaSuccess ||
        get_attribute(&multicast, CU_DEVICE_ATTRIBUTE_MULTICAST_SUPPORTED, 0) || !multicast)
        return 0;
    const CUmulticastObjectProp asked = {
        .numDevices = (unsigned)devices, .size = 1, .handleTypes = CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR};
    return get_granularity(&bytes, &asked, CU_MULTICAST_GRANULARITY_RECOMMENDED) ? 0 : bytes;
}

bool bb_driver_is_mapped(void *memory)
{
    CUresult (*retain)(CUmemGenericAllocationHandle *, void *), (*release)(CUmemGenericAllocationHandle);
    CUmemGenericAllocationHandle handle;

    *(void **)&retain = find_function("cuMemRetainAllocationHandle");
    *(void **)&release = find_function("cuMemRelease");
    if (!retain || !release || retain(&handle, memory))
        return false;
    (void)release(handle);
    return true;
}

/* The version is the first number in "NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  580.65.06  Release ..". */
void bb_driver_version(const char *root, char text[BB_DRIVER_TEXT])
{
    char *path = bb_format("%s/proc/driver/nvidia/version", root);
    FILE *file = fopen(path, "r");

    do
        text[0] = '\0';
    while (file && fscanf(file, "%31s", text) == 1 && text[strspn(text, "0123456789.")]);
    if (file)
        fclose(file);
    free(path);
}
