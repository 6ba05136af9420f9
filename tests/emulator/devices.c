/*
 * devices.c - the devices: which one a thread uses, what they say of themselves, who reaches whom.
 */
#include "internal.h"
#include <stdio.h>
#include <string.h>
#include <unistd.h>

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
    TRY(emu_enter(__func__));
    *count = emu.n_devices;
out:
    return emu_report(rc);
}

cudaError_t cudaSetDevice(int device)
{
    cudaError_t rc;

    TRY(emu_enter(__func__));
    TRY(device_ok(device));
    current_device = device;
out:
    return emu_report(rc);
}

cudaError_t cudaGetDevice(int *device)
{
    cudaError_t rc;

    TRY(emu_enter(__func__));
    if (device)
        *device = current_device;
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

cudaError_t cudaRuntimeGetVersion(int *version)
{
    if (!version)
        return emu_report(cudaErrorInvalidValue);
    *version = CUDART_VERSION;
    return cudaSuccess;
}

cudaError_t cudaDriverGetVersion(int *version)
{
    return cudaRuntimeGetVersion(version);
}
