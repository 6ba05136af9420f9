/* twins_busbar.h - the tables of CPU twins for busbar's kernels; twins.c hands them out as one. */
#ifndef TWINS_BUSBAR_H
#define TWINS_BUSBAR_H

#include "twin.h"

const struct emu_twin *kernel_twins(size_t *n);  /* cuda/data/kernels.cu              */
const struct emu_twin *compute_twins(size_t *n); /* cuda/compute/layer_passes.cu, cuda/compute/busy.cu  */

#endif
