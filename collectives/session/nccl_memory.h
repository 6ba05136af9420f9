/*
 * nccl_memory.h - the allocator of the buffers that NCCL reads and writes (option --buffers). NCCL can register memory
 * of ncclMemAlloc: CUDA graphs and NVSwitch use such buffers without a copy. NCCL cannot register memory of cudaMalloc.
 */
#ifndef BB_COLLECTIVES_SESSION_NCCL_MEMORY_H
#define BB_COLLECTIVES_SESSION_NCCL_MEMORY_H

#include "cuda/data/buffers.h"

#include <stdbool.h>

/* bb_nccl_memory - return the allocator for name "nccl" or "cuda"; NULL selects "nccl". */
const struct bb_allocator *bb_nccl_memory(const char *name);

/*
 * bb_nccl_memory_falls_back - test by allocating one byte whether ncclMemAlloc uses cudaMalloc on the current device.
 * NCCL does so if the driver lacks the cuMem functions or NCCL_CUMEM_ENABLE=0.
 *   from        allocator to test; always false for "cuda"
 *   falls_back  out: whether the memory comes from cudaMalloc
 *   Returns     0, or a negative error code if the allocation fails
 */
int bb_nccl_memory_falls_back(const struct bb_allocator *from, bool *falls_back) BB_MUST_CHECK;

#endif
