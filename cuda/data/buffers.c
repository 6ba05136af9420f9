/* buffers.c - device memory between two guard zones. */
#include "cuda/data/buffers.h"

#include "bootstrap/base/units.h"
#include "cuda/data/kernels.h"
#include "cuda/device/check.h"

static const size_t ALIGN = 256;
static const unsigned char CANARY = 0xc5;

size_t bb_guarded_cost(size_t bytes)
{
    return bytes == 0 ? 0 : bb_round_up(bytes, ALIGN) + 2 * BB_GUARD_BYTES;
}

int bb_guarded_init(struct bb_guarded *b, size_t bytes, cudaStream_t stream)
{
    int rc;

    *b = (struct bb_guarded){0};
    if (bytes == 0)
        return 0;
    TRY(BB_CUDA(cudaMalloc(&b->base, bb_guarded_cost(bytes))));
    b->area = (unsigned char *)b->base + BB_GUARD_BYTES;
    b->bytes = bytes;
    TRY(BB_CUDA(cudaMemsetAsync(b->base, CANARY, BB_GUARD_BYTES, stream)));
    TRY(BB_CUDA(cudaMemsetAsync(b->area + bytes, CANARY, bb_round_up(bytes, ALIGN) - bytes + BB_GUARD_BYTES, stream)));
    return 0;
out:
    bb_guarded_release(b);
    return rc;
}

void bb_guarded_release(struct bb_guarded *b)
{
    if (b->base)
        (void)cudaFree(b->base);
    *b = (struct bb_guarded){0};
}

int bb_guarded_check_guards(const struct bb_guarded *b, struct bb_verdict *verdict, cudaStream_t stream)
{
    int rc;

    if (!b->base)
        return 0;
    TRY(bb_check_bytes(b->base, BB_GUARD_BYTES, CANARY, verdict, stream));
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
