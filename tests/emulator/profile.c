/*
 * profile.c - the machine that these GPUs are: the profile that $EMU_CLUSTER names or points to, read by the reader that
 * plans have (proxies/machine).
 */
#include "internal.h"
#include <math.h>
#include <stdlib.h>

int64_t emu_ns_of_us(double us)
{
    return llround(us * 1000.0);
}

static struct emu_profile reached_by_kernels(const struct bb_cluster *c)
{
    return (struct emu_profile){.sm_count = c->sm_count,
                                .kernel_us = c->kernel_us,
                                .memory_gbps = c->memory_gbps * (c->achieves ? c->achieved.memory : 1),
                                .tflops_float32 = c->tflops_float32,
                                .tflops_float16 = c->tflops_float16,
                                .tflops_bfloat16 = c->tflops_bfloat16,
                                .tflops_float64 = c->tflops_float64};
}

void emu_profile_load(struct bb_cluster *machine, struct emu_profile *profile)
{
    const char *word = getenv("EMU_CLUSTER");

    bb_err_context("EMU_CLUSTER: ");
    if (bb_cluster_load(word && *word ? word : "emulated-default", machine) != 0)
        _Exit(BB_EUSAGE);
    *profile = reached_by_kernels(machine);
}
