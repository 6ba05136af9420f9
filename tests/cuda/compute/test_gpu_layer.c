/*
 * test_gpu_layer.c - every memory-bound kernel on the GPU against its CPU reference. On emulated GPUs the CPU twins are
 * that reference, so the test checks the launches (which kernel, which type); on real GPUs it checks the kernels. Exits
 * with 77 (skipped) without a GPU.
 */
#include "cuda/compute/layer_memory_kernels.h"
#include "memory_kernel_cases.h"
#include "tests/cuda/gpu.h"

#include <string.h>

enum { MARGIN = 64 }; /* at most the margin around each array in memory_kernel_cases.c */

struct mirror {
    struct bb_memory_kernel_array array;
    char *host, *memory;
    size_t bytes, shift;
};

/* Copies the array with its margins to the device, with the same alignment. */
static int to_device(struct mirror *m, struct bb_memory_kernel *p)
{
    int rc;

    memcpy(&m->host, (const char *)p + m->array.field, sizeof m->host);
    m->shift = (size_t)m->host % 64;
    m->bytes = m->array.bytes + m->shift + 2 * MARGIN;
    TRY(BB_CUDA(cudaMalloc((void **)&m->memory, m->bytes)));
    TRY(BB_CUDA(cudaMemcpy(m->memory, m->host - m->shift - MARGIN, m->bytes, cudaMemcpyHostToDevice)));
    bb_memory_kernel_set(p, &m->array, m->memory + MARGIN + m->shift);
out:
    return rc;
}

static int from_device(struct mirror *m, int rc)
{
    if (rc == 0)
        rc = BB_CUDA(cudaMemcpy(m->host - m->shift - MARGIN, m->memory, m->bytes, cudaMemcpyDeviceToHost));
    (void)cudaFree(m->memory);
    return rc;
}

static int run_on_gpu(void *arg, const struct bb_memory_kernel *memory_kernel)
{
    struct bb_memory_kernel_array arrays[BB_MEMORY_KERNEL_ARRAYS];
    struct mirror mirrors[BB_MEMORY_KERNEL_ARRAYS] = {{{0}, NULL, NULL, 0, 0}};
    struct bb_memory_kernel p = *memory_kernel;
    int n = bb_memory_kernel_arrays(memory_kernel, arrays), rc = 0;

    (void)arg;
    for (int i = 0; i < n && rc == 0; i++) {
        mirrors[i].array = arrays[i];
        rc = to_device(&mirrors[i], &p);
    }
    if (rc == 0)
        rc = bb_memory_kernel_run(&p, NULL);
    if (rc == 0)
        rc = BB_CUDA(cudaDeviceSynchronize());
    for (int i = 0; i < n; i++)
        rc = from_device(&mirrors[i], rc);
    return rc;
}

int main(void)
{
    struct bb_device_info device;
    struct memory_kernel_totals t;
    int rc = gpu_choose(&device);

    if (rc)
        return rc;
    t = memory_kernel_cases_each(run_on_gpu, NULL);
    printf("%s: %d kernels, %d differ from the reference%s\n", device.name, t.cases, t.failed,
           device.emulated ? " (emulated: launches, not kernels)" : "");
    /* compute-sanitizer --leak-check reports leaks when the context ends */
    return cudaDeviceReset() != cudaSuccess || t.rc != 0 || t.failed > 0;
}
