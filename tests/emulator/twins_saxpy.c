/*
 * twins_saxpy.c - CPU twins of the kernels of saxpy.cu, and of kernels that test_launch.c registers by hand.
 */
#include "twin.h"
#include <string.h>

static float scale = 3; /* a __constant__ of the program, whose memory a twin cannot access */

static void saxpy(struct emu_launch *l)
{
    float a = EMU_ARG(l, 1, float), *y = EMU_ARG(l, 3, float *);
    const float *x = EMU_ARG(l, 2, const float *);

    for (int i = 0, n = EMU_ARG(l, 0, int); i < n; i++)
        y[i] = a * x[i] + y[i];
}

static double saxpy_ns(const struct emu_launch *l, const struct emu_profile *p)
{
    return emu_kernel_ns(p, 3.0 * sizeof(float) * EMU_ARG(l, 0, int), 2.0 * EMU_ARG(l, 0, int), p->tflops_float32);
}

static void scale_all(struct emu_launch *l)
{
    float *x = EMU_ARG(l, 0, float *);

    for (size_t i = 0, n = EMU_ARG(l, 1, size_t); i < n; i++)
        x[i] *= scale;
}

struct mixed {
    char letter;
    double number;
};

/* Writes its arguments to memory for the test. */
static void echo(struct emu_launch *l)
{
    char *to = EMU_ARG(l, 0, char *);
    struct mixed mixed = EMU_ARG(l, 2, struct mixed);

    to[0] = EMU_ARG(l, 1, char);
    to[1] = mixed.letter;
    to[2] = (char)mixed.number;
    to[3] = (char)(l->grid.x * l->grid.y * l->block.z);
    to[4] = (char)l->device;
    to[5] = (char)l->shared_bytes;
}

/* Stores the GPU's timer at the start, and moves the end. */
static void timer(struct emu_launch *l)
{
    *EMU_ARG(l, 0, int64_t *) = l->start_ns;
    l->end_ns += 1000;
}

static double twelve_us(const struct emu_launch *l, const struct emu_profile *p)
{
    (void)l, (void)p;
    return 12000;
}

static const struct emu_twin twins[] = {
    {.name = "saxpy", .n_args = 4, .arg_bytes = {4, 4, 8, 8}, .run = saxpy, .lasts_ns = saxpy_ns},
    {.name = "_Z9scale_allIfEvPT_m", .n_args = 2, .arg_bytes = {8, 8}, .run = scale_all},
    {.name = "echo", .n_args = 3, .arg_bytes = {8, 1, sizeof(struct mixed)}, .run = echo},
    {.name = "timer", .n_args = 1, .arg_bytes = {8}, .run = timer, .lasts_ns = twelve_us, .always = true},
    {.name = "empty"},
};

const struct emu_twin *emu_twins(size_t *n)
{
    *n = sizeof(twins) / sizeof(twins[0]);
    return twins;
}
