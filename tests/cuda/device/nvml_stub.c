/*
 * nvml_stub.c - a stand-in for libnvidia-ml.so.1: one GPU at 0000:1b:00.0 whose figures are variables of the
 * environment, read at every call (NVML_STUB_SM_MHZ, ...). A variable that is missing is a figure that is not
 * supported.
 */
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
    return strcmp(pci, "0000:1b:00.0") == 0 ? SUCCESS : NOT_FOUND;
}

static int figure(const void *device, const char *name, unsigned *value)
{
    const char *text = getenv(name);

    if (users == 0 || device != &gpu)
        return UNINITIALIZED;
    if (!text)
        return NOT_SUPPORTED;
    *value = (unsigned)strtoul(text, NULL, 0);
    return SUCCESS;
}

int nvmlDeviceGetClockInfo(void *device, int type, unsigned *mhz)
{
    return figure(device, type == 1 ? "NVML_STUB_SM_MHZ" : type == 2 ? "NVML_STUB_MEMORY_MHZ" : "", mhz);
}

int nvmlDeviceGetTemperature(void *device, int sensor, unsigned *celsius)
{
    return sensor == 0 ? figure(device, "NVML_STUB_CELSIUS", celsius) : NOT_SUPPORTED;
}

int nvmlDeviceGetPowerUsage(void *device, unsigned *milliwatt)
{
    return figure(device, "NVML_STUB_MILLIWATT", milliwatt);
}

/* The name that older drivers have; the newer one is left out on purpose. */
int nvmlDeviceGetCurrentClocksThrottleReasons(void *device, unsigned long long *mask)
{
    unsigned value = 0;
    int result = figure(device, "NVML_STUB_REASONS", &value);

    *mask = value;
    return result;
}

int nvmlDeviceGetMigMode(void *device, unsigned *current, unsigned *pending)
{
    *pending = 0;
    return figure(device, "NVML_STUB_MIG", current);
}

int nvmlDeviceGetMPSComputeRunningProcesses_v3(void *device, unsigned *count, void *infos)
{
    unsigned processes = 0;
    int result = figure(device, "NVML_STUB_MPS", &processes);

    (void)infos;
    if (result != SUCCESS || processes <= *count)
        return result;
    *count = processes;
    return INSUFFICIENT_SIZE;
}
