/* kernels_load.h - all kernels of the program, loaded before anything is timed (cuda/device/kernel_load.h says why). */
#ifndef BB_CUDA_LOAD_KERNELS_LOAD_H
#define BB_CUDA_LOAD_KERNELS_LOAD_H

#include "bootstrap/base/err.h"

/* bb_kernels_load - on the current GPU, while nothing runs on it. Returns 0 or -BB_EFAIL (said). */
BB_MUST_CHECK int bb_kernels_load(void);

#endif
