/* gpu.h - selects the GPU of a test program: the first one, emulated or real. */
#ifndef BB_TESTS_GPU_H
#define BB_TESTS_GPU_H

#include "cuda/device/check.h"
#include "cuda/device/device.h"

#include <stdio.h>

/* Returns 0, or an exit code for main: 77 (skipped) without a GPU, 1 if the GPU cannot be used. */
static inline int gpu_choose(struct bb_device_info *device)
{
    int count = 0;

    if (cudaGetDeviceCount(&count) == cudaSuccess && count > 0)
        return bb_device_use(0, device) != 0;
    printf("SKIPPED: no GPU here\n");
    return 77;
}

#endif
