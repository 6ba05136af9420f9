/*
 * device_args.h - the argument of the kernels on NCCL's device API, shared by the launcher, the kernels and the GPU
 * emulator (tests/emulator/kernels). C++, because NCCL's struct ncclDevComm is. Include NCCL's device headers before.
 */
#ifndef BB_COLLECTIVES_OPS_DEVICE_ARGS_H
#define BB_COLLECTIVES_OPS_DEVICE_ARGS_H

#include "collectives/ops/device_support.h"

#include <stddef.h>
#include <stdint.h>

/* GIN: the layout of NCCL's structs changed up to 2.30.7, whose kernels run with later versions. */
#define BB_DEVICE_HAS_GIN (NCCL_VERSION_CODE >= 23007)

struct bb_device_args {
    ncclDevComm comm;
    ncclWindow_t window; /* contains the send and the receive buffer */
    size_t send, recv;   /* offsets of the buffers in the window, equal on all ranks */
    size_t scratch;      /* offset of memory for partial sums in the window: bb_device_scratch_bytes */
    size_t count;        /* count argument of the NCCL call, in elements */
    int dtype;           /* enum bb_dtype_id */
    int element_bytes;   /* of dtype */
    bool hybrid;         /* kernels of GIN: load and store accesses within the node */
    bool element_wise;   /* access elements one by one; false: 16 bytes at a time where the alignment allows it */
};

#endif
