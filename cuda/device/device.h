/*
 * device.h - selects the GPU of each rank and describes it.
 */
#ifndef BB_CUDA_DEVICE_DEVICE_H
#define BB_CUDA_DEVICE_DEVICE_H

#include "bootstrap/world/world.h"

#include <stdbool.h>
#include <stddef.h>

/* Without pointers, so that ranks can exchange it by value. */
struct bb_device_info {
    char name[128];
    char uuid[48]; /* "GPU-xxxxxxxx-xxxx-xxxx-xxxx-xxxxxxxxxxxx" */
    char pci[16];  /* "0000:1b:00.0"                             */
    int ordinal;   /* CUDA device number on this rank            */
    int sm_count;
    int cc_major, cc_minor; /* compute capability                         */
    int clock_khz;          /* maximum SM clock; 0 if unknown */
    int l2_bytes;
    size_t memory_bytes;
    bool emulated; /* true: an emulated GPU instead of hardware */
};

/* bb_device_use - make this device current and fill *info. */
BB_MUST_CHECK int bb_device_use(int ordinal, struct bb_device_info *info);

/*
 * bb_device_count_in_child - number of GPUs that this process will see. A child process queries CUDA, because CUDA may
 * start threads. Returns at most 255; -1 if the number cannot be determined.
 */
int bb_device_count_in_child(void);

/*
 * bb_device_choose - collective: select a GPU for every rank (see assign.h) and make this rank's GPU current.
 *   first      device numbers below `first` are not used
 *   share_gpu  true: if there are too few GPUs, use number (first + local rank) modulo the number of GPUs
 *   info       out: the GPU of this rank
 *   Returns    0, or -BB_EUSAGE on all ranks if two ranks would share a GPU. The second of these ranks prints one line
 *              with both ranks; all ranks must agree on the result before one of them exits
 */
BB_MUST_CHECK int bb_device_choose(struct bb_world *w, int first, bool share_gpu, struct bb_device_info *info);

/*
 * bb_device_shared - whether two ranks use the same GPU: the same UUID, or MIG instances of one GPU.
 *   infos    [n] GPU of each rank
 *   node_of  [n] node of each rank
 */
bool bb_device_shared(const struct bb_device_info *infos, const int *node_of, int n);

/* bb_device_free_bytes - free memory of the current device. */
BB_MUST_CHECK int bb_device_free_bytes(size_t *bytes);

/* bb_cuda_versions - version of the CUDA runtime library in use, and the latest version that the driver supports, in
 * CUDA's encoding (13000 is 13.0). */
BB_MUST_CHECK int bb_cuda_versions(int *runtime, int *driver);

#endif
