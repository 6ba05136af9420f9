/*
 * assign.h - which rank gets which of the GPUs that it sees. Pure.
 *
 * Ranks see GPUs in many ways: all of a node's (mpirun), one each (srun --gpus-per-task=1, CUDA_VISIBLE_DEVICES, a MIG
 * instance, a container), some of them (one job step per socket). A GPU is told by its UUID, wherever it is seen and
 * under whatever number.
 */
#ifndef BB_CUDA_DEVICE_ASSIGN_H
#define BB_CUDA_DEVICE_ASSIGN_H

#include "bootstrap/base/err.h"

enum { BB_VISIBLE_MAX = 64, BB_UUID_BYTES = 16 };

/* What a rank sees, in the order of its device numbers; plain data, so that ranks exchange it byte by byte. */
struct bb_visible {
    int n;
    unsigned char uuid[BB_VISIBLE_MAX][BB_UUID_BYTES];
};

struct bb_assigned {
    int unassigned; /* the first rank for whom no GPU is left; -1: each has its own  */
    int owner;  /* a rank that has the first GPU which the refused one sees, -1: it sees none */
};

/*
 * bb_devices_assign - ordinal[r] = the device number of rank r, each with a GPU that no other rank has, if that can be
 * done at all; numbers below `first` are left alone. Ranks that see the same GPUs get them in the order of their ranks.
 * Returns 0, or -BB_EFAIL without memory.
 */
int bb_devices_assign(const struct bb_visible *ranks, int n, int first, int *ordinal,
                      struct bb_assigned *assigned) BB_MUST_CHECK;

#endif
