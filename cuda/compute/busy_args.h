/* busy_args.h - the argument of the kernels launched by busy.cu, shared with the GPU emulator
 * (tests/emulator/kernels). */
#ifndef BB_CUDA_COMPUTE_BUSY_ARGS_H
#define BB_CUDA_COMPUTE_BUSY_ARGS_H

#include "cuda/compute/busy.h"

struct bb_busy_args {
    int64_t ns;
    double bytes_per_ns; /* rate of memory traffic of one thread block, bytes read plus written per ns */
    void *scratch;       /* [words] 16-byte words, aligned to 16 bytes */
    uint64_t words;
    struct bb_busy_report *report;
};

#endif
