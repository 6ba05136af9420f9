/*
 * device.h - selects the GPU of each rank and describes it.
 */
#ifndef BB_CUDA_DEVICE_DEVICE_H
#define BB_CUDA_DEVICE_DEVICE_H

#include "bootstrap/world/world.h"

#include <stdbool.h>
#include <stddef.h>

/* Properties of a GPU. Contains no pointers, so that ranks can exchange the struct by value. */
/* an entry of CUDA_VISIBLE_DEVICES is longest as MIG-GPU-<UUID>/<GPU instance>/<compute instance> */
enum { BB_UUID_TEXT = 48, BB_ABSENT_TEXT = 64 };
struct bb_device_info {
    char name[128];
    char uuid[BB_UUID_TEXT]; /* "GPU-xxxxxxxx-xxxx-xxxx-xxxx-xxxxxxxxxxxx"; of a MIG instance "MIG-xxxxxxxx-..." */
    bool is_instance;        /* a MIG instance */
    char pci[16];            /* "0000:1b:00.0" */
    int ordinal;             /* CUDA device number on this rank */
    int node_gpus; /* number of GPUs that CUDA shows to the ranks of the node; 0: unknown, because CUDA_VISIBLE_DEVICES or
                      NVIDIA_VISIBLE_DEVICES may hide some, or with is_short none. Set by bb_device_choose, also if it fails */
    char absent
        [BB_ABSENT_TEXT]; /* entry of this rank's CUDA_VISIBLE_DEVICES that CUDA does not find; "": none. Set likewise */
    bool is_short;   /* node_gpus is less than the number of ranks of the node, also 0; only with BB_SHARE_IF_SHORT */
    char no_gpu[80]; /* why this rank has no GPU, as CUDA reports it; "": it has one. Only with is_short */
    int sm_count;
    int cc_major;  /* compute capability, first number */
    int clock_khz; /* maximum SM clock; 0 if unknown */
    size_t memory_bytes;
    bool emulated;     /* true: emulated by busbar-emulated; false: hardware */
    bool virtual_time; /* emulated, and the host clock does not measure the time of operations (EMU_TIME=virtual) */
};

/* bb_device_use - make the device with number `ordinal` current and fill *info. */
BB_MUST_CHECK int bb_device_use(int ordinal, struct bb_device_info *info);

/*
 * bb_device_count_in_child - count the GPUs visible to this process. A child process queries CUDA, because CUDA may
 * start threads, which the calling process must not have yet.
 *   Returns  the number, at most 255; -1 if the child failed
 */
int bb_device_count_in_child(void);

/*
 * bb_device_choose - collective: select a GPU for every rank (see assign.h) and make this rank's GPU current.
 *   first      lowest device number to use
 *   share      if there are too few GPUs, use device (first + local rank) modulo the number of GPUs; with
 *              BB_SHARE_IF_SHORT, ranks to which CUDA shows no GPU have none (ordinal -1), unless no rank has one or
 *              the driver library
 *   info       out: the GPU of this rank
 *   Returns    0, or an error code on all ranks: -BB_EUSAGE if two ranks would share a GPU, -BB_EFAIL if a rank has no
 *              GPU. Only the rank without a GPU prints the error; no rank may exit before this rank has printed it
 */
enum bb_share {
    BB_SHARE_NONE,
    BB_SHARE_ANY,
    BB_SHARE_IF_SHORT /* only if a node is_short */
};
BB_MUST_CHECK int bb_device_choose(struct bb_world *w, int first, enum bb_share share, struct bb_device_info *info);

/*
 * bb_device_shared - whether two ranks use the same GPU: the same UUID, or MIG instances of one GPU.
 *   infos    [n] GPU of each rank
 *   node_of  [n] node index of each rank
 */
bool bb_device_shared(const struct bb_device_info *infos, const int *node_of, int n);

/*
 * bb_nccl_reserve_bytes - return the memory that buffers leave to NCCL, of a device with `memory` bytes: 1/16, at most
 *                         4 GiB, as in nccl-tests. NCCL allocates the buffers of channels at the first operation that
 *                         uses them (NCCL_RUNTIME_CONNECT=1).
 * bb_device_free_bytes  - get the free memory of the current device.
 *   uses_nccl  true: without the reserve
 */
size_t bb_nccl_reserve_bytes(size_t memory);
BB_MUST_CHECK int bb_device_free_bytes(size_t *bytes, bool uses_nccl);

/* bb_cuda_versions - get the version of the CUDA runtime library in use and the latest version that the driver
 * supports, in CUDA's encoding (13000 is 13.0). */
BB_MUST_CHECK int bb_cuda_versions(int *runtime, int *driver);

#endif
