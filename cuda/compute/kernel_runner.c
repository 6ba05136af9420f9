/* kernel_runner.c - see kernel_runner.h. */
#include "cuda/compute/kernel_runner.h"

#include "bootstrap/base/alloc.h"
#include "bootstrap/base/units.h"
#include "cuda/compute/layer_memory_kernels.h"
#include "cuda/device/check.h"
#include "cuda/device/stream.h"

#include <stdlib.h>
#include <string.h>

static struct bb_kernel_list_memory memory_of(const struct bb_kernel_list *const lists[], int n)
{
    struct bb_kernel_list_memory m = {0};

    for (int i = 0; i < n; i++)
        bb_kernel_list_memory(lists[i], &m);
    return m;
}

size_t bb_kernel_runner_bytes(const struct bb_kernel_list *const lists[], int n)
{
    struct bb_kernel_list_memory m = memory_of(lists, n);

    return bb_kernel_list_memory_bytes(&m);
}

/* ---- generating the operand data ---- */

/* Bytes of operand data that the host generates. The rest of an operand area (device memory that kernels read, write
 * or use as indices) is filled with copies of these data. */
enum { BLOCK_BYTES = 1 << 20 };

static int fill_area(void *area, size_t bytes, const void *block, cudaStream_t stream)
{
    int rc;

    if (bytes == 0)
        return 0;
    TRY(bb_fill_repeated(area, bytes, block, BLOCK_BYTES, stream));
    TRY(BB_CUDA(cudaStreamSynchronize(stream)));
out:
    return rc;
}

/* Returns the smallest number of rows that any kernel reads from. */
static uint64_t min_rows(const struct bb_kernel_runner *w)
{
    uint64_t minimum = INT32_MAX;

    for (int i = 0; i < w->n; i++)
        for (int j = 0; j < w->lists[i]->n; j++) {
            const struct bb_kernel_list_item *item = &w->lists[i]->items[j];
            if (item->is_memory_kernel && item->memory_kernel.in_rows > 0 && item->memory_kernel.in_rows < minimum)
                minimum = item->memory_kernel.in_rows;
        }
    return minimum;
}

static int fill_all(struct bb_kernel_runner *w, cudaStream_t stream)
{
    const uint64_t rows = min_rows(w);
    void *block = bb_resize(NULL, BLOCK_BYTES, 1);
    uint16_t *numbers = block;
    int32_t *indices = block;
    uint32_t seed = 1;
    int rc;

    /* 16-bit patterns from 0x3000 to 0x3bff: as half, values from 0.125 to 1; as bfloat16 or float, small, positive and
     * normal values. */
    for (size_t i = 0; i < BLOCK_BYTES / sizeof *numbers; i++) {
        seed = seed * 1664525 + 1013904223;
        numbers[i] = (uint16_t)(0x3000 + (seed >> 16) % 0xc00);
    }
    TRY(fill_area(w->read, w->memory.read_bytes, block, stream));
    TRY(fill_area(w->write, w->memory.write_bytes, block, stream));
    /* Row indices for gather kernels, valid for all kernels. Consecutive indices refer to rows that are not
     * adjacent. */
    for (uint64_t i = 0; i < BLOCK_BYTES / sizeof *indices; i++)
        indices[i] = (int32_t)(i * 7919 % rows);
    TRY(fill_area(w->index, w->memory.index_count * sizeof *w->index, block, stream));
out:
    free(block);
    return rc;
}

/* ---- planning the GEMMs ---- */

static struct bb_gemm *find_gemm(const struct bb_kernel_runner *w, const struct bb_gemm_shape *s)
{
    for (int i = 0; i < w->n_gemms; i++)
        if (bb_gemm_same_shape(&w->gemms[i].shape, s))
            return &w->gemms[i];
    return NULL;
}

/* Returns the address of matrix B in w->read, the memory that kernels read. */
static const void *b_of(const struct bb_kernel_runner *w, const struct bb_gemm_shape *s)
{
    return w->read + bb_gemm_layout_of(s).b;
}

