/* buffers.c - see buffers.h. */
#include "cuda/data/buffers.h"

#include "bootstrap/base/units.h"
#include "cuda/data/kernels.h"
#include "cuda/device/check.h"

static const size_t ALIGN = 256;
static const unsigned char CANARY = 0xc5;

size_t bb_guarded_bytes(size_t bytes)
{
    return bytes == 0 ? 0 : bb_round_up(bytes, ALIGN) + 2 * BB_GUARD_BYTES;
}

size_t bb_guarded_device_bytes(size_t bytes, const struct bb_allocator *from)
{
    return bytes == 0 ? 0 : from->device_bytes(bb_guarded_bytes(bytes));
}

static int alloc_cuda(void **memory, size_t bytes)
{
    return BB_CUDA(cudaMalloc(memory, bytes));
}

static void free_cuda(void *memory)
{
    (void)cudaFree(memory);
}

static size_t device_bytes_cuda(size_t bytes)
{
    return bytes;
}

const struct bb_allocator bb_cuda_allocator = {"cuda", alloc_cuda, free_cuda, device_bytes_cuda};

int bb_guarded_place(struct bb_guarded *b, void *memory, size_t bytes, cudaStream_t stream)
{
    int rc;

    *b = (struct bb_guarded){0};
    if (bytes == 0)
        return 0;
    b->area = (unsigned char *)memory + BB_GUARD_BYTES;
    b->bytes = bytes;
    TRY(BB_CUDA(cudaMemsetAsync(memory, CANARY, BB_GUARD_BYTES, stream)));
    TRY(BB_CUDA(cudaMemsetAsync(b->area + bytes, CANARY, bb_round_up(bytes, ALIGN) - bytes + BB_GUARD_BYTES, stream)));
out:
    return rc;
}

int bb_guarded_init(struct bb_guarded *b, size_t bytes, const struct bb_allocator *from, cudaStream_t stream)
{
    void *memory = NULL;
    int rc;

    *b = (struct bb_guarded){0};
    if (bytes == 0)
        return 0;
    TRY(from->alloc(&memory, bb_guarded_bytes(bytes)));
    rc = bb_guarded_place(b, memory, bytes, stream);
    b->base = memory;
    b->from = from;
    TRY(rc);
    return 0;
out:
    bb_guarded_release(b);
    return rc;
}

void bb_guarded_release(struct bb_guarded *b)
{
    if (b->base)
        b->from->free(b->base);
    *b = (struct bb_guarded){0};
}

int bb_guarded_check_guards(const struct bb_guarded *b, struct bb_verdict *verdict, cudaStream_t stream)
{
    int rc;

    if (b->bytes == 0)
        return 0;
    TRY(bb_check_bytes(b->area - BB_GUARD_BYTES, BB_GUARD_BYTES, CANARY, verdict, stream));
    TRY(bb_check_bytes(b->area + b->bytes, bb_round_up(b->bytes, ALIGN) - b->bytes + BB_GUARD_BYTES, CANARY, verdict,
                       stream));
out:
    return rc;
}

int bb_memory_refuse(size_t bytes, size_t available, const char *what_would_help)
{
    char need[BB_BYTES_TEXT], have[BB_BYTES_TEXT];

    return bb_err(BB_EUSAGE, "%zu bytes of GPU memory needed (%s) but %zu available (%s): %s", bytes,
                  bb_format_bytes(bytes, need), available, bb_format_bytes(available, have), what_would_help);
}
