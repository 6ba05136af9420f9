/* start_barrier.cu - see start_barrier.h. */
#include "cuda/compute/start_barrier_kernel.cuh"
#include "cuda/device/check.h"
#include "cuda/device/kernel_load.h"

int bb_start_barrier_load(void)
{
    static const void *const kernel = (const void *)bb_start_barrier_kernel;

    return bb_kernel_table_load(&kernel, 1);
}

int bb_start_barrier_init(struct bb_start_barrier *g, int64_t limit_ns)
{
    void *flags = NULL;
    int rc = BB_CUDA(cudaHostAlloc(&flags, sizeof *g->flags, cudaHostAllocMapped));

    g->flags = static_cast<struct bb_start_barrier_flags *>(flags);
    g->limit_ns = limit_ns;
    g->closed = 0;
    if (rc == 0)
        *g->flags = {0, 0};
    return rc;
}

void bb_start_barrier_release(struct bb_start_barrier *g)
{
    if (!g->flags)
        return;
    bb_start_barrier_open(g);
    (void)cudaFreeHost(g->flags);
    g->flags = NULL;
}

int bb_start_barrier_close(struct bb_start_barrier *g, cudaStream_t stream)
{
    struct bb_start_barrier_args args = {g->flags, ++g->closed, g->limit_ns};

    bb_start_barrier_kernel<<<1, 1, 0, stream>>>(args);
    return BB_CUDA(cudaGetLastError());
}

void bb_start_barrier_open(struct bb_start_barrier *g)
{
    __atomic_store_n(&g->flags->opened, g->closed, __ATOMIC_RELEASE);
}

bool bb_start_barrier_expired(const struct bb_start_barrier *g)
{
    return g->closed > 0 && __atomic_load_n(&g->flags->expired, __ATOMIC_ACQUIRE) == g->closed;
}
