/*
 * twin.h - the interface of CPU twins. A CPU twin replaces one kernel of the program on emulated GPUs: it computes the
 * kernel's results on the CPU, and the kernel's modelled duration.
 *
 * $EMU_TWINS lists the shared objects that contain CPU twins, separated by ':'. Such a shared object exports one
 * function, emu_twins(), and links no library of the emulator. Example of a twin for the kernel
 *     extern "C" __global__ void scale(float *x, float a, size_t n);
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

/* One kernel launch. A twin may access the memory that pointer arguments refer to, because device memory is memory
 * of the process. */
struct emu_launch {
    dim3 grid, block;
    size_t shared_bytes;
    void *const *args; /* [n_args] pointers to this launch's copies of the arguments, aligned to 16 bytes */
    int device;
    int64_t start_ns; /* GPU timer when the kernel starts */
    int64_t end_ns;   /* GPU timer when the kernel ends: start_ns + lasts_ns; `run` may store a later time if the
                       kernel waited */
};
#define EMU_ARG(launch, i, type) (*(type *)(launch)->args[i])

struct emu_twin {
    const char *name; /* kernel name as nvcc registers it: plain for extern "C", otherwise mangled */
    int n_args;
    size_t arg_bytes[EMU_TWIN_ARGS];
    void (*run)(struct emu_launch *); /* computes the whole grid in one call, on the stream's worker thread; NULL: no
                                         computation */
    /* returns the modelled duration in ns; NULL: kernel_us of the profile */
    double (*lasts_ns)(const struct emu_launch *, const struct emu_profile *);
    bool by_memory; /* memory-bound: slower when concurrent operations use the device's memory */
    bool waits;     /* start barrier kernel, which runs until the host releases it */
    bool always;    /* runs even with EMU_DATA=off, because the kernel accesses only a few bytes (timers, flags) */
};

/* The only exported function of a shared object with twins. Returns its table of n twins, which stays valid until
 * the process ends. */
const struct emu_twin *emu_twins(size_t *n);

/* Returns the usual duration of a kernel in ns: the maximum of kernel_us, bytes / memory bandwidth, and flops /
 * (tflops TFLOP/s). flops 0: no arithmetic. */
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
