/* kernels_load.h - loads all kernels of the program before any measurement. See cuda/device/kernel_load.h for the
 * reason. */
#ifndef BB_CUDA_LOAD_KERNELS_LOAD_H
#define BB_CUDA_LOAD_KERNELS_LOAD_H

#include "bootstrap/base/err.h"

/*
 * bb_kernels_load - load every kernel on the current GPU. Call it while no kernel runs on the GPU.
 *   Returns  0, or -BB_EFAIL after printing an error
 */
BB_MUST_CHECK int bb_kernels_load(void);

#endif
