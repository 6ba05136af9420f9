/*
 * device.h - which GPU a rank uses and what it is.
 */
#ifndef BB_CUDA_DEVICE_DEVICE_H
#define BB_CUDA_DEVICE_DEVICE_H

#include "bootstrap/base/err.h"

#include <stdbool.h>
#include <stddef.h>

/* Plain data without pointers, so that ranks exchange it byte by byte. */
struct bb_device_info {
    char name[128];
    char uuid[48]; /* "GPU-xxxxxxxx-xxxx-xxxx-xxxx-xxxxxxxxxxxx" */
    char pci[16];  /* "0000:1b:00.0"                             */
    int ordinal;   /* CUDA device number on this rank            */
    int sm_count;
    int cc_major, cc_minor; /* compute capability                         */
    int clock_khz;          /* SM clock, 0 where unknown                  */
    int l2_bytes;
    size_t memory_bytes;
    bool emulated; /* the emulated GPUs, never hardware          */
};

/*
 * bb_device_choose - make the GPU of this local rank current: number first + local_rank, with share_gpu modulo the
 * number of GPUs. Fewer GPUs than ranks of the host without share_gpu: -BB_EUSAGE on all of them, the first of the host
 * says so (agree on the result before anybody leaves). Fills *info.
 */
BB_MUST_CHECK int bb_device_choose(int first, int local_rank, int local_size, bool share_gpu,
                                   struct bb_device_info *info);

/* bb_device_shared - true when two of the n entries (one per rank) have the same UUID. */
bool bb_device_shared(const struct bb_device_info *infos, int n);

/* bb_device_free_bytes - memory that can be allocated now on the current device. */
BB_MUST_CHECK int bb_device_free_bytes(size_t *bytes);

/* Versions as CUDA gives them (13000 = 13.0): of the runtime library in use and of the driver. 0 where unknown. */
void bb_cuda_versions(int *runtime, int *driver);

#endif
