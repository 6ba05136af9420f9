/*
 * test_layer_kernels.cpp - the source of the GPU kernels (cuda/compute/layer_kernels.cuh), run thread by thread on the
 * CPU and compared with the reference, on grids of unusual sizes: indices, strides, access widths, remainders,
 * barriers. test_gpu_layer covers what only a GPU can show (its compiler, its memory).
 */
#include "host_gpu.h"

alignas(16) thread_local float bb_layer_shared[((48 << 10) + HOST_GPU_GUARD_BYTES) / sizeof(float)];

#include "cuda/compute/layer_kernels.cuh"
#include "memory_kernel_cases.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>

extern "C" {
#include <cmocka.h>
}

typedef void kernel(struct bb_memory_kernel);

#define SAME(name)                                                                                                     \
    {                                                                                                                  \
        bb_##name##_kernel, bb_##name##_kernel, bb_##name##_kernel                                                     \
    }
#define TYPED(name)                                                                                                    \
    {                                                                                                                  \
        bb_##name##_float_kernel, bb_##name##_half_kernel, bb_##name##_bfloat16_kernel                                 \
    }

static kernel *const kernels[BB_MEMORY_KERNEL_KINDS][3] = {
    SAME(copy),      SAME(gather),           SAME(gather),  TYPED(unpermute), SAME(box),
    SAME(box),       TYPED(box_add),         TYPED(affine), TYPED(affine),    TYPED(layer_norm),
    TYPED(act_grad), TYPED(layer_norm_grad), TYPED(update), TYPED(update),    TYPED(update),
};

static void call_kernel(const void *args)
{
    const struct bb_memory_kernel *p = static_cast<const struct bb_memory_kernel *>(args);
    const int type = p->dtype == BB_FLOAT ? 0 : p->dtype == BB_HALF ? 1 : 2;

    kernels[p->kind][type](*p);
}

/* Row kernels process several rows per block; the other kernels do not use threadIdx.y. */
static bool is_by_rows(const struct bb_memory_kernel *p)
{
    return p->kind == BB_MEMORY_KERNEL_EMBED || p->kind == BB_MEMORY_KERNEL_PERMUTE ||
           p->kind == BB_MEMORY_KERNEL_UNPERMUTE;
}

struct plan {
    int wrong_case;             /* number of the case that gets a wrong byte; -1: none */
    int cases, width_cases[17]; /* [access width in bytes] number of cases */
};

static int run_on_cpu(void *arg, const struct bb_memory_kernel *memory_kernel)
{
    struct plan *plan = static_cast<struct plan *>(arg);
    struct host_gpu_launch launch = {};
    struct bb_memory_kernel p = *memory_kernel;

    bb_memory_kernel_prepare(&p);
    plan->width_cases[p.unit]++;
    launch.name = bb_memory_kernel_name(p.kind);
    launch.grid = dim3(3);
    launch.block = is_by_rows(memory_kernel) ? dim3(32, 2) : dim3(64);
    launch.body = call_kernel;
    launch.args = &p;
    launch.shared = reinterpret_cast<unsigned char *>(bb_layer_shared);
    launch.shared_capacity = sizeof bb_layer_shared;
    launch.shared_bytes = 48 << 10;
    host_gpu_run(&launch);
    if (plan->cases++ == plan->wrong_case)
        static_cast<unsigned char *>(memory_kernel->out)[0] ^= 0x40;
    return 0;
}

static void kernels_match_the_reference(void **)
{
    struct plan plan = {-1, 0, {0}};
    const struct memory_kernel_totals t = memory_kernel_cases_each(run_on_cpu, &plan);

    assert_int_equal(t.failed, 0);
    assert_int_equal(t.cases, (12 * 7 + 3 * 6) * 3 * 2);
    for (int unit = 1; unit <= 16; unit *= 2) /* all access widths were used */
        assert_true(plan.width_cases[unit] > 0);
}

static void detects_a_wrong_byte(void **)
{
    struct plan plan = {5, 0, {0}};

    assert_int_equal(memory_kernel_cases_each(run_on_cpu, &plan).failed, 1);
}

int main()
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(kernels_match_the_reference),
        cmocka_unit_test(detects_a_wrong_byte),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
