/* twins.c - what the emulated GPUs load: the twins of all of busbar's kernels in one table. */
#include "twins_busbar.h"

#include <string.h>

enum { MOST = 64 };

__attribute__((visibility("default"))) const struct emu_twin *emu_twins(size_t *n)
{
    static struct emu_twin all[MOST]; /* filled once, when the object is loaded */
    size_t n_kernels, n_compute;
    const struct emu_twin *kernels = kernel_twins(&n_kernels), *compute = compute_twins(&n_compute);

    *n = 0;
    if (n_kernels + n_compute > MOST)
        return all; /* an empty table: the first launch names the kernel that it lacks */
    memcpy(all, kernels, n_kernels * sizeof *all);
    memcpy(all + n_kernels, compute, n_compute * sizeof *all);
    *n = n_kernels + n_compute;
    return all;
}
