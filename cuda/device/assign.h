/*
 * assign.h - assigns each rank one of the GPUs that it sees. No CUDA.
 *
 * The set of visible GPUs depends on the launcher: all GPUs of a node (mpirun), one per rank (srun --gpus-per-task=1,
 * CUDA_VISIBLE_DEVICES, a MIG instance, a container), or a part (one job step per socket). A GPU is identified by its
 * UUID, independent of the node and of its device number.
 */
#ifndef BB_CUDA_DEVICE_ASSIGN_H
#define BB_CUDA_DEVICE_ASSIGN_H

#include "bootstrap/base/err.h"

enum { BB_VISIBLE_MAX = 64, BB_UUID_BYTES = 16 };

/* GPUs that a rank sees, in the order of its device numbers. Without pointers, so that ranks can exchange it by
 * value. */
struct bb_visible {
    int n;
    unsigned char uuid[BB_VISIBLE_MAX][BB_UUID_BYTES];
};

struct bb_assigned {
    int unassigned; /* the first rank without a GPU; -1: every rank has a GPU */
    int owner;      /* the rank that owns the first GPU that `unassigned` sees; -1: `unassigned` sees no GPU */
};

/*
 * bb_devices_assign - assign every rank a GPU that no other rank has, if such an assignment exists. Ranks that see the
 * same GPUs get them in rank order.
 *   ranks    [n] visible GPUs of each rank
 *   first    device numbers below `first` are not used
 *   ordinal  [n] out: device number of each rank
 *   Returns  0, or -BB_EFAIL if out of memory
 */
int bb_devices_assign(const struct bb_visible *ranks, int n, int first, int *ordinal,
                      struct bb_assigned *assigned) BB_MUST_CHECK;

#endif
