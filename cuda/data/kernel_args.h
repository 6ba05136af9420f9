/*
 * kernel_args.h - the argument of each kernel as one struct, shared by the launchers, the kernels and the GPU emulator
 * (tests/emulator/kernels).
 */
#ifndef BB_CUDA_DATA_KERNEL_ARGS_H
#define BB_CUDA_DATA_KERNEL_ARGS_H

#include "cuda/data/kernels.h"

struct bb_fill_args {
    void *buf;
    uint64_t count;
    struct bb_pattern pattern;
    int rank;
    uint64_t first;
};

struct bb_check_args {
    const void *buf;
    uint64_t count;
    struct bb_pattern pattern;
    struct bb_expect expect;
    struct bb_verdict *verdict;
};

struct bb_check_bytes_args {
    const void *buf;
    uint64_t bytes;
    unsigned char value;
    struct bb_verdict *verdict;
};

#endif
