/*
 * nvml_stub.c - a replacement for libnvidia-ml.so.1 with one GPU at 0000:1b:00.0, or at any address with NVML_STUB_ANY. Its
 * values are environment variables (NVML_STUB_SM_MHZ, or of one rank of mpirun NVML_STUB_SM_MHZ_3, ...), which are read at every
 * call. If a variable is missing, the value is "not supported"; of "2+5" the value is 2 at the first call and 7 later.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { SUCCESS = 0, UNINITIALIZED = 1, NOT_SUPPORTED = 3, NOT_FOUND = 6, INSUFFICIENT_SIZE = 7, DRIVER_NOT_LOADED = 9 };

static int users;
static int gpu;

int nvmlInit_v2(void)
{
    if (getenv("NVML_STUB_BROKEN"))
        return DRIVER_NOT_LOADED;
    users++;
    return SUCCESS;
}

int nvmlShutdown(void)
{
    return users-- > 0 ? SUCCESS : UNINITIALIZED;
}

const char *nvmlErrorString(int result)
{
    return result == NOT_FOUND ? "Not Found" : result == DRIVER_NOT_LOADED ? "Driver Not Loaded" : "Some Error";
}

int nvmlDeviceGetHandleByPciBusId_v2(const char *pci, void **device)
{
    *device = &gpu;
    return getenv("NVML_STUB_ANY") || strcmp(pci, "0000:1b:00.0") == 0 ? SUCCESS : NOT_FOUND;
}

/* Returns whether an earlier call has read this variable. */
static int is_known(const char *name)
{
    static const char *known[64];
    int i = 0;

    while (i < 63 && known[i] && known[i] != name)
        i++;
    if (known[i] == name)
        return 1;
    known[i] = name;
    return 0;
}

static int read_value(const void *device, const char *name, unsigned *value)
{
    const char *rank = getenv("OMPI_COMM_WORLD_RANK"), *text = NULL;
    char own[64], *end;

    if (rank && snprintf(own, sizeof own, "%s_%s", name, rank) < (int)sizeof own)
        text = getenv(own);
    text = text ? text : getenv(name);
    if (users == 0 || device != &gpu)
        return UNINITIALIZED;
    if (!text)
        return NOT_SUPPORTED;
    *value = (unsigned)strtoul(text, &end, 0);
    if (*end == '+' && is_known(name))
        *value += (unsigned)strtoul(end, NULL, 0);
    return SUCCESS;
}

int nvmlDeviceGetClockInfo(void *device, int type, unsigned *mhz)
{
    return read_value(device, type == 1 ? "NVML_STUB_SM_MHZ" : type == 2 ? "NVML_STUB_MEMORY_MHZ" : "", mhz);
}

int nvmlDeviceGetTemperature(void *device, int sensor, unsigned *celsius)
{
    return sensor == 0 ? read_value(device, "NVML_STUB_CELSIUS", celsius) : NOT_SUPPORTED;
}

int nvmlDeviceGetPowerUsage(void *device, unsigned *milliwatt)
{
    return read_value(device, "NVML_STUB_MILLIWATT", milliwatt);
}

/* The function name of older drivers; the newer name is omitted on purpose. */
int nvmlDeviceGetCurrentClocksThrottleReasons(void *device, unsigned long long *mask)
{
    unsigned value = 0;
    int result = read_value(device, "NVML_STUB_REASONS", &value);

    *mask = value;
    return result;
}

/* The layout of nvmlGpuFabricInfo_v2_t in NVIDIA's nvml.h; nvmlGpuFabricInfo_v2 is its size with the version 2 in bit 24. */
struct fabric {
    unsigned version;
    unsigned char clusterUuid[16];
    int status;
    unsigned cliqueId;
    unsigned char state;
    unsigned healthMask;
};

int nvmlDeviceGetGpuFabricInfoV(void *device, void *info)
{
    struct fabric *fabric = info;
    unsigned clique = 0, state = 0;
    int result = read_value(device, "NVML_STUB_CLIQUE", &clique);

    if (fabric->version != (36 | 2 << 24))
        return 25; /* NVML_ERROR_ARGUMENT_VERSION_MISMATCH */
    (void)read_value(device, "NVML_STUB_FABRIC_STATE", &state);
    memcpy(fabric->clusterUuid, "rack of 72 GPUs!", 16);
    fabric->status = SUCCESS;
    fabric->cliqueId = clique;
    fabric->state = (unsigned char)state;
    return result;
}

