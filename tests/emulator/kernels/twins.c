/*
 * twins.c - the table of all busbar kernels for the emulated GPUs. The kernels run from their own source; with
 * EMU_KERNELS=fast each runs as one loop. EMU_KERNELS=source runs the source for however long it takes.
 */
#include "twins.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MOST = 64 };

static bool is_fast(void)
{
    const char *value = getenv("EMU_KERNELS");

    return value && strcmp(value, "fast") == 0;
}

static const struct kernel_source *source_of(const char *name)
{
    size_t n;
    const struct kernel_source *sources = kernel_sources(&n);

    for (size_t i = 0; i < n; i++)
        if (strcmp(sources[i].name, name) == 0)
            return &sources[i];
    fprintf(stderr, "emulated GPUs: the source of kernel %s is not compiled in\n", name);
    _Exit(2);
}

__attribute__((visibility("default"))) const struct emu_twin *emu_twins(size_t *n)
{
    static struct emu_twin all[MOST]; /* filled once, when the object is loaded */
    size_t n_data, n_compute, n_device;
    const struct emu_twin *data = fast_data_twins(&n_data), *compute = fast_compute_twins(&n_compute),
                          *device = device_twins(&n_device);
    const bool fast = is_fast();

    *n = 0;
    if (n_data + n_compute + n_device > MOST)
        return all; /* an empty table: the first launch reports the missing twin */
    memcpy(all, data, n_data * sizeof *all);
    memcpy(all + n_data, compute, n_compute * sizeof *all);
    *n = n_data + n_compute;
    for (size_t i = 0; i < *n && !fast; i++)
        all[i].run = source_of(all[i].name)->run;
    for (size_t i = 0; i < n_device; i++)
        all[(*n)++] = device[i];
    return all;
}
