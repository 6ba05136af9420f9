/*
 * twin.h - CPU twins: what a kernel does and how long it takes, for the kernels of a program that runs on emulated
 * GPUs.
 *
 * A shared object with twins exports one function, emu_twins(), and is named in $EMU_TWINS (several separated by ':').
 * It needs no library of the emulator. Example, for extern "C" __global__ void scale(float *x, float a, size_t n):
 *
 *     static void scale(struct emu_launch *l)
 *     {
 *         float *x = EMU_ARG(l, 0, float *), a = EMU_ARG(l, 1, float);
 *         for (size_t i = 0, n = EMU_ARG(l, 2, size_t); i < n; i++)
 *             x[i] *= a;
 *     }
 *     static double scale_ns(const struct emu_launch *l, const struct emu_profile *p)
 *     {
 *         return emu_kernel_ns(p, 2.0 * sizeof(float) * EMU_ARG(l, 2, size_t), 0, 0);
 *     }
 *     static const struct emu_twin twins[] = {
 *         {.name = "scale", .n_args = 3, .arg_bytes = {8, 4, 8}, .run = scale, .lasts_ns = scale_ns},
 *     };
 *     const struct emu_twin *emu_twins(size_t *n)
 *     {
 *         *n = sizeof(twins) / sizeof(twins[0]);
 *         return twins;
 *     }
 */
#ifndef EMU_TWIN_H
#define EMU_TWIN_H

#include "engine.h"

#ifdef __cplusplus
extern "C" {
#endif

enum { EMU_TWIN_ARGS = 24 };

/* One launch. Pointers among the arguments may be read and written: device memory is memory of the process. */
struct emu_launch {
    dim3 grid, block;
    size_t shared_bytes;
    void *const *args; /* [n_args] each points to this launch's copy of an argument, aligned to 16 bytes */
    int device;
    int64_t start_ns; /* the GPU's timer when the kernel starts */
    int64_t end_ns; /* and when it ends: start + lasts_ns; run may set a later time (a kernel that waited)           */
};
#define EMU_ARG(launch, i, type) (*(type *)(launch)->args[i])

struct emu_twin {
    const char *name; /* as nvcc registers it: plain for extern "C", else mangled                       */
    int n_args;
    size_t arg_bytes[EMU_TWIN_ARGS];
    void (*run)(struct emu_launch *); /* the whole grid, in one call, on the stream's thread; NULL does nothing */
    double (*lasts_ns)(const struct emu_launch *, const struct emu_profile *); /* NULL: kernel_us */
    bool by_memory; /* bound by the device's memory: lasts longer where others use that                 */
    bool waits;     /* for the host to let it end                                                       */
    bool always;    /* run even when EMU_DATA=off (it touches a few bytes only: timers, flags)        */
};

/* What a twin object exports: its twins and their number. The table lives as long as the process. */
const struct emu_twin *emu_twins(size_t *n);

/* The usual duration, in ns: the longest of kernel_us, the bytes moved over the memory bandwidth, and the
 * floating-point operations over the rate in TFLOP/s (flops 0: none). */
static inline double emu_kernel_ns(const struct emu_profile *p, double bytes, double flops, double tflops)
{
    double least = p->kernel_us * 1e3, memory = bytes / p->memory_gbps, math = flops > 0 ? flops / tflops / 1e3 : 0;
    double most = memory > math ? memory : math;

    return most > least ? most : least;
}

#ifdef __cplusplus
}
#endif
#endif
