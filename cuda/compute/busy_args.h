/* busy_args.h - the argument of the kernels in busy.cu, shared with the emulated GPUs (tests/emulator/kernels). */
#ifndef BB_CUDA_COMPUTE_BUSY_ARGS_H
#define BB_CUDA_COMPUTE_BUSY_ARGS_H

#include "cuda/compute/busy.h"

struct bb_busy_args {
    int64_t ns;
    double bytes_per_ns; /* traffic of one block, read plus written */
    void *scratch;       /* [words * 16 bytes], aligned to 16 */
    uint64_t words;
    struct bb_busy_report *report;
};

#endif
