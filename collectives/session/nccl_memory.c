/* nccl_memory.c - see nccl_memory.h. */
#include "collectives/session/nccl_memory.h"

#include "bootstrap/world/comms.h"

#include <string.h>

static int alloc_nccl(void **memory, size_t bytes)
{
    return BB_NCCL(ncclMemAlloc(memory, bytes));
}

static void free_nccl(void *memory)
{
    (void)ncclMemFree(memory);
}

static const struct bb_allocator nccl_allocator = {"nccl", alloc_nccl, free_nccl};

const struct bb_allocator *bb_nccl_memory(const char *word)
{
    return word && strcmp(word, bb_cuda_allocator.name) == 0 ? &bb_cuda_allocator : &nccl_allocator;
}
