/* twins.h - the tables of busbar's kernels for the emulated GPUs; twins.c hands them out as one. */
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

/* Twins that do it in one loop, and how long each kernel lasts. */
const struct emu_twin *fast_data_twins(size_t *n);           /* cuda/data                               */
const struct emu_twin *fast_compute_twins(size_t *n);        /* cuda/compute                            */
const struct kernel_source *kernel_sources(size_t *n);       /* all of them: sources.cpp                */
void start_barrier_ends(struct emu_launch *l, bool expired); /* at its limit, or when the host opens it */
void count_traffic(struct emu_launch *l);                    /* what bb_busy_kernel reports             */

#ifdef __cplusplus
}
#endif
#endif
