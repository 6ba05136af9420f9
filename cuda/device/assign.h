/*
 * assign.h - assigns each rank one of the GPUs that are visible to it. No CUDA calls.
 *
 * The set of visible GPUs depends on the launcher: all GPUs of a node (mpirun), one GPU per rank (srun
 * --gpus-per-task=1, CUDA_VISIBLE_DEVICES, a MIG instance, a container), or some GPUs of a node (one job step per
 * socket). A GPU is identified by its UUID, because device numbers differ between ranks.
 */
#ifndef BB_CUDA_DEVICE_ASSIGN_H
#define BB_CUDA_DEVICE_ASSIGN_H

#include <stdbool.h>

enum { BB_VISIBLE_MAX = 64, BB_UUID_BYTES = 16 };

/* GPUs visible to a rank, in the order of its device numbers. Contains no pointers, so that ranks can exchange the
 * struct by value. */
struct bb_visible {
    int n;
    bool has_instances; /* MIG instances, of which CUDA shows a process one */
    bool hides_all;     /* CUDA_VISIBLE_DEVICES lists no GPU */
    bool has_driver;    /* NVIDIA's driver library is installed, so that GPUs are expected */
    unsigned char uuid[BB_VISIBLE_MAX][BB_UUID_BYTES];
};

struct bb_assigned {
    int unassigned; /* lowest rank without a GPU; -1: every rank has a GPU */
    int owner;      /* rank that was assigned the first GPU visible to rank `unassigned`; -1: no GPU is visible to
                  `unassigned` */
};

/*
 * bb_devices_assign - assign every rank a GPU that no other rank has, if such an assignment exists. Ranks with the same
 * visible GPUs get them in rank order.
 *   ranks     [n] visible GPUs of each rank
 *   first     lowest device number to assign
 *   ordinal   [n] out: device number of each rank
 *   assigned  out: whether every rank has a GPU, and the conflict if not
 */
void bb_devices_assign(const struct bb_visible *ranks, int n, int first, int *ordinal, struct bb_assigned *assigned);

#endif
