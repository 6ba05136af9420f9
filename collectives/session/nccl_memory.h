/*
 * nccl_memory.h - where buffers that NCCL reads and writes come from, as the option --buffers names it. ncclMemAlloc
 * gives memory that NCCL can register: graphs and NVSwitch use it without a copy, cudaMalloc's they do not.
 */
#ifndef BB_COLLECTIVES_SESSION_NCCL_MEMORY_H
#define BB_COLLECTIVES_SESSION_NCCL_MEMORY_H

#include "cuda/data/buffers.h"

#include <stdbool.h>

/* bb_nccl_memory - of the word "nccl" or "cuda"; NULL is nccl. */
const struct bb_allocator *bb_nccl_memory(const char *word);

/*
 * bb_nccl_memory_falls_back - whether what ncclMemAlloc gives on the current device is cudaMalloc's: it does so where
 * the driver has no cuMem functions, or NCCL_CUMEM_ENABLE=0. Asks for a byte to know.
 */
int bb_nccl_memory_falls_back(const struct bb_allocator *from, bool *falls_back) BB_MUST_CHECK;

#endif
