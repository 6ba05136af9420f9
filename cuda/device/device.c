/* device.c - choice and description of the GPU. */
#include "cuda/device/device.h"

#include "cuda/device/check.h"

#include <stdio.h>
#include <string.h>

static void format_uuid(const unsigned char b[16], char text[48])
{
    snprintf(text, 48, "GPU-%02x%02x%02x%02x-%02x%02x-%02x%02x-%02x%02x-%02x%02x%02x%02x%02x%02x", b[0], b[1], b[2],
             b[3], b[4], b[5], b[6], b[7], b[8], b[9], b[10], b[11], b[12], b[13], b[14], b[15]);
}

static int read_device_info(int ordinal, struct bb_device_info *info)
{
    struct cudaDeviceProp prop;
    int rc = BB_CUDA(cudaGetDeviceProperties(&prop, ordinal));

    if (rc != 0)
        return rc;
    *info = (struct bb_device_info){.ordinal = ordinal,
                                    .sm_count = prop.multiProcessorCount,
                                    .cc_major = prop.major,
                                    .cc_minor = prop.minor,
                                    .l2_bytes = prop.l2CacheSize,
                                    .memory_bytes = prop.totalGlobalMem};
    snprintf(info->name, sizeof info->name, "%.*s", (int)sizeof info->name - 1, prop.name);
    snprintf(info->pci, sizeof info->pci, "%04x:%02x:%02x.0", prop.pciDomainID & 0xffff, prop.pciBusID & 0xff,
             prop.pciDeviceID & 0xff);
    format_uuid((const unsigned char *)prop.uuid.bytes, info->uuid);
    info->emulated = strncmp(info->name, "Emulated GPU", strlen("Emulated GPU")) == 0;
    if (cudaDeviceGetAttribute(&info->clock_khz, cudaDevAttrClockRate, ordinal) != cudaSuccess) {
        info->clock_khz = 0;
        (void)cudaGetLastError();
    }
    return 0;
}

/* The first rank of a host speaks for the others, whose fate is the same. */
static int refuse_devices(int local_rank, enum bb_error code, const char *what, int local_size, int count)
{
    if (local_rank > 0)
        return -(int)code;
    if (what)
        return bb_err(code, "no usable GPU on this host: %s (busbar-emulated runs on emulated ones)", what);
    return bb_err(code,
                  "%d ranks on this host but only %d GPU%s: start at most %d per host, or let ranks share a GPU with "
                  "--share-gpu (for tests: times then mean nothing)",
                  local_size, count, count == 1 ? "" : "s", count);
}

int bb_device_choose(int first, int local_rank, int local_size, bool share_gpu, struct bb_device_info *info)
{
    int count = 0, ordinal, rc;
    cudaError_t e = cudaGetDeviceCount(&count);

    if (e == cudaErrorNoDevice || e == cudaErrorInsufficientDriver || (e == cudaSuccess && count == 0))
        return refuse_devices(local_rank, BB_EFAIL, e ? cudaGetErrorString(e) : "there is none", local_size, count);
    TRY(BB_CUDA(e));
    if (first > 0 && count < first + local_size && !share_gpu)
        return local_rank ? -BB_EUSAGE
                          : bb_err(BB_EUSAGE, "%d ranks on this host, from GPU %d on, but it has only GPUs 0 to %d",
                                   local_size, first, count - 1);
    if (count < local_size && !share_gpu)
        return refuse_devices(local_rank, BB_EUSAGE, NULL, local_size, count);
    ordinal = (first + local_rank) % count;
    TRY(BB_CUDA(cudaSetDevice(ordinal)));
    TRY(read_device_info(ordinal, info));
out:
    return rc;
}

bool bb_device_shared(const struct bb_device_info *infos, int n)
{
    for (int i = 0; i < n; i++)
        for (int j = 0; j < i; j++)
            if (strcmp(infos[i].uuid, infos[j].uuid) == 0)
                return true;
    return false;
}

int bb_device_free_bytes(size_t *bytes)
{
    size_t total;

    return BB_CUDA(cudaMemGetInfo(bytes, &total));
}

void bb_cuda_versions(int *runtime, int *driver)
{
    if (cudaRuntimeGetVersion(runtime) != cudaSuccess)
        *runtime = 0;
    if (cudaDriverGetVersion(driver) != cudaSuccess)
        *driver = 0;
    (void)cudaGetLastError();
}
