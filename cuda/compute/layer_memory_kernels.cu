/*
 * layer_memory_kernels.cu - selects the CUDA kernel and the launch configuration for each kind of memory-bound kernel.
 * An access is one load or store of up to 16 bytes. A grid has at most MAX_BLOCKS blocks, which fill any GPU; the
 * kernels loop over the remaining work (grid-stride loops).
 */
#include "cuda/compute/layer_memory_kernels.h"

#include "cuda/compute/layer_kernels.cuh"
#include "cuda/device/check.h"
#include "cuda/device/kernel_load.h"

static const uint64_t MAX_BLOCKS = 4096;

typedef void kernel(struct bb_memory_kernel);

/* Launch configuration: grid, block and bytes of shared memory. */
struct shape {
    dim3 grid, block;
    size_t shared_bytes;
};

static struct shape blocks_for(uint64_t items, uint64_t items_per_block, dim3 block)
{
    uint64_t blocks = (items + items_per_block - 1) / items_per_block;

    return {dim3((unsigned)(blocks < MAX_BLOCKS ? blocks : MAX_BLOCKS)), block, 0};
}

/* Returns the launch configuration for an array without row structure: one thread per memory access. items: number
 * of memory accesses. */
static struct shape flat(uint64_t items)
{
    return blocks_for(items, BB_LAYER_THREADS, dim3(BB_LAYER_THREADS));
}

/* Returns the launch configuration for rows of `words` memory accesses each: blockDim.x threads (whole warps)
 * process one row; blockDim.y is the number of rows per block. */
static struct shape by_rows(uint64_t rows, uint64_t words)
{
    unsigned along = words >= BB_LAYER_THREADS ? BB_LAYER_THREADS : (unsigned)((words + 31) / 32 * 32);

    while (BB_LAYER_THREADS % along)
        along += 32;
    return blocks_for(rows, BB_LAYER_THREADS / along, dim3(along, BB_LAYER_THREADS / along));
}

static struct shape shape_of(const struct bb_memory_kernel *p)
{
    const uint64_t bytes = bb_dtypes[p->dtype].bytes, unit = (uint64_t)p->unit;
    struct shape s;

    switch (p->kind) {
    case BB_MEMORY_KERNEL_COPY:
        return flat(p->rows * p->cols * bytes / unit);
    case BB_MEMORY_KERNEL_EMBED:
    case BB_MEMORY_KERNEL_PERMUTE:
        return by_rows(p->rows, p->cols * bytes / unit);
    case BB_MEMORY_KERNEL_UNPERMUTE:
        return by_rows(p->rows, p->cols / unit);
    case BB_MEMORY_KERNEL_PACK:
    case BB_MEMORY_KERNEL_UNPACK:
        return flat(p->rows * bb_box_cells(&p->box) * bytes / unit);
    case BB_MEMORY_KERNEL_UNPACK_ADD:
        return flat(p->rows * bb_box_cells(&p->box));
    case BB_MEMORY_KERNEL_LAYER_NORM:
    case BB_MEMORY_KERNEL_LAYER_NORM_GRAD:
        s = blocks_for(p->rows, 1, dim3(BB_LAYER_THREADS));
        s.shared_bytes = 32 * sizeof(float);
        if (p->kind == BB_MEMORY_KERNEL_LAYER_NORM && p->cached)
            s.shared_bytes += p->cols * bytes;
        return s;
    default:
        return flat((p->rows * p->cols + unit - 1) / unit);
    }
}

enum { TYPES = 3 };

#define SAME(name)                                                                                                     \
    {                                                                                                                  \
        bb_##name##_kernel, bb_##name##_kernel, bb_##name##_kernel                                                     \
    }
#define TYPED(name)                                                                                                    \
    {                                                                                                                  \
        bb_##name##_float_kernel, bb_##name##_half_kernel, bb_##name##_bfloat16_kernel                                 \
    }

/* [kind][type] CUDA kernel for each enum bb_memory_kernel_kind and element type. */
static kernel *const kernels[][TYPES] = {
    SAME(copy),      SAME(gather),           SAME(gather),  TYPED(unpermute), SAME(box),
    SAME(box),       TYPED(box_add),         TYPED(affine), TYPED(affine),    TYPED(layer_norm),
    TYPED(act_grad), TYPED(layer_norm_grad), TYPED(update), TYPED(update),    TYPED(update),
};
static_assert(sizeof(kernels) / sizeof(kernels[0]) == BB_MEMORY_KERNEL_KINDS, "one row per kind of kernel");

int bb_memory_kernels_load(void)
{
    return bb_kernel_table_load((const void *const *)&kernels[0][0], BB_MEMORY_KERNEL_KINDS * TYPES);
}

int bb_memory_kernel_run(const struct bb_memory_kernel *memory_kernel, cudaStream_t stream)
{
    struct bb_memory_kernel p = *memory_kernel;
    const bool is_box =
        p.kind == BB_MEMORY_KERNEL_PACK || p.kind == BB_MEMORY_KERNEL_UNPACK || p.kind == BB_MEMORY_KERNEL_UNPACK_ADD;
    const int type = p.dtype == BB_FLOAT ? 0 : p.dtype == BB_HALF ? 1 : p.dtype == BB_BFLOAT16 ? 2 : -1;

    if (type < 0)
        return bb_err(BB_EUSAGE, "kernel %s does not support %s: expected float, half or bfloat16",
                      bb_memory_kernel_name(p.kind), bb_dtypes[p.dtype].name);
    if (p.rows == 0 || (is_box ? bb_box_cells(&p.box) : p.cols) == 0)
        return 0;
    bb_memory_kernel_prepare(&p);
    const struct shape s = shape_of(&p);
    void *args[] = {&p};
    return BB_CUDA(
        cudaLaunchKernel((const void *)kernels[p.kind][type], s.grid, s.block, args, s.shared_bytes, stream));
}
