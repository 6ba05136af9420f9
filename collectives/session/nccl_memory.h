/*
 * nccl_memory.h - where buffers that NCCL reads and writes come from, as the option --buffers names it. ncclMemAlloc
 * gives memory that NCCL can register: graphs and NVSwitch use it without a copy, cudaMalloc's they do not.
 */
#ifndef BB_COLLECTIVES_SESSION_NCCL_MEMORY_H
#define BB_COLLECTIVES_SESSION_NCCL_MEMORY_H

#include "cuda/data/buffers.h"

/* bb_nccl_memory - of the word "nccl" or "cuda"; NULL is nccl. */
const struct bb_allocator *bb_nccl_memory(const char *word);

#endif
