/*
 * nccl_memory.h - the allocators of the buffers that NCCL reads and writes (option --buffers). NCCL can register memory
 * from ncclMemAlloc for all transports, so CUDA graphs and NVLS use these buffers without copying them. NCCL can
 * register memory from cudaMalloc only for some transports, for example IB SHARP: not for NVLS, and by default not for
 * transfers inside a node.
 */
#ifndef BB_COLLECTIVES_SESSION_NCCL_MEMORY_H
#define BB_COLLECTIVES_SESSION_NCCL_MEMORY_H

#include "cuda/data/buffers.h"

#include <stdbool.h>

/* bb_nccl_memory - return the allocator with this name: "nccl" (ncclMemAlloc) or "cuda" (cudaMalloc); NULL: "nccl". */
const struct bb_allocator *bb_nccl_memory(const char *name);

/*
 * bb_nccl_memory_falls_back - determine by a test allocation whether ncclMemAlloc uses cudaMalloc on the current
 * device. ncclMemAlloc does so if the driver lacks the cuMem functions or if NCCL_CUMEM_ENABLE=0.
 *   from        allocator to test
 *   falls_back  out: whether ncclMemAlloc uses cudaMalloc; false for the allocator "cuda"
 *   Returns     0, or a negative error code if the allocation fails
 */
int bb_nccl_memory_falls_back(const struct bb_allocator *from, bool *falls_back) BB_MUST_CHECK;

#endif
