/*
 * sources.cpp - the sources of busbar's kernels, compiled for the CPU, for the emulated GPUs. fast_*.c do the same in
 * one loop each, for EMU_KERNELS=fast; twins.c selects.
 */
#include "host_gpu.h"

/* The kernels' dynamic shared memory: the maximum of a launch without an opt-in. */
alignas(16) thread_local float bb_layer_shared[((48 << 10) + HOST_GPU_GUARD_BYTES) / sizeof(float)];
thread_local int64_t bb_busy_now[1 + HOST_GPU_GUARD_BYTES / sizeof(int64_t)];

#include "cuda/compute/busy_kernels.cuh"
#include "cuda/compute/start_barrier_kernel.cuh"
#include "cuda/compute/layer_kernels.cuh"
#include "cuda/data/data_kernels.cuh"
#include "twins.h"

#include <stdio.h>
#include <stdlib.h>

static struct host_gpu_launch launch_of(const struct emu_launch *l, const char *name, void (*body)(const void *))
{
    struct host_gpu_launch h = {};

    h.name = name;
    h.grid = l->grid;
    h.block = l->block;
    h.body = body;
    h.args = l->args[0];
    h.shared_bytes = l->shared_bytes;
    h.start_ns = l->start_ns;
    h.lasts_ns = l->end_ns - l->start_ns;
    h.tick_ns = h.lasts_ns / 64;
    return h;
}

template <typename A, void (*K)(A)> static void run(struct emu_launch *l, const char *name)
{
    const struct host_gpu_launch h = launch_of(l, name, host_gpu_thread<A, K>);

    l->end_ns = host_gpu_run(&h);
}

template <void (*K)(struct bb_memory_kernel)> static void run_memory_kernel(struct emu_launch *l, const char *name)
{
    struct host_gpu_launch h = launch_of(l, name, host_gpu_thread<struct bb_memory_kernel, K>);

    h.shared = reinterpret_cast<unsigned char *>(bb_layer_shared);
    h.shared_capacity = sizeof bb_layer_shared;
    (void)host_gpu_run(&h);
}

/* Each portion is read and written. */
static constexpr double portion_bytes = 2.0 * BB_BUSY_THREADS * BB_BUSY_WORDS * sizeof(uint4);

/* Traffic of many milliseconds would take minutes on the CPU: unless EMU_KERNELS is set, only the first portions
 * run. */
static bool is_long_traffic(const struct emu_launch *l)
{
    enum { MOST_BYTES = 4 << 20 };
    const char *asked = getenv("EMU_KERNELS");
    const struct bb_busy_args *a = &EMU_ARG(l, 0, struct bb_busy_args);

    return !(asked && *asked) && a->bytes_per_ns * (double)a->ns * l->grid.x > MOST_BYTES;
}

/* The clock is read often enough to keep the rate. */
static struct host_gpu_launch busy_launch(const struct emu_launch *l, const char *name, const struct bb_busy_args *a)
{
    struct host_gpu_launch h = launch_of(l, name, host_gpu_thread<struct bb_busy_args, bb_busy_kernel>);
    const double portion_ns = portion_bytes / a->bytes_per_ns;

    h.args = a;
    h.lasts_ns = a->ns;
    h.tick_ns = h.lasts_ns / 64;
    h.shared = reinterpret_cast<unsigned char *>(bb_busy_now);
    h.shared_capacity = sizeof bb_busy_now;
    if (portion_ns < 2.0 * (double)h.tick_ns)
        h.tick_ns = (int64_t)(portion_ns / 2);
    return h;
}

/*
 * Runs the source for the first portions of one block, in the launch's own grid; each launch uses another block. The
 * source must keep the rate that the fast twin assumes. The fast twin accounts for the rest of the launch.
 */
