/*
 * fast_compute.c - fast twins of the memory-bound kernels (cuda/compute/layer_kernels.cuh) and of the timed compute
 * kernel (cuda/compute/busy_kernels.cuh). A memory-bound kernel runs its CPU reference and takes the time of its bytes;
 * the timed kernel takes the requested time.
 */
#include "twins.h"

#include "cuda/compute/busy_args.h"
#include "tests/cuda/work/memory_kernel_ref.h"

enum {
    COPY = 1 << BB_MEMORY_KERNEL_COPY,
    GATHER = 1 << BB_MEMORY_KERNEL_EMBED | 1 << BB_MEMORY_KERNEL_PERMUTE,
    BOX = 1 << BB_MEMORY_KERNEL_PACK | 1 << BB_MEMORY_KERNEL_UNPACK,
    BOX_ADD = 1 << BB_MEMORY_KERNEL_UNPACK_ADD,
    AFFINE = 1 << BB_MEMORY_KERNEL_BIAS_ACT | 1 << BB_MEMORY_KERNEL_CHANNEL_NORM,
    LAYER_NORM = 1 << BB_MEMORY_KERNEL_LAYER_NORM,
    ACT_GRAD = 1 << BB_MEMORY_KERNEL_BIAS_ACT_GRAD,
    LAYER_NORM_GRAD = 1 << BB_MEMORY_KERNEL_LAYER_NORM_GRAD,
    UNPERMUTE = 1 << BB_MEMORY_KERNEL_UNPERMUTE,
    UPDATE = 1 << BB_MEMORY_KERNEL_ACCUMULATE | 1 << BB_MEMORY_KERNEL_SGD | 1 << BB_MEMORY_KERNEL_ADAM,
};

/* A memory-bound kernel of another kind or type than the kernel implements is not computed, so its result is wrong
 * and visible. */
static void run_memory_kernel(struct emu_launch *l, unsigned kinds, bool typed, enum bb_dtype_id dtype)
{
    const struct bb_memory_kernel *p = &EMU_ARG(l, 0, struct bb_memory_kernel);

    if (kinds >> p->kind & 1 && (!typed || p->dtype == dtype))
        bb_memory_kernel_ref(p);
}

#define RUN(name, kinds, typed, dtype)                                                                                 \
    static void name(struct emu_launch *l)                                                                             \
    {                                                                                                                  \
        run_memory_kernel(l, kinds, typed, dtype);                                                                     \
    }
#define RUN_TYPED(name, kinds)                                                                                         \
    RUN(name##_float, kinds, true, BB_FLOAT)                                                                           \
    RUN(name##_half, kinds, true, BB_HALF)                                                                             \
    RUN(name##_bfloat16, kinds, true, BB_BFLOAT16)

RUN(bb_copy, COPY, false, BB_FLOAT)
RUN(bb_gather, GATHER, false, BB_FLOAT)
RUN(bb_box, BOX, false, BB_FLOAT)
RUN_TYPED(bb_affine, AFFINE)
RUN_TYPED(bb_layer_norm, LAYER_NORM)
RUN_TYPED(bb_act_grad, ACT_GRAD)
RUN_TYPED(bb_layer_norm_grad, LAYER_NORM_GRAD)
RUN_TYPED(bb_unpermute, UNPERMUTE)
RUN_TYPED(bb_box_add, BOX_ADD)
RUN_TYPED(bb_update, UPDATE)

static double memory_kernel_ns(const struct emu_launch *l, const struct emu_profile *p)
{
    return emu_kernel_ns(p, (double)bb_memory_kernel_bytes(&EMU_ARG(l, 0, struct bb_memory_kernel)), 0, 0);
}

/* The contents of the scratch memory never matter, so no data is moved. */
void count_traffic(struct emu_launch *l)
{
    const struct bb_busy_args *a = &EMU_ARG(l, 0, struct bb_busy_args);
    unsigned long long start = (unsigned long long)l->start_ns, end = (unsigned long long)l->end_ns;

    if (!a->report)
        return;
    a->report->start_ns = start < a->report->start_ns ? start : a->report->start_ns;
    a->report->end_ns = end > a->report->end_ns ? end : a->report->end_ns;
    a->report->bytes += (unsigned long long)(a->bytes_per_ns * (double)a->ns * l->grid.x);
    a->report->blocks += l->grid.x;
}

static double busy_ns(const struct emu_launch *l, const struct emu_profile *p)
{
    (void)p;
    return (double)EMU_ARG(l, 0, struct bb_busy_args).ns;
}

static void clear_report(struct emu_launch *l)
{
    *EMU_ARG(l, 0, struct bb_busy_report *) = (struct bb_busy_report){.start_ns = ~0ull};
}

#define PASS(function)                                                                                                 \
    {                                                                                                                  \
        .name = #function "_kernel", .n_args = 1, .arg_bytes = {sizeof(struct bb_memory_kernel)}, .run = function,     \
        .lasts_ns = memory_kernel_ns, .by_memory = true                                                                \
    }
#define TYPED(function) PASS(function##_float), PASS(function##_half), PASS(function##_bfloat16)
#define BUSY(kernel)                                                                                                   \
    {                                                                                                                  \
        .name = kernel, .n_args = 1, .arg_bytes = {sizeof(struct bb_busy_args)}, .run = count_traffic,                 \
        .lasts_ns = busy_ns, .always = true                                                                            \
    }

const struct emu_twin *fast_compute_twins(size_t *n)
{
    static const struct emu_twin twins[] = {
        PASS(bb_copy),
        PASS(bb_gather),
        PASS(bb_box),
        TYPED(bb_affine),
        TYPED(bb_layer_norm),
        TYPED(bb_act_grad),
        TYPED(bb_layer_norm_grad),
        TYPED(bb_unpermute),
        TYPED(bb_box_add),
        TYPED(bb_update),
        BUSY("bb_busy_kernel"),
        BUSY("bb_hold_kernel"),
        {.name = "bb_busy_clear_kernel",
         .n_args = 1,
         .arg_bytes = {sizeof(void *)},
         .run = clear_report,
         .always = true},
    };

    *n = sizeof twins / sizeof *twins;
    return twins;
}
