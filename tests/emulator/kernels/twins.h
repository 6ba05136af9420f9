/* twins.h - the tables of busbar's kernels for the emulated GPUs; twins.c joins them. */
#ifndef TWINS_H
#define TWINS_H

#include "twin.h"

#ifdef __cplusplus
extern "C" {
#endif

/* A kernel's own source, run over the launch's grid and blocks. */
struct kernel_source {
    const char *name;
    void (*run)(struct emu_launch *);
};

/* Twins that run a kernel as one loop, with the kernel's duration. */
const struct emu_twin *fast_data_twins(size_t *n);           /* cuda/data */
const struct emu_twin *fast_compute_twins(size_t *n);        /* cuda/compute */
const struct emu_twin *device_twins(size_t *n);              /* collectives/ops, from their source: device_sources.cpp;
                                                                n is 0 if the NCCL header lacks the device API */
const struct kernel_source *kernel_sources(size_t *n);       /* all kernels: sources.cpp */
void start_barrier_ends(struct emu_launch *l, bool expired); /* ends the kernel at its timeout (expired), or when the
                                                                host opens the barrier */
void count_traffic(struct emu_launch *l);                    /* fills the report of bb_busy_kernel */

#ifdef __cplusplus
}
#endif
#endif
