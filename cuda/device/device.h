/*
 * device.h - which GPU a rank uses and what it is.
 */
#ifndef BB_CUDA_DEVICE_DEVICE_H
#define BB_CUDA_DEVICE_DEVICE_H

#include "bootstrap/world/world.h"

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

/* bb_device_use - make this device current. Fills *info. */
BB_MUST_CHECK int bb_device_use(int ordinal, struct bb_device_info *info);

/*
 * bb_device_count_in_child - GPUs that this process will see, asked by a child, so that CUDA, which may start threads, is
 * not touched in this one; 255 stands for more. -1: it cannot be told.
 */
int bb_device_count_in_child(void);

/*
 * bb_device_choose - collective: a GPU for every rank, whether ranks see all GPUs of their host, one each, or some
 * (assign.h); those below number `first` are left alone. The rank's own becomes current. Where two ranks would have one
 * GPU: with share_gpu number first + local rank modulo the number of GPUs; without, -BB_EUSAGE on all ranks, and the
 * one that comes second says which two they are (agree on the result before anybody leaves). Fills *info.
 */
BB_MUST_CHECK int bb_device_choose(struct bb_world *w, int first, bool share_gpu, struct bb_device_info *info);

/*
 * bb_device_shared - true when two of the n entries (one per rank, node_of: its node) have the same UUID, or are parts
 * (MIG instances) of one GPU.
 */
bool bb_device_shared(const struct bb_device_info *infos, const int *node_of, int n);

/* bb_device_free_bytes - memory that can be allocated now on the current device. */
BB_MUST_CHECK int bb_device_free_bytes(size_t *bytes);

/* Versions as CUDA gives them (13000 = 13.0): of the runtime library in use and of the driver. */
BB_MUST_CHECK int bb_cuda_versions(int *runtime, int *driver);

#endif
