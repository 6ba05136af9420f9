/* start_barrier.cu - see start_barrier.h. */
#include "cuda/compute/start_barrier_kernel.cuh"
#include "cuda/device/check.h"
#include "cuda/device/kernel_load.h"

int bb_gate_load(void)
{
    static const void *const kernel = (const void *)bb_gate_kernel;

    return bb_kernel_table_load(&kernel, 1);
}

int bb_gate_init(struct bb_gate *g, int64_t limit_ns)
{
    void *words = NULL;
    int rc = BB_CUDA(cudaHostAlloc(&words, sizeof *g->words, cudaHostAllocMapped));

    g->words = static_cast<struct bb_gate_words *>(words);
    g->limit_ns = limit_ns;
    g->closed = 0;
    if (rc == 0)
        *g->words = {0, 0};
    return rc;
}

void bb_gate_release(struct bb_gate *g)
{
    if (!g->words)
        return;
    bb_gate_open(g);
    (void)cudaFreeHost(g->words);
    g->words = NULL;
}

int bb_gate_close(struct bb_gate *g, cudaStream_t stream)
{
    struct bb_gate_args args = {g->words, ++g->closed, g->limit_ns};

    bb_gate_kernel<<<1, 1, 0, stream>>>(args);
    return BB_CUDA(cudaGetLastError());
}

void bb_gate_open(struct bb_gate *g)
{
    __atomic_store_n(&g->words->opened, g->closed, __ATOMIC_RELEASE);
}

bool bb_gate_expired(const struct bb_gate *g)
{
    return g->closed > 0 && __atomic_load_n(&g->words->expired, __ATOMIC_ACQUIRE) == g->closed;
}