static int plan_gemm(struct bb_kernel_runner *w, const struct bb_gemm_shape *s, int candidates, cudaStream_t stream)
{
    struct bb_gemm *g = &w->gemms[w->n_gemms];
    int rc;

    if (find_gemm(w, s))
        return 0;
    TRY(bb_gemm_init(g, &w->lib, s));
    w->n_gemms++;
    if (candidates > 1)
        TRY(bb_gemm_tune(g, candidates, 2, w->read, b_of(w, s), w->write, stream, NULL));
out:
    return rc;
}

static int plan_all(struct bb_kernel_runner *w, int candidates, cudaStream_t stream)
{
    int most = 0, rc = 0;

    for (int i = 0; i < w->n; i++)
        most += w->lists[i]->n;
    BB_NEW(w->gemms, most);
    for (int i = 0; i < w->n && rc == 0; i++)
        for (int j = 0; j < w->lists[i]->n && rc == 0; j++)
            if (!w->lists[i]->items[j].is_memory_kernel)
                rc = plan_gemm(w, &w->lists[i]->items[j].gemm, candidates, stream);
    return rc;
}

/* ---- init and release ---- */

static int allocate_area(void *area, size_t bytes)
{
    return bytes == 0 ? 0 : BB_CUDA(cudaMalloc(area, bytes));
}

int bb_kernel_runner_init(struct bb_kernel_runner *w, const struct bb_kernel_list *const lists[], int n, int candidates,
                          cudaStream_t stream)
{
    int rc;

    *w = (struct bb_kernel_runner){.lists = lists, .n = n, .memory = memory_of(lists, n)};
    for (int i = 0; i < n; i++)
        if (lists[i]->overflowed)
            return bb_err(BB_EFAIL, "a layer has more than %d GEMMs and memory-bound kernels", BB_KERNEL_LIST_ITEMS);
    TRY(bb_gemm_lib_init(&w->lib, BB_GEMM_WORKSPACE));
    TRY(allocate_area(&w->read, w->memory.read_bytes));
    TRY(allocate_area(&w->write, w->memory.write_bytes));
    TRY(allocate_area(&w->index, w->memory.index_count * sizeof *w->index));
    TRY(fill_all(w, stream));
    TRY(plan_all(w, candidates, stream));
    return 0;
out:
    bb_kernel_runner_release(w);
    return rc;
}

void bb_kernel_runner_release(struct bb_kernel_runner *w)
{
    for (int i = 0; i < w->n_gemms; i++)
        bb_gemm_release(&w->gemms[i]);
    free(w->gemms);
    if (w->index)
        (void)cudaFree(w->index);
    if (w->write)
        (void)cudaFree(w->write);
    if (w->read)
        (void)cudaFree(w->read);
    bb_gemm_lib_release(&w->lib);
    *w = (struct bb_kernel_runner){0};
}

/* ---- running a kernel list ---- */

static int run_memory_kernel(const struct bb_kernel_runner *w, const struct bb_memory_kernel *memory_kernel,
                             cudaStream_t stream)
{
    struct bb_memory_kernel_array arrays[BB_MEMORY_KERNEL_ARRAYS];
    int n = bb_memory_kernel_arrays(memory_kernel, arrays);
    char *read = w->read, *write = w->write;
    int32_t *index = w->index;
    struct bb_memory_kernel p = *memory_kernel;

    for (int i = 0; i < n; i++) {
        const struct bb_memory_kernel_array *a = &arrays[i];
        void *at = a->content == BB_HOLDS_INDICES ? (void *)index : a->written ? write : read;
        bb_memory_kernel_set(&p, a, at);
        if (a->content == BB_HOLDS_INDICES)
            index += a->count;
        else if (a->written)
            write += bb_round_up(a->bytes, BB_KERNEL_ALIGN);
        else
            read += bb_round_up(a->bytes, BB_KERNEL_ALIGN);
    }
    return bb_memory_kernel_run(&p, stream);
}

int bb_kernel_runner_run(const struct bb_kernel_runner *w, int i, cudaStream_t stream)
{
    int rc = 0;

    for (int j = 0; j < w->lists[i]->n && rc == 0; j++) {
        const struct bb_kernel_list_item *item = &w->lists[i]->items[j];
        const struct bb_gemm_shape *s = &item->gemm;

        rc = item->is_memory_kernel ? run_memory_kernel(w, &item->memory_kernel, stream)
                                    : bb_gemm_run(find_gemm(w, s), w->read, b_of(w, s), w->write, stream);
    }
    return rc;
}