int nvmlDeviceGetMigMode(void *device, unsigned *current, unsigned *pending)
{
    *pending = 0;
    return read_value(device, "NVML_STUB_MIG", current);
}

int nvmlDeviceGetMPSComputeRunningProcesses_v3(void *device, unsigned *count, void *infos)
{
    unsigned processes = 0;
    int result = read_value(device, "NVML_STUB_MPS", &processes);

    (void)infos;
    if (result != SUCCESS || processes <= *count)
        return result;
    *count = processes;
    return INSUFFICIENT_SIZE;
}

int nvmlSystemGetDriverVersion(char *text, unsigned bytes)
{
    unsigned version = 0;
    int result = read_value(&gpu, "NVML_STUB_DRIVER", &version);

    snprintf(text, bytes, "%u.65.06", version);
    return result;
}

/* NVML_STUB_ECC: uncorrected errors since the driver was loaded; _CORRECTED: since then; _CORRECTED_EVER: since the GPU was made.
 * Uncorrected ones since the GPU was made have no variable. */
int nvmlDeviceGetTotalEccErrors(void *device, int type, int since, unsigned long long *count)
{
    static const char *const names[2][2] = {{"NVML_STUB_CORRECTED", "NVML_STUB_CORRECTED_EVER"}, {"NVML_STUB_ECC", ""}};
    unsigned value = 0;
    int result = read_value(device, names[type][since], &value);

    *count = value;
    return result;
}

int nvmlDeviceGetMemoryErrorCounter(void *device, int type, int since, int location, unsigned long long *count)
{
    unsigned value = 0;
    int result = type == 0 && location == 7
                     ? read_value(device, since ? "NVML_STUB_SRAM_EVER" : "NVML_STUB_SRAM", &value)
                     : NOT_SUPPORTED;

    *count = value;
    return result;
}

int nvmlDeviceGetRemappedRows(void *device, unsigned *corrected, unsigned *uncorrected, unsigned *pending,
                              unsigned *failed)
{
    *corrected = *uncorrected = 3;
    *pending = 0;
    (void)read_value(device, "NVML_STUB_REMAP_PENDING", pending);
    return read_value(device, "NVML_STUB_REMAP_FAILED", failed);
}

/* The first links are active. */
int nvmlDeviceGetNvLinkState(void *device, unsigned link, int *active)
{
    unsigned links = 0;
    int result = read_value(device, "NVML_STUB_NVLINKS", &links);

    *active = link < links;
    return result;
}

/* Link 1 has the replays, link 0 the recoveries, and both have CRC errors of flits. */
int nvmlDeviceGetNvLinkErrorCounter(void *device, unsigned link, int counter, unsigned long long *count)
{
    static const char *const names[2][5] = {{"", "NVML_STUB_RECOVERIES", "NVML_STUB_CRC", "", ""},
                                            {"NVML_STUB_REPLAYS", "", "NVML_STUB_CRC", "", ""}};
    unsigned value = 0;
    int result = link < 2 ? read_value(device, names[link][counter], &value) : NOT_SUPPORTED;

    *count = value;
    return result;
}

int nvmlDeviceGetCurrPcieLinkWidth(void *device, unsigned *lanes)
{
    return read_value(device, "NVML_STUB_LANES", lanes);
}

int nvmlDeviceGetPcieReplayCounter(void *device, unsigned *replays)
{
    return read_value(device, "NVML_STUB_PCIE_REPLAYS", replays);
}

int nvmlDeviceGetEnforcedPowerLimit(void *device, unsigned *milliwatt)
{
    return read_value(device, "NVML_STUB_POWER_LIMIT", milliwatt);
}

int nvmlDeviceGetApplicationsClock(void *device, int type, unsigned *mhz)
{
    return type == 1 ? read_value(device, "NVML_STUB_CLOCK_LIMIT", mhz) : NOT_SUPPORTED;
}