static void run_beginning(const struct emu_launch *l, const char *name)
{
    enum { PORTIONS = 3 };
    struct bb_busy_report report = {~0ull, 0, 0, 0};
    struct bb_busy_args a = EMU_ARG(l, 0, struct bb_busy_args);
    const double slice_ns = PORTIONS * portion_bytes / a.bytes_per_ns;

    a.ns = slice_ns < (double)a.ns ? (int64_t)slice_ns : a.ns;
    a.report = &report;
    struct host_gpu_launch h = busy_launch(l, name, &a);
    h.tick_ns = a.ns / (2 * PORTIONS);
    h.alone = true;
    h.number = (unsigned)((uint64_t)l->start_ns / 1000 % l->grid.x);
    const int64_t end_ns = host_gpu_run(&h);
    const double off_bytes = (double)report.bytes - a.bytes_per_ns * (double)a.ns;
    if (end_ns != l->start_ns + a.ns || report.blocks != 1 || off_bytes < -portion_bytes || off_bytes > portion_bytes) {
        fprintf(stderr, "emulated GPUs: kernel %s: in %lld ns a block moved %llu bytes, expected %g\n", name,
                (long long)a.ns, report.bytes, a.bytes_per_ns * (double)a.ns);
        abort();
    }
}

static void run_busy(struct emu_launch *l, const char *name)
{
    const struct bb_busy_args *a = &EMU_ARG(l, 0, struct bb_busy_args);
    const bool part = emu_moves_data() && is_long_traffic(l);

    if (part)
        run_beginning(l, name);
    if (part || !emu_moves_data()) {
        count_traffic(l);
        return;
    }
    const struct host_gpu_launch h = busy_launch(l, name, a);
    l->end_ns = host_gpu_run(&h);
}

/*
 * The kernel ends when the host opens the start barrier. The timeout uses the machine's clock, because virtual time does
 * not advance while the host is idle. A start barrier that timed out has lasted as long as its timeout.
 */
static void run_start_barrier(struct emu_launch *l, const char *name)
{
    const struct bb_start_barrier_args *a = &EMU_ARG(l, 0, struct bb_start_barrier_args);
    struct host_gpu_launch h = launch_of(l, name, host_gpu_thread<struct bb_start_barrier_args, bb_start_barrier_kernel>);

    h.is_stopping = emu_stopping;
    (void)host_gpu_run(&h);
    start_barrier_ends(l, __atomic_load_n(&a->flags->expired, __ATOMIC_ACQUIRE) == a->number);
}

#define KERNEL(kernel, run)                                                                                            \
    {                                                                                                                  \
#kernel, [](struct emu_launch * l) { run(l, #kernel); }                                                        \
    }
#define PLAIN(kernel, A)                                                                                               \
    {                                                                                                                  \
#kernel, [](struct emu_launch * l) { run<A, kernel>(l, #kernel); }                                             \
    }
#define PASS(kernel)  KERNEL(kernel, run_memory_kernel<kernel>)
#define TYPED(kernel) PASS(kernel##_float_kernel), PASS(kernel##_half_kernel), PASS(kernel##_bfloat16_kernel)

const struct kernel_source *kernel_sources(size_t *n)
{
    static const struct kernel_source sources[] = {
        PLAIN(bb_fill_kernel, struct bb_fill_args),
        PLAIN(bb_check_kernel, struct bb_check_args),
        PLAIN(bb_check_bytes_kernel, struct bb_check_bytes_args),
        PLAIN(bb_verdict_clear_kernel, struct bb_verdict *),
        KERNEL(bb_start_barrier_kernel, run_start_barrier),
        KERNEL(bb_busy_kernel, run_busy),
        PLAIN(bb_hold_kernel, struct bb_busy_args),
        PLAIN(bb_busy_clear_kernel, struct bb_busy_report *),
        PASS(bb_copy_kernel),
        PASS(bb_gather_kernel),
        PASS(bb_box_kernel),
        TYPED(bb_affine),
        TYPED(bb_layer_norm),
        TYPED(bb_act_grad),
        TYPED(bb_layer_norm_grad),
        TYPED(bb_unpermute),
        TYPED(bb_box_add),
        TYPED(bb_update),
    };

    *n = sizeof sources / sizeof *sources;
    return sources;
}
